//! The options of `deltic sync`.

use std::ffi::{OsStr, OsString};
use std::mem;
use std::os::unix::ffi::OsStrExt;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::value_parser;
use deltic_core::Strategy;
use deltic_protocol::limits::{MAX_STREAMS, MAX_THREADS};

use super::accepted::CompatibilityArgs;
use super::compare::CompareArgs;
use super::filters::FilterArgs;
use super::headings::{CARRY, CHOOSE, TRAVEL};
use super::links::LinkArgs;
use super::metadata::MetadataArgs;
use super::remove::RemoveArgs;
use super::select::SelectArgs;
use super::server::LoginArgs;
use super::settings::{AppliedSettings, SettingArgs};
use super::show::OutputArgs;
use super::travel::{BatchArgs, ConnectionArgs, SumArgs};
use super::writing::WritingArgs;
use crate::words::shell::ShellWords;
use crate::words::size::Size;
use crate::words::ways::OptionBehaviour;

/// Arguments of `deltic sync`.
#[derive(Debug, clap::Args)]
pub(crate) struct SyncArgs {
    /// SRC... DEST: the sources and the destination; one side may be host:path
    ///
    /// A trailing slash on a source means the contents of that directory.
    #[arg(value_name = "PATH", required_unless_present_any = ANSWERS)]
    pub(crate) operands: Vec<OsString>,

    /// Print all options; -h alone prints the common options
    #[arg(long, action = clap::ArgAction::HelpShort)]
    pub(crate) help: Option<bool>,

    /// Same as -rlptgoD
    #[arg(short, long, help_heading = CARRY)]
    pub(crate) archive: bool,
    /// Descend into directories
    #[arg(short, long, overrides_with = "no_recursive", help_heading = CARRY)]
    pub(crate) recursive: bool,
    /// Preserve symbolic links
    #[arg(short, long, overrides_with = "no_links", help_heading = CARRY)]
    pub(crate) links: bool,
    /// Preserve permissions
    #[arg(short, long, overrides_with = "no_perms", help_heading = CARRY)]
    pub(crate) perms: bool,
    /// Preserve modification times
    ///
    /// Without -t, the next run cannot skip unchanged files by size and time.
    #[arg(short, long, overrides_with = "no_times", help_heading = CARRY)]
    pub(crate) times: bool,
    /// Undo the -r of -a
    #[arg(long, alias = "no-r", overrides_with = "recursive", help_heading = CARRY)]
    pub(crate) no_recursive: bool,
    /// Undo the -l of -a
    #[arg(long, alias = "no-l", overrides_with = "links", help_heading = CARRY)]
    pub(crate) no_links: bool,
    /// Undo the -p of -a
    #[arg(long, alias = "no-p", overrides_with = "perms", help_heading = CARRY)]
    pub(crate) no_perms: bool,
    /// Undo the -t of -a
    #[arg(long, alias = "no-t", overrides_with = "times", help_heading = CARRY)]
    pub(crate) no_times: bool,
    /// Owners, devices, ACLs and the like.
    #[command(flatten)]
    pub(crate) metadata: MetadataArgs,

    /// Selection of names.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Conditions for a change.
    #[command(flatten)]
    pub(crate) compare: CompareArgs,

    /// Compare contents of files of equal size
    ///
    /// A run with -c stores the digests of the files that it reads, writes or sends whole, and does not read unchanged
    /// files again. A run without -c stores no digests.
    #[arg(short, long, help_heading = CHOOSE)]
    pub(crate) checksum: bool,
    /// Rules for names.
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
    /// Symlinks.
    #[command(flatten)]
    pub(crate) follow: LinkArgs,
    /// Deletions and backups.
    #[command(flatten)]
    pub(crate) remove: RemoveArgs,
    /// Show what would change, without changing anything
    #[arg(short = 'n', long, help_heading = CHOOSE)]
    pub(crate) dry_run: bool,

    /// Ways to write files.
    #[command(flatten)]
    pub(crate) writing: WritingArgs,

    /// Send whole files, no deltas (default on one machine)
    #[arg(short = 'W', long, overrides_with = "no_whole_file", help_heading = TRAVEL)]
    pub(crate) whole_file: bool,
    /// Send deltas of files (default over a connection)
    #[arg(long, visible_alias = "no-W", overrides_with = "whole_file", help_heading = TRAVEL)]
    pub(crate) no_whole_file: bool,
    /// Use this delta algorithm: deltic, or a published one
    ///
    /// The published algorithms serve comparisons. They cannot resume an interrupted transfer.
    #[arg(long, value_name = "NAME", value_parser = strategies(), help_heading = TRAVEL)]
    #[arg(conflicts_with = "whole_file")]
    pub(crate) strategy: Option<Strategy>,
    /// Use chunks of about SIZE: 700, 8K, 128K; 0: automatic
    ///
    /// For a strategy with fixed blocks, SIZE is the block size.
    #[arg(short = 'B', long, value_name = "SIZE", help_heading = TRAVEL)]
    pub(crate) block_size: Option<Size>,
    /// Checksums.
    #[command(flatten)]
    pub(crate) sums: SumArgs,
    /// Compression, limits of rate and time.
    #[command(flatten)]
    pub(crate) travel: ConnectionArgs,
    /// Send data over N connections, 1 to 16
    ///
    /// Several connections help where one alone does not fill the line.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_STREAMS)))]
    pub(crate) streams: u32,
    /// Use N threads on each machine (default: all processors)
    #[arg(long, value_name = "N", help_heading = TRAVEL)]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(MAX_THREADS)))]
    pub(crate) threads: Option<u32>,
    /// Do not flush files to disk: faster, less safe
    ///
    /// A power failure may lose files that were reported as transferred.
    #[arg(long, overrides_with = "fsync", help_heading = TRAVEL)]
    pub(crate) no_fsync: bool,
    /// Flush files and directories to disk (default)
    #[arg(long, overrides_with = "no_fsync", help_heading = TRAVEL)]
    pub(crate) fsync: bool,
    /// Use this remote shell, with its options
    ///
    /// COMMAND is split into words as by a shell.
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh", help_heading = TRAVEL)]
    pub(crate) rsh: ShellWords,
    /// Run this program on the other machine
    #[arg(long, visible_alias = "rsync-path", value_name = "PROGRAM", default_value = "deltic")]
    #[arg(help_heading = TRAVEL)]
    pub(crate) deltic_path: OsString,
    /// Install deltic on the other machine if it is missing there
    ///
    /// As `deltic install HOST` does: this program is copied to ~/.local/bin/deltic there. Without this option, a run
    /// at a terminal asks.
    #[arg(long, conflicts_with = "deltic_path", help_heading = TRAVEL)]
    pub(crate) install: bool,

