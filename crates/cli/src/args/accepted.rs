//! rsync's options without effect here, and rsync's options that Deltic does not support.
//!
//! Options without effect are accepted, so that scripts run. Unsupported options are refused with a reason.

use std::ffi::OsString;

use anyhow::{Result, bail, ensure};
use clap::ArgAction;

use super::headings::COMPATIBLE;
use crate::words::refused::Unsupported;
use crate::words::ways::OptionBehaviour;

/// Options of rsync that are accepted without effect, or refused.
#[derive(Debug, clap::Args)]
pub(crate) struct CompatibilityArgs {
    /// Accepted: the file list is always incremental
    #[arg(long, visible_alias = "i-r", help_heading = COMPATIBLE)]
    #[arg(overrides_with = "no_inc_recursive")]
    pub(crate) inc_recursive: bool,
    /// Accepted: the file list stays incremental
    #[arg(long, visible_alias = "no-i-r", help_heading = COMPATIBLE)]
    pub(crate) no_inc_recursive: bool,
    /// Accepted: the protocol is always Deltic's
    #[arg(long, value_name = "NUM", help_heading = COMPATIBLE)]
    pub(crate) protocol: Option<u32>,
    /// Accepted: each session has a random checksum key
    #[arg(long, value_name = "NUM", help_heading = COMPATIBLE)]
    pub(crate) checksum_seed: Option<i64>,
    /// Accepted: the remote shell may use blocking I/O
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) blocking_io: bool,
    /// Accepted: both ends use the same compression
    #[arg(long, aliases = ["new-compress"], help_heading = COMPATIBLE)]
    pub(crate) old_compress: bool,
    /// Accepted: the file list has a fixed order
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) qsort: bool,
    /// Accepted: creation times are never set
    #[arg(long, aliases = ["no-N"], help_heading = COMPATIBLE)]
    pub(crate) no_crtimes: bool,
    /// Accepted: devices are never written
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) no_write_devices: bool,
    /// Accepted: the file list is always checked
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) trust_sender: bool,
    /// Accepted: memory is bounded by the protocol
    #[arg(long, value_name = "SIZE", help_heading = COMPATIBLE)]
    pub(crate) max_alloc: Option<OsString>,
    /// Accepted: for daemons; with ssh, use -e 'ssh -p N'
    #[arg(long, value_name = "PORT", help_heading = COMPATIBLE)]
    pub(crate) port: Option<u16>,
    /// Accepted: for connections to daemons
    #[arg(long, value_name = "OPTIONS", help_heading = COMPATIBLE)]
    pub(crate) sockopts: Option<OsString>,
    /// Accepted: for connections to daemons
    #[arg(long, value_name = "ADDRESS", help_heading = COMPATIBLE)]
    pub(crate) address: Option<OsString>,
    /// Refused: for connections to daemons
    #[arg(long, value_name = "FILE", help_heading = COMPATIBLE)]
    pub(crate) password_file: Option<OsString>,
    /// Accepted: for connections to daemons
    #[arg(long, value_name = "FILE", help_heading = COMPATIBLE)]
    pub(crate) early_input: Option<OsString>,
    /// Refused: names are copied byte by byte
    #[arg(long, value_name = "SPEC", help_heading = COMPATIBLE)]
    pub(crate) iconv: Option<String>,
    /// Refused: run deltic as USER
    #[arg(long, value_name = "USER", help_heading = COMPATIBLE)]
    pub(crate) copy_as: Option<OsString>,
    /// Refused: the other end must be `deltic agent`
    #[arg(long, action = ArgAction::SetTrue, help_heading = COMPATIBLE)]
    pub(crate) server: bool,
    /// Refused, as --server
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) sender: bool,
    /// Refused: Deltic starts itself over ssh
    #[arg(long, help_heading = COMPATIBLE)]
    pub(crate) daemon: bool,
}

impl CompatibilityArgs {
    /// Refuses options that Deltic does not support.
    ///
    /// # Errors
    /// The option, with an alternative.
    pub(crate) fn check(&self, ways: OptionBehaviour) -> Result<()> {
        ways.check_max_alloc(self.max_alloc.as_deref())?;
        ensure!(
            self.password_file.is_none(),
            "--password-file: only rsync's daemons have passwords"
        );
        let converts = self.iconv.as_deref().is_some_and(|spec| !matches!(spec, "-" | "." | ""));
        for (asked, what, instead) in [
            (self.server, "--server", OTHER_END),
            (self.sender, "--sender", OTHER_END),
            (self.daemon, "--daemon", "Deltic starts itself over ssh, as host:path"),
            (converts, "--iconv", "Deltic does not convert names"),
            (self.copy_as.is_some(), "--copy-as", "run deltic as the user who shall own the files"),
        ] {
            if asked {
                bail!(Unsupported::new(what.into(), instead));
            }
        }
        Ok(())
    }
}

const OTHER_END: &str =
    "the other end must be deltic too: --rsync-path=deltic, or -e with rsync on both sides";
