//! Exit codes: rsync's documented codes, so that scripts still work.

use std::io;
use std::process::ExitCode;

use deltic_core::format::FormatError;
use deltic_net::{Outcome, SyncError};
use deltic_protocol::report::{Trouble, TroubleKind};
use deltic_tree::rule::TOO_DEEP;

use crate::report::output::behaves_like_rsync;
use crate::words::refused::{Misused, UnreadableFile, Unsupported};

/// An exit code with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// The arguments are invalid.
    Usage = 1,
    /// The two ends have no protocol version in common.
    Incompatible = 2,
    /// A source or the destination cannot be used.
    Selection = 3,
    /// The requested action is not supported.
    Unsupported = 4,
    /// Reading or writing the connection failed.
    Transport = 10,
    /// Reading or writing files, or standard output, failed.
    Files = 11,
    /// The other end broke the protocol or went away.
    Stream = 12,
    /// The other end could not be started.
    Start = 14,
    Interrupted = 20,
    /// Some names failed.
    Partial = 23,
    /// Some names vanished while they were read.
    Vanished = 24,
    /// Deletions were held back by a limit.
    DeleteLimit = 25,
    /// The two trees differ; rsync has no such code.
    Different = 26,
    /// The connection was silent for too long, or the time limit was reached.
    Timeout = 30,
    /// The other end did not answer in time.
    ConnectTimeout = 35,
    /// The remote shell did not find the program.
    NoRemoteProgram = 127,
    /// The remote shell itself failed, by ssh's exit status.
    RemoteShell = 255,
}

/// Kinds of trouble in a run that determine the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TroubleKinds {
    failed: bool,
    vanished: bool,
    limited: bool,
    /// Rule files nest too deep, and the program is called as rsync: rsync ends with 11.
    too_deep: bool,
}

impl TroubleKinds {
    /// Records a trouble.
    pub(crate) fn note_trouble(&mut self, trouble: &Trouble) {
        self.note(trouble.kind);
        self.too_deep |= trouble.message.ends_with(TOO_DEEP) && behaves_like_rsync();
    }

    /// Records the kind of a trouble.
    pub(crate) fn note(&mut self, kind: TroubleKind) {
        match kind {
            TroubleKind::Failed => self.failed = true,
            TroubleKind::Vanished => self.vanished = true,
            TroubleKind::DeleteLimit => self.limited = true,
            TroubleKind::Skipped | TroubleKind::UnsafeLink | TroubleKind::Warned => {}
        }
    }

    /// Begins another attempt of the run, which compares all names again. Names that vanished are not listed again.
    pub(crate) fn begin_again(&mut self) {
        *self = Self { vanished: self.vanished, ..Self::default() };
    }
}

impl Exit {
    /// Returns the exit status.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Returns the meaning, in rsync's words if rsync has the code.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Usage => "syntax or usage error",
            Self::Incompatible => "protocol incompatibility",
            Self::Selection => "errors selecting input/output files, dirs",
            Self::Unsupported => "requested action not supported",
            Self::Transport => "error in socket IO",
            Self::Files => "error in file IO",
            Self::Stream => "error in rsync protocol data stream",
            Self::Start => "error in IPC code",
            Self::Interrupted => "received SIGINT, SIGTERM, or SIGHUP",
            Self::Partial => "some files/attrs were not transferred (see previous errors)",
            Self::Vanished => "some files vanished before they could be transferred",
            Self::DeleteLimit => "a limit stopped deletions",
            Self::Different => "the trees are not equal",
            Self::Timeout => "timeout in data send/receive",
            Self::ConnectTimeout => "timeout waiting for daemon connection",
            Self::NoRemoteProgram => "remote command not found",
            Self::RemoteShell => "unexplained error",
        }
    }

    /// Returns the exit of a run that was refused before it began.
    pub(crate) fn after_refusal(refusal: &anyhow::Error) -> Self {
        match refusal {
            refusal if refusal.is::<Unsupported>() => Self::Unsupported,
            refusal if refusal.is::<UnreadableFile>() => Self::Files,
            _ => Self::Usage,
        }
    }

    /// Returns the exit of a completed run. A failure outweighs a vanished name, which outweighs a held-back
    /// deletion.
    pub(crate) fn of(result: &Result<Outcome, SyncError>, troubles: TroubleKinds) -> Self {
        match (result, troubles) {
            (Err(error), _) => Self::from(error),
            (Ok(_), TroubleKinds { too_deep: true, .. }) => Self::Files,
            (Ok(outcome), _) if outcome.totals.failed > 0 && !troubles.vanished => Self::Partial,
            (Ok(_), TroubleKinds { failed: true, .. }) => Self::Partial,
            (Ok(_), TroubleKinds { vanished: true, .. }) => Self::Vanished,
            (Ok(_), TroubleKinds { limited: true, .. }) => Self::DeleteLimit,
            (Ok(_), _) => Self::Success,
        }
    }
}

