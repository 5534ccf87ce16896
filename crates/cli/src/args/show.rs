//! Options for output: for people, for programs and for a log.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, ValueEnum};

use super::headings::SHOW;
use crate::words::levels;

/// Options for output.
#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// List changes, and print totals; -vv: list all names
    ///
    /// -vv also lists names that are up to date, skipped, or changed in attributes only.
    #[arg(short, long, action = ArgAction::Count, help_heading = SHOW)]
    pub(crate) verbose: u8,
    /// Show errors only
    #[arg(short, long, help_heading = SHOW)]
    pub(crate) quiet: bool,
    /// Select informational output: name,stats2,del0; or help
    #[arg(long, value_name = "FLAGS", action = ArgAction::Append, help_heading = SHOW)]
    pub(crate) info: Vec<String>,
    /// Select debug output: flist,deltasum,fuzzy,nstr; or help
    #[arg(long, value_name = "FLAGS", action = ArgAction::Append, help_heading = SHOW)]
    pub(crate) debug: Vec<String>,
    /// Itemize changes as rsync does; -ii: list all names
    #[arg(short, long, action = ArgAction::Count, help_heading = SHOW)]
    pub(crate) itemize_changes: u8,
    /// Print changes in FORMAT: %n name, %i change, ...
    #[arg(long, value_name = "FORMAT", visible_alias = "log-format")]
    #[arg(help_heading = SHOW)]
    pub(crate) out_format: Option<OsString>,
    /// Append a log of the run to FILE
    #[arg(long, value_name = "FILE", help_heading = SHOW)]
    pub(crate) log_file: Option<PathBuf>,
    /// Log changes in FORMAT [default: %i %n%L]
    ///
    /// An empty FORMAT logs no changes.
    #[arg(long, value_name = "FORMAT", help_heading = SHOW)]
    pub(crate) log_file_format: Option<OsString>,
    /// Print transfer statistics at the end
    #[arg(long, help_heading = SHOW)]
    pub(crate) stats: bool,
    /// Print transfer statistics as KEY=VALUE in one line
    #[arg(long, help_heading = SHOW)]
    pub(crate) stats_one_line: bool,
    /// Explain why files were sent whole or as deltas
    ///
    /// With -v for each file, else as totals.
    #[arg(long, help_heading = SHOW)]
    pub(crate) explain: bool,
    /// Show progress, and list changes
    ///
    /// If standard output is not a terminal, progress is one line a second.
    #[arg(long, overrides_with = "no_progress", help_heading = SHOW)]
    pub(crate) progress: bool,
    /// Same as --partial --progress
    #[arg(short = 'P', overrides_with = "no_progress", help_heading = SHOW)]
    pub(crate) partial_progress: bool,
    /// Do not show progress, even on a terminal
    #[arg(long, overrides_with_all = ["progress", "partial_progress"], help_heading = SHOW)]
    pub(crate) no_progress: bool,
    /// Print events for programs, one JSON object a line
    ///
    /// Nothing else is written to standard output.
    #[arg(long, help_heading = SHOW)]
    pub(crate) json: bool,
    /// Show numbers in K, M, G of 1000; -hh: of 1024
    #[arg(short = 'h', long, action = ArgAction::Count, help_heading = SHOW)]
    #[arg(overrides_with = "no_human_readable")]
    pub(crate) human_readable: u8,
    /// Show numbers without separators
    #[arg(long, alias = "no-h", help_heading = SHOW)]
    pub(crate) no_human_readable: bool,
    /// Do not escape bytes above 127 in names
    #[arg(short = '8', long = "8-bit-output", help_heading = SHOW)]
    pub(crate) eight_bit_output: bool,
    /// Choose the messages that go to standard error
    #[arg(long, value_name = "MODE", default_value = "errors", help_heading = SHOW)]
    pub(crate) stderr: StderrMode,
    /// Same as --stderr=all, for older scripts
    #[arg(long, overrides_with_all = ["stderr", "no_msgs2stderr"], hide = true)]
    pub(crate) msgs2stderr: bool,
    /// The same as --stderr=client
    #[arg(long, overrides_with_all = ["stderr", "msgs2stderr"], hide = true)]
    no_msgs2stderr: bool,
    /// Set output buffering: None, Line or Block
    #[arg(long, value_name = "MODE", ignore_case = true, help_heading = SHOW)]
    pub(crate) outbuf: Option<OutputBuffering>,
    /// Accepted: only daemons have a message of the day
    #[arg(long, help_heading = SHOW)]
    pub(crate) no_motd: bool,
    /// Print version and features; -VV: as JSON
    #[arg(short = 'V', long, action = ArgAction::Count, help_heading = SHOW)]
    pub(crate) version: u8,
}

impl OutputArgs {
    /// True if the options ask for progress.
    pub(crate) const fn wants_progress(&self) -> bool {
        self.progress || self.partial_progress
    }

    /// Returns the levels of `--info` after all options about output.
    ///
    /// # Errors
    /// [`levels::UnknownItem`] for a name that rsync does not know.
    pub(crate) fn levels(&self) -> Result<levels::InfoLevels, levels::UnknownItem> {
        let mut info = levels::InfoLevels::verbose(self.verbose);
        if self.stats {
            info.raise("stats2");
        }
        if self.wants_progress() {
            info.raise("name,flist2,progress");
        }
        for flags in &self.info {
            info.set(flags)?;
        }
        Ok(info)
    }

    /// Returns the levels of `--debug` after all options about output.
    ///
    /// # Errors
    /// [`levels::UnknownItem`] for a name that rsync does not know.
    pub(crate) fn debug(&self) -> Result<levels::DebugLevels, levels::UnknownItem> {
        let mut debug = levels::DebugLevels::verbose(self.verbose);
        self.debug.iter().try_for_each(|flags| debug.set(flags))?;
        Ok(if self.quiet { levels::DebugLevels::default() } else { debug })
    }
}

/// Stream for messages that are no errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrMode {
    /// Only errors go to standard error.
    #[value(alias = "e")]
    Errors,
    /// All messages go to standard error.
    #[value(alias = "a")]
    All,
    /// Same as `errors`.
    #[value(alias = "c")]
    Client,
}

/// When standard output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputBuffering {
    #[value(alias = "n", alias = "unbuffered", alias = "u")]
    None,
    #[value(alias = "l")]
    Line,
    #[value(alias = "b", alias = "full", alias = "f")]
    Block,
}
