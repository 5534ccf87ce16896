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
use crate::words::rate::ByteRate;
use crate::words::shell::ShellWords;

/// Compare two trees by what is in their files, and tell each difference
///
/// Every file of one length is read on both sides, and its BLAKE3 sum compared; nothing is changed. A line is told for
/// each name that differs: what differs, then the name as it is called in B. `missing`: only A has it; `extra`: only B
/// has it; `kind`: one is a directory, say, and the other a file; `content`; or what else was asked for, such as
/// `mode,time`, and `links` where it is another name of a file in A alone (-H). Symbolic links are compared by where
/// they point, and devices by their numbers. The last line says what it came to.
///
/// One of the two may be a URL of a store: s3://, gs://, azure://, hdfs://. Then contents are compared by the sums that
/// it keeps, and the file here is read, unless its file system keeps the same sums. What has no sum is read on both
/// sides. The line before the last says which it was.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
#[command(override_usage = "deltic verify [OPTIONS] A B")]
pub(crate) struct VerifyArgs {
    /// A B: two directories or files; one may be host:path, or a URL of a store
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
    /// Write events for programs, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Name what is equal too
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show errors only: the exit code says the rest
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show progress where there is no terminal too
    #[arg(long, overrides_with = "no_progress")]
    pub(crate) progress: bool,
    /// Show no progress, not even on a terminal
    #[arg(long, overrides_with = "progress")]
    pub(crate) no_progress: bool,
    /// Use this remote shell, with its options
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub(crate) rsh: ShellWords,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    pub(crate) deltic_path: OsString,
    /// Servers.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Limit bytes a second: 500K, 1.5M, 2GB; 0: no limit
    #[arg(long, value_name = "RATE")]
    pub(crate) bwlimit: Option<ByteRate>,
    #[command(flatten)]
    pub(crate) links: TrustArgs,
    /// Compare sums that file systems keep, and read what has none
    #[arg(long)]
    pub(crate) trust_sums: bool,
    /// Use N threads on each machine (default: all processors)
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u32>,
    /// Names that take part; what is left out in A is not missed in B, nor the other way round.
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    /// Owners, ACLs and the like.
    #[command(flatten)]
    pub(crate) metadata: MetadataArgs,
    /// Settings.
    #[command(flatten)]
    pub(crate) _settings: SettingArgs,
    /// The settings that count.
    #[arg(skip)]
    pub(crate) applied: AppliedSettings,
}

impl VerifyArgs {
    /// Applies settings: adds operands of a profile, and moves rules from settings behind the user's rules.
    pub(super) fn complete(&mut self, mut applied: AppliedSettings) {
        self.filters.put_last(applied.rules);
        self.operands = applied.operands.take().unwrap_or_else(|| mem::take(&mut self.operands));
        self.applied = applied;
    }
}

const EXAMPLES: &str = "\
EXAMPLES:
  deltic verify photos backup:/srv/photos
      read everything on both machines and say what differs
  deltic verify -a --exclude '*.tmp' src /mnt/copy && echo equal
      attributes too
  deltic verify /srv/images s3://backups/images
      what a store keeps, by its sums

EXIT CODES:
   0  nothing differs
  23  something could not be read: what is told may not be all
  26  something differs
      and those of `deltic sync`";