impl From<&SyncError> for Exit {
    fn from(error: &SyncError) -> Self {
        match error {
            SyncError::Usage(_) | SyncError::Options(_) => Self::Usage,
            SyncError::Incompatible(_) | SyncError::Versions(_) | SyncError::Unclean(_) => {
                Self::Incompatible
            }
            SyncError::Selection(_) | SyncError::SelectionThere(_) | SyncError::Busy { .. } => {
                Self::Selection
            }
            // A watch of a missing source ends like a sync of that source.
            SyncError::NoSource(_) => Self::Partial,
            SyncError::Transport { .. } | SyncError::Dial { .. } => Self::Transport,
            SyncError::Refused(_) | SyncError::Files(_) => Self::Files,
            SyncError::NoAnswer(status) | SyncError::ShellEnded(status)
                if status.code() == Some(255) =>
            {
                Self::RemoteShell
            }
            SyncError::Protocol(_)
            | SyncError::Damaged
            | SyncError::Batch { .. }
            | SyncError::Disconnected(_)
            | SyncError::StreamLost
            | SyncError::ShellEnded(_)
            | SyncError::NoAnswer(_) => Self::Stream,
            SyncError::Internal | SyncError::Watch { .. } => Self::Files,
            SyncError::Start { .. } | SyncError::Thread(_) => Self::Start,
            SyncError::Interrupted | SyncError::Torn(_) => Self::Interrupted,
            SyncError::Silence | SyncError::TimeUp => Self::Timeout,
            SyncError::NoAnswerInTime => Self::ConnectTimeout,
            SyncError::NoRemoteProgram => Self::NoRemoteProgram,
        }
    }
}

/// The exit of a command on single files: for invalid arguments, system errors, bad data, or files that do not match.
impl From<&anyhow::Error> for Exit {
    fn from(error: &anyhow::Error) -> Self {
        if error.is::<Misused>() {
            Self::Usage
        } else if error.is::<UnreadableFile>() || error.chain().any(|cause| cause.is::<io::Error>())
        {
            Self::Files
        } else if error.chain().any(|cause| cause.is::<FormatError>()) {
            Self::Stream
        } else {
            Self::Selection
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use deltic_protocol::report::Totals;
    use deltic_tree::RelPath;

    fn troubles(kinds: &[TroubleKind]) -> TroubleKinds {
        let mut troubles = TroubleKinds::default();
        kinds.iter().for_each(|kind| troubles.note(*kind));
        troubles
    }

    #[test]
    fn a_run_that_ended_early_has_the_code_of_rsync() {
        let io = || io::Error::other("why");
        for (error, code) in [
            (SyncError::Usage(String::new()), 1),
            (SyncError::Options(String::new()), 1),
            (SyncError::Incompatible(String::new()), 2),
            (SyncError::Selection(String::new()), 3),
            (SyncError::SelectionThere(String::new()), 3),
            (SyncError::Busy { why: String::new(), wait: Duration::ZERO }, 3),
            (SyncError::NoSource(String::new()), 23),
            (SyncError::Transport { action: "read", source: io() }, 10),
            (SyncError::Refused(String::new()), 11),
            (SyncError::Files(String::new()), 11),
            (SyncError::Protocol(String::new()), 12),
            (SyncError::Disconnected(String::new()), 12),
            (SyncError::NoRemoteProgram, 127),
            (SyncError::Start { program: "ssh".into(), source: io() }, 14),
            (SyncError::Interrupted, 20),
            (SyncError::Torn(RelPath::root()), 20),
            (SyncError::Silence, 30),
            (SyncError::TimeUp, 30),
            (SyncError::NoAnswerInTime, 35),
        ] {
            let shown = error.to_string();
            assert_eq!(Exit::of(&Err(error), TroubleKinds::default()).code(), code, "{shown}");
        }
    }

    #[test]
    fn a_command_on_single_files_tells_the_system_from_the_data() {
        let io = anyhow::Error::from(io::Error::other("why")).context("cannot open x");
        assert_eq!(Exit::from(&io), Exit::Files);
        assert_eq!(Exit::from(&anyhow::Error::from(FormatError::Truncated)), Exit::Stream);
        assert_eq!(Exit::from(&anyhow::anyhow!("another file")), Exit::Selection);
    }

    #[test]
    fn failed_outweighs_vanished_outweighs_held_back() {
        use TroubleKind::{DeleteLimit, Failed, Skipped, Vanished};
        for (kinds, code) in [
            (&[][..], 0),
            (&[Skipped], 0),
            (&[Failed], 23),
            (&[Vanished], 24),
            (&[DeleteLimit], 25),
            (&[Vanished, DeleteLimit], 24),
            (&[DeleteLimit, Vanished, Failed, Skipped], 23),
        ] {
            let exit = Exit::of(&Ok(Outcome::default()), troubles(kinds));
            assert_eq!(exit.code(), code, "{kinds:?}");
        }
    }

    #[test]
    fn a_failure_that_was_only_counted_is_a_failure() {
        let totals = Totals { failed: 1, ..Totals::default() };
        let outcome = Ok(Outcome { totals, ..Outcome::default() });
        assert_eq!(Exit::of(&outcome, TroubleKinds::default()), Exit::Partial);
        assert_eq!(Exit::of(&outcome, troubles(&[TroubleKind::Vanished])), Exit::Vanished);
    }
}