    /// Servers.
    #[command(flatten)]
    pub(crate) login: LoginArgs,
    /// Batch files.
    #[command(flatten)]
    pub(crate) batch: BatchArgs,

    /// Output.
    #[command(flatten)]
    pub(crate) show: OutputArgs,
    /// Settings.
    #[command(flatten)]
    pub(crate) _settings: SettingArgs,
    /// The settings in effect.
    #[arg(skip)]
    pub(crate) applied: AppliedSettings,
    /// The program (Deltic or rsync) that options behave like, where the two differ.
    #[arg(skip)]
    pub(crate) ways: OptionBehaviour,
    /// Options of rsync without effect here.
    #[command(flatten)]
    pub(crate) accepted: CompatibilityArgs,
}

impl SyncArgs {
    /// True if directories are entered.
    pub(crate) const fn is_recursive(&self) -> bool {
        self.recursive || (self.archive && !self.no_recursive && !self.select.has_names())
    }

    /// Applies settings: adds the operands of a profile, and moves filter rules from settings behind the rules of the
    /// command line.
    pub(super) fn complete(&mut self, mut applied: AppliedSettings) {
        self.filters.put_last(applied.rules);
        self.operands = applied.operands.take().unwrap_or_else(|| mem::take(&mut self.operands));
        self.applied = applied;
        self.split_path();
    }

    /// Moves options in `--deltic-path` to `--remote-option`, as in `--rsync-path='sudo rsync --fake-super'`.
    fn split_path(&mut self) {
        let words = self.deltic_path.as_bytes();
        let Some(at) = words.windows(3).position(|word| word == b" --") else { return };
        let (program, options) = words.split_at(at);
        let options = options.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        if options.clone().all(|word| word.starts_with(b"--")) {
            let options = options.map(|word| OsStr::from_bytes(word).to_owned());
            self.travel.remote_option.extend(options);
            self.deltic_path = OsStr::from_bytes(program).to_owned();
        }
    }
}

/// Options that need no operands: they print something or are refused, and the program ends.
const ANSWERS: [&str; 4] = ["version", "info", "debug", "daemon"];

/// Returns a parser for names of strategies; help and errors list all names.
fn strategies() -> impl TypedValueParser<Value = Strategy> {
    let names = PossibleValuesParser::new(Strategy::ALL.map(|strategy| strategy.name));
    names.try_map(|name| Strategy::by_name(&name))
}

/// The hint for an invalid command line of `sync`.
pub(crate) const HELP: &str = "see `deltic sync --help`";

pub(super) const EXAMPLES: &str = "\
EXAMPLES:
  deltic sync -av photos/ backup:/srv/photos/
      make /srv/photos on 'backup' hold what photos holds
  deltic sync -av photos backup:/srv/
      the same; without the slash, the directory itself is copied
  deltic sync -a backup:/srv/vm.img .
      fetch a file; if an older vm.img is here, only what changed
  deltic sync -ain --delete src/ /mnt/copy/
      list what would change and be removed, change nothing
  deltic sync -az -e 'ssh -p 2222' --bwlimit 2M src/ me@host:src/
      another port, compressed, at most 2 MiB a second
  deltic sync -a --include '*/' --include '*.rs' --exclude '*' src/ dst/
      directories and Rust files only; the first pattern that matches wins
  deltic sync -a --json src/ host:dst/ | jq 'select(.event == \"change\").path'
      what changed, for programs

EXIT CODES:
   0  done
   1  the command line is invalid
   2  the two ends share no protocol
   3  a source or the destination cannot be used
   4  an option is not supported
  10  the connection could not be read or written
  11  files, or standard output, could not be read or written
  12  the connection ended early, or the other end broke the protocol
  14  the remote shell could not be started
  20  interrupted by a signal
  23  some names failed
  24  some names vanished at the source
  25  deletions were held back
  30  no data for --timeout seconds, or the time limit was reached (--stop-after, --stop-at)
  35  no connection within --contimeout seconds
 127  the remote shell did not find deltic on the other machine
 255  the remote shell failed: ssh could not connect, for example";
