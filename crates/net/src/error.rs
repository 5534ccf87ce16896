//! The reasons why a whole run ended early. The failure of a single file is a
//! [`Trouble`](deltic_protocol::report::Trouble).

use std::cmp::Ordering;
use std::fmt;
use std::io;
use std::time::Duration;

use deltic_engine::greeting::GreetingError;
use deltic_protocol::PeerError;
use deltic_protocol::hello::{Abort, AbortCause, MAGIC};
use deltic_store_local::reason;
use deltic_tree::RelPath;

use deltic_worker::owners::UnknownAccount;

/// The reason why a run could not start or go on. Each variant stands for different advice to the user.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The request makes no sense, such as a destination inside a source.
    #[error("{0}")]
    Usage(String),
    /// The options cannot be combined, or do not fit the operands.
    #[error("{0}")]
    Options(String),
    /// A source or the destination cannot be used.
    #[error("{0}")]
    Selection(String),
    /// A source to be watched does not exist.
    #[error("{0}")]
    NoSource(String),
    /// A source or the destination on the other end's machine cannot be used, as that end reports.
    #[error("{0}")]
    SelectionThere(String),
    /// The file to be read as a batch is no batch, or is damaged.
    #[error("--read-batch={name}: {why}")]
    Batch {
        /// The name of the file.
        name: String,
        /// Why the file cannot be read.
        why: String,
    },
    /// The local file system ended the run: a destination could not be made.
    #[error("{0}")]
    Files(String),
    /// The remote shell or program could not be started.
    #[error("cannot start {program}: {}", reason(source))]
    Start {
        /// The program.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A server could not be reached, or could not prove its identity.
    #[error("cannot {what}: {}", reason(source))]
    Dial {
        /// The failed action and the server.
        what: String,
        /// The error of the connection.
        source: io::Error,
    },
    /// The remote shell ended before the program there answered: it did not connect, login was refused, or the
    /// program is not Deltic.
    #[error("the remote shell ended before deltic answered ({0})")]
    NoAnswer(std::process::ExitStatus),
    /// The remote shell did not find the program on the other machine.
    #[error("the remote shell did not find deltic on the other machine")]
    NoRemoteProgram,
    /// The received bytes are not the start of a Deltic session; most likely a login script prints them.
    #[error("{0}")]
    Unclean(PeerError),
    /// The other end is not Deltic, or shares no capability with this end.
    #[error("{0}")]
    Incompatible(String),
    /// The other end is a Deltic version that cannot talk to this version.
    #[error("{0}")]
    Versions(Versions),
    /// The other end broke the protocol.
    #[error("the other end broke the protocol: {0}")]
    Protocol(String),
    /// The connection changed bytes.
    #[error("the connection damaged data; the damaged data was discarded")]
    Damaged,
    /// The connection ended before the run did.
    #[error("the connection ended early: {0}")]
    Disconnected(String),
    /// The connection ended early, and the remote shell reports a failure.
    #[error("the connection ended early: the remote shell ended with {0}")]
    ShellEnded(std::process::ExitStatus),
    /// A further stream ended before the run did.
    #[error("one of the streams to the other end ended early")]
    StreamLost,
    /// The other end refused or gave up, and sent the reason.
    #[error("{0}")]
    Refused(String),
    /// The other end has no room now, and says when it may have room.
    #[error("{why} (try again in {} s)", wait.as_secs())]
    Busy {
        /// The resource of which too much is used.
        why: String,
        /// Time after which another attempt may succeed.
        wait: Duration,
    },
    /// Reading or writing the connection failed.
    #[error("cannot {action}: {}", reason(source))]
    Transport {
        /// The failed action.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The system refuses to watch the source.
    #[error("cannot {action}: {}", reason(source))]
    Watch {
        /// The failed action.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot start a thread.
    #[error("cannot start a thread: {}", reason(.0))]
    Thread(io::Error),
    /// A bug: a thread of this process panicked, and reported the place on standard error.
    #[error("an internal error ended the run")]
    Internal,
    /// No sign of life came from the other end for the time that the plan allows.
    #[error("timeout: nothing has come from the other end for too long (--timeout)")]
    Silence,
    /// No answer came from the other end within the time that the plan allows.
    #[error("timeout: no answer from the other end")]
    NoAnswerInTime,
    /// The run took the time that the plan allows.
    #[error("stopped at the requested time")]
    TimeUp,
    /// Ctrl-C, or another signal to end, arrived.
    #[error("interrupted")]
    Interrupted,
    /// A second signal to end arrived while a file was changing in place.
    #[error(
        "interrupted while {0} was changing in place: {0} is half changed; run the same command again to repair {0}"
    )]
    Torn(RelPath),
}

/// The versions of two ends that cannot work together.
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
    /// Compares the version of this end with the version of the other end.
    #[must_use]
    pub fn order(&self) -> Ordering {
        let numbers = |version: &str| -> Vec<u64> {
            let version = version.trim_start_matches(|c: char| !c.is_ascii_digit());
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            numbers.map_while(|number| number.parse().ok()).collect()
        };
        numbers(&self.here).cmp(&numbers(&self.there))
    }

    /// Returns the two versions as the other end sees them.
    fn swapped(&self) -> Self {
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
    /// Adds the host to errors that the other end reported.
    #[must_use]
    pub fn with_host(self, host: &str) -> Self {
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

    /// True if the connection or its remote shell ended, for any reason.
    #[must_use]
    pub const fn is_lost_connection(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer(_)
                | Self::ShellEnded(_)
                | Self::Disconnected(_)
                | Self::StreamLost
                | Self::Transport { .. }
        )
    }

    /// Rewords an error for a run with both ends in this process.
    pub(crate) fn in_one_process(self) -> Self {
        match self {
            Self::SelectionThere(why) => Self::Selection(why),
            Self::Refused(why) => Self::Files(why),
            other => other,
        }
    }
}

impl From<UnknownAccount> for SyncError {
    fn from(unknown: UnknownAccount) -> Self {
        Self::Selection(unknown.to_string())
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

impl From<GreetingError> for SyncError {
    fn from(error: GreetingError) -> Self {
        match error {
            GreetingError::Peer(error) => error.into(),
            GreetingError::Abort(abort) => abort.into(),
            GreetingError::Versions { here, there } => {
                Self::Versions(Versions { here, there, host: None })
            }
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

/// The reason why no more frames come from a stream.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// The other end closed its side between two frames.
    Closed,
    /// The other end closed the stream inside a frame, or the stream broke.
    Broken(std::io::Error),
    /// The other end sent bytes that are not a valid frame.
    Bad(PeerError),
    /// A further stream ended early.
    Lost,
}

impl From<ReadEnd> for SyncError {
    fn from(end: ReadEnd) -> Self {
        match end {
            ReadEnd::Closed => Self::Disconnected("the other end closed the connection".into()),
            ReadEnd::Lost => Self::StreamLost,
            ReadEnd::Broken(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Self::Disconnected("in the middle of a frame".into())
            }
            // Transports of this workspace wrap the reason as a `SyncError`.
            ReadEnd::Broken(source) => source.downcast().unwrap_or_else(|source| Self::Transport {
                action: "read from the other end",
                source,
            }),
            ReadEnd::Bad(error) => error.into(),
        }
    }
}

/// Returns the abort frame that reports an error to the other end. Returns `None` if the error came from the other end,
/// or the other end is gone.
pub(crate) fn abort_frame(error: &SyncError) -> Option<Abort> {
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
            let message = versions.swapped().to_string();
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
