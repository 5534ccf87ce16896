//! Why a whole run ended early. A file that fails is a [`Trouble`](deltic_protocol::report::Trouble) instead.

use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::time::Duration;

use deltic_protocol::PeerError;
use deltic_protocol::hello::{Abort, AbortCause, MAGIC};
use deltic_store_local::reason;
use deltic_tree::RelPath;

/// Why a run could not start or go on; each variant is one thing that a caller can tell a user to do.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The request makes no sense: destination inside the source, say.
    #[error("{0}")]
    Usage(String),
    /// Options do not go together, or not with these operands.
    #[error("{0}")]
    Options(String),
    /// A source or the destination cannot be used at all.
    #[error("{0}")]
    Selection(String),
    /// A source that is to be watched is not there.
    #[error("{0}")]
    NoSource(String),
    /// The same as [`Self::Selection`], said by the other end of what is on its machine.
    #[error("{0}")]
    SelectionThere(String),
    /// What was to be read as a batch is none, or a damaged one.
    #[error("--read-batch: {0}")]
    Batch(String),
    /// The files of this machine ended the run: a destination could not be made.
    #[error("{0}")]
    Files(String),
    /// The remote shell or program could not be started.
    #[error("cannot start {program}: {}", reason(source))]
    Start {
        /// What was to be started.
        program: String,
        /// Why it was not.
        source: io::Error,
    },
    /// A server could not be reached, or is not who it is to be.
    #[error("cannot {what}: {}", reason(source))]
    Dial {
        /// What was tried, with which server.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The remote shell ended before the program there said anything: it never connected, was not let in, or the
    /// program is another one.
    #[error("the remote shell ended before deltic answered ({0})")]
    NoAnswer(std::process::ExitStatus),
    /// The remote shell ran and did not find the program there.
    #[error("the remote shell did not find deltic there")]
    NoRemoteProgram,
    /// What came is not what a Deltic says first: most likely something on the way there prints it.
    #[error("{0}")]
    Unclean(PeerError),
    /// The other end is no Deltic, or one that we share no capability with.
    #[error("{0}")]
    Incompatible(String),
    /// The other end is a Deltic of a version that ours cannot talk to.
    #[error("{0}")]
    Versions(Versions),
    /// The other end broke the protocol.
    #[error("the other end broke the protocol: {0}")]
    Protocol(String),
    /// The connection changed what it carried.
    #[error("the connection damaged what it carried; nothing of that was used")]
    Damaged,
    /// The connection ended before the run did.
    #[error("the connection ended early: {0}")]
    Disconnected(String),
    /// The same, and the remote shell says that all was not well.
    #[error("the connection ended early: the remote shell ended with {0}")]
    ShellEnded(std::process::ExitStatus),
    /// A stream beside the first ended before the run did.
    #[error("one of the streams to the other end ended early")]
    StreamLost,
    /// The other end refused or gave up, and says why.
    #[error("{0}")]
    Refused(String),
    /// The other end has no room now, and says when it may have some.
    #[error("{why} (it says to wait {} s)", wait.as_secs())]
    Busy {
        /// Reason: there is too much of something.
        why: String,
        /// Time after which another attempt may succeed.
        wait: Duration,
    },
    /// Reading or writing the connection failed.
    #[error("cannot {action}: {}", reason(source))]
    Transport {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The system does not let us watch the source.
    #[error("cannot {action}: {}", reason(source))]
    Watch {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The system has no thread for us.
    #[error("cannot start a thread: {}", reason(.0))]
    Thread(io::Error),
    /// A bug: a thread of ours panicked, and said where on standard error.
    #[error("an internal error ended the run")]
    Internal,
    /// No sign of life of the other end for as long as the plan allows.
    #[error("timeout: nothing has come from the other end for too long (--timeout)")]
    Silence,
    /// The other end said nothing for as long as the plan allows.
    #[error("timeout: no answer from the other end")]
    NoAnswerInTime,
    /// The run has taken as long as the plan allows.
    #[error("stopped at the requested time")]
    TimeUp,
    /// Ctrl-C, or another signal to end.
    #[error("interrupted")]
    Interrupted,
    /// A second such signal, while a file was changing where it is.
    #[error(
        "interrupted while {0} was changing in place: it is part old and part new until the same command is run again"
    )]
    Torn(RelPath),
}

/// The versions of two ends that cannot talk to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The version of this end.
    pub here: String,
    /// The version of the other end.
    pub there: String,
    /// The host of the other end, if it has a name.
    pub host: Option<String>,
}

impl Versions {
    /// Compares this end's version with the other's.
    #[must_use]
    pub fn order(&self) -> Ordering {
        let numbers = |version: &str| -> Vec<u64> {
            let version = version.trim_start_matches(|c: char| !c.is_ascii_digit());
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            numbers.map_while(|number| number.parse().ok()).collect()
        };
        numbers(&self.here).cmp(&numbers(&self.there))
    }

