//! The options of `deltic verify`.

use std::ffi::OsString;
use std::mem;

use clap::value_parser;
use deltic_protocol::limits::MAX_THREADS;

use super::filters::FilterArgs;
use super::links::TrustArgs;
use super::metadata::MetadataArgs;
use super::server::LoginArgs;
use super::settings::{AppliedSettings, SettingArgs};
use crate::words::rate::Bandwidth;
use crate::words::shell::ShellWords;

/// Compare the contents of two trees, and list the differences
///
/// Reads files of equal length on both sides, and compares their BLAKE3 digests. Nothing is changed. Each line has a
/// difference and a name as in B. `missing`: only A has the name; `extra`: only B has the name; `kind`: the file types
/// differ; `content`: the contents differ; `mode,time` and so on: the attributes differ that the options ask for;
/// `links` (-H): the name is a hard link only in A. Symbolic links are compared by their targets, devices by their
/// numbers. The last line is a summary.
///
/// A or B may be the URL of a store: s3://, gs://, azure://, hdfs://; or both, or one of them and the other the URL of a
/// server. Contents are then compared by the checksums of
/// the store. The local file is read, unless its file system stores the same kind of checksum. Files without a
/// checksum are read on both sides. The line before the summary names the checksums.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
#[command(override_usage = "deltic verify [OPTIONS] A B")]
pub(crate) struct VerifyArgs {
    /// A B: two directories or files; one may be host:path, and both may be URLs
    #[arg(value_name = "PATH", required = true)]
    pub(crate) operands: Vec<OsString>,
    /// Same as -ptgo
    #[arg(short, long)]
    pub(crate) archive: bool,
    /// Compare permission bits
    #[arg(short, long)]
    pub(crate) perms: bool,
    /// Compare modification times, to the nanosecond
    #[arg(short, long)]
    pub(crate) times: bool,
    /// Print events for programs, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// List equal names too
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show errors only; the exit code is the result
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show progress, even without a terminal
    #[arg(long, overrides_with = "no_progress")]
    pub(crate) progress: bool,
    /// Do not show progress, even on a terminal
    #[arg(long, overrides_with = "progress")]
    pub(crate) no_progress: bool,
    /// Use this remote shell, with its options
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub(crate) rsh: ShellWords,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    pub(crate) deltic_path: OsString,
    /// Token and pin for `https://` servers.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Limit bytes a second: 500K, 1.5M, 2GB, auto; 0: none
    #[arg(long, value_name = "RATE")]
    pub(crate) bwlimit: Option<Bandwidth>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
    /// Compare checksums that file systems store; read files without
    #[arg(long)]
    pub(crate) trust_sums: bool,
    /// Use N threads on each machine (default: all processors)
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u32>,
    /// Selection of names. Names excluded in A are not reported as extra in B, nor the other way round.
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    /// Owners, ACLs and the like.
    #[command(flatten)]
    pub(crate) metadata: MetadataArgs,
    /// Settings.
    #[command(flatten)]
    pub(crate) _settings: SettingArgs,
    /// The settings in effect.
    #[arg(skip)]
    pub(crate) applied: AppliedSettings,
}

impl VerifyArgs {
    /// Applies settings: adds the operands of a profile, and moves filter rules from settings behind the rules of the
    /// command line.
    pub(super) fn complete(&mut self, mut applied: AppliedSettings) {
        self.filters.put_last(applied.rules);
        self.operands = applied.operands.take().unwrap_or_else(|| mem::take(&mut self.operands));
        self.applied = applied;
    }
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic verify photos backup:/srv/photos
      read all files on both machines, and list the differences
  deltic verify -a --exclude '*.tmp' src /mnt/copy && echo equal
      compare attributes too
  deltic verify /srv/images s3://backups/images
      compare by the checksums of a store
  deltic verify s3://backups/images gs://copy/images
      compare two stores

EXIT CODES:
   0  the trees are equal
  23  some files could not be read: the list may be incomplete
  26  the trees differ
      other codes as `deltic sync`";