    /// The same as the other end sees it.
    fn turned(&self) -> Self {
        Self { here: self.there.clone(), there: self.here.clone(), host: None }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { here, there, host } = self;
        write!(f, "incompatible versions: {here} here, {there} ")?;
        match host {
            Some(host) => write!(f, "on {host}"),
            None => f.write_str("at the other end"),
        }
    }
}

impl SyncError {
    /// The same error; what the other end says is said of its host.
    #[must_use]
    pub fn on(self, host: &str) -> Self {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        match self {
            Self::Versions(versions) => {
                Self::Versions(Versions { host: Some(host.into()), ..versions })
            }
            Self::SelectionThere(why) => Self::SelectionThere(format!("{host}: {why}")),
            Self::Refused(why) => Self::Refused(format!("{host}: {why}")),
            Self::Busy { why, wait } => Self::Busy { why: format!("{host}: {why}"), wait },
            other => other,
        }
    }

    /// True if the connection is gone, or its remote shell, whatever ended it.
    pub(crate) const fn is_lost_connection(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer(_)
                | Self::ShellEnded(_)
                | Self::Disconnected(_)
                | Self::StreamLost
                | Self::Transport { .. }
        )
    }

    /// The words of a run whose other end is a task of this very process, on this machine.
    pub(crate) fn of_one_process(self) -> Self {
        match self {
            Self::SelectionThere(why) => Self::Selection(why),
            Self::Refused(why) => Self::Files(why),
            other => other,
        }
    }
}

impl From<Abort> for SyncError {
    fn from(Abort { cause, message }: Abort) -> Self {
        match cause {
            AbortCause::Selection => Self::SelectionThere(message),
            AbortCause::Protocol | AbortCause::Internal => Self::Refused(message),
            AbortCause::Stream => Self::StreamLost,
            AbortCause::Incompatible => Self::Incompatible(message),
            AbortCause::Damaged => Self::Damaged,
        }
    }
}

impl From<PeerError> for SyncError {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::NotDeltic(_) => Self::Unclean(error),
            PeerError::OtherProtocol(there) => {
                let here = String::from_utf8_lossy(&MAGIC).into();
                Self::Versions(Versions { here, there, host: None })
            }
            PeerError::Rsync | PeerError::NothingInCommon(_) => {
                Self::Incompatible(error.to_string())
            }
            PeerError::Damaged => Self::Damaged,
            _ => Self::Protocol(error.to_string()),
        }
    }
}

/// The end of what a stream brings.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The other end closed its side between two frames.
    Closed,
    /// It closed, or the stream broke, inside one.
    Broken(std::io::Error),
    /// It sent what is no frame.
    Bad(PeerError),
    /// A stream beside the first ended.
    Lost,
}

impl From<ReadEnd> for SyncError {
    fn from(end: ReadEnd) -> Self {
        match end {
            ReadEnd::Closed => Self::Disconnected("the other end closed it".into()),
            ReadEnd::Lost => Self::StreamLost,
            ReadEnd::Broken(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Self::Disconnected("in the midst of a frame".into())
            }
            // A transport that knows why it ended says so in our words.
            ReadEnd::Broken(source) => source.downcast().unwrap_or_else(|source| Self::Transport {
                action: "read from the other end",
                source,
            }),
            ReadEnd::Bad(error) => error.into(),
        }
    }
}

/// What the other end should be told of our error, unless it told us or is gone.
pub(crate) fn last_word(error: &SyncError) -> Option<Abort> {
    let cause = match error {
        SyncError::Disconnected(_)
        | SyncError::ShellEnded(_)
        | SyncError::Refused(_)
        | SyncError::SelectionThere(_)
        | SyncError::Busy { .. }
        | SyncError::Transport { .. } => return None,
        SyncError::Selection(_) | SyncError::Usage(_) | SyncError::Options(_) => {
            AbortCause::Selection
        }
        SyncError::Versions(versions) => {
            let message = versions.turned().to_string();
            return Some(Abort { cause: AbortCause::Incompatible, message });
        }
        SyncError::Incompatible(_) => AbortCause::Incompatible,
        SyncError::Damaged => AbortCause::Damaged,
        SyncError::Protocol(_) | SyncError::Unclean(_) => AbortCause::Protocol,
        SyncError::StreamLost => AbortCause::Stream,
        _ => AbortCause::Internal,
    };
    Some(Abort { cause, message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_end_is_known_by_its_version_or_its_protocol() {
        let order = |here: &str, there: &str| {
            Versions { here: here.into(), there: there.into(), host: None }.order()
        };
        assert_eq!(order("0.9.1", "0.10.0"), Ordering::Less);
        let other = SyncError::from(PeerError::OtherProtocol("deltic/2".into()));
        let SyncError::Versions(versions) = other else { panic!("{other:?}") };
        assert_eq!(versions.order(), Ordering::Less);
        let told = "incompatible versions: deltic/1 here, deltic/2 at the other end";
        assert_eq!(versions.to_string(), told);
    }
}
