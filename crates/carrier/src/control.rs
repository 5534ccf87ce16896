//! Control messages about the channels of a connection, as JSON in channel 0.
//!
//! An unknown field is ignored and an unknown message is refused, so either end may be the older program. A message
//! that the first version of the protocol lacks needs a [capability](Capabilities): the message is sent only to an end
//! that names the capability.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::changes::PathChange;
use crate::message::{MAX_MESSAGE_BYTES, encode};

/// Most bytes of a control message, except [`FromServer::Changed`].
pub const MAX_CONTROL_BYTES: usize = 16 << 10;
/// Most bytes of [`FromServer::Changed`]. A single path of 4,096 bytes, with each byte escaped, exceeds the limit of
/// other control messages.
pub const MAX_CHANGED_BYTES: usize = MAX_MESSAGE_BYTES;

/// Messages from the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromClient {
    /// Sends the client's token. Allowed only as first message, if the HTTP request for the WebSocket carried no
    /// token.
    Auth {
        /// The token.
        token: String,
    },
    /// Opens a channel for a session. The first bytes of the session may follow at once.
    Open {
        /// A channel number that is not in use, 1 or greater.
        channel: u32,
        /// The volume of the session.
        volume: String,
        /// Limits of the session.
        #[serde(flatten)]
        scope: SessionScope,
    },
    /// Opens a channel for one [update](crate::update). The update follows at once and ends the client's stream; the
    /// answer ends the server's stream.
    Update {
        /// A channel number that is not in use, 1 or greater.
        channel: u32,
        /// The volume of the file.
        volume: String,
    },
    /// Cancels a session, an update or a watch.
    Close {
        /// Channel of the session, update or watch.
        channel: u32,
    },
    /// Lists the capabilities of the client. Sent only to a server whose `welcome` lists a capability.
    Can(Capabilities),
    /// Requests reports of changes below a directory. A watch has a channel number and no stream.
    /// [`Close`](Self::Close) of that number ends the watch; [`FromServer::Refused`] gives the reason for a failure.
    /// Needs [`Capabilities::watch`] of the server.
    Watch {
        /// A channel number that is not in use, 1 or greater.
        channel: u32,
        /// The volume.
        volume: String,
        /// Path of the directory in the volume. Empty for the whole volume.
        path: String,
    },
}

/// Limits of a session that the client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionScope {
    /// Entity tag of the version that the session may replace, without quotes; empty if the session may only create
    /// files. `None` if the session may replace all versions. Needs [`Capabilities::replaces`] of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// The old version that the session reads in place of the files. Needs [`Capabilities::versions`] of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<FileVersion>,
}

/// An old version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Path of the file in the volume.
    pub path: String,
    /// Name of the version.
    pub id: String,
}

/// Messages from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    /// Accepts the client's token.
    Welcome {
        /// Version of the server program.
        version: String,
        /// Most channels that may be open at once.
        channels: u32,
        /// Most bytes of a message.
        message_bytes: u32,
        /// Capabilities of the server.
        #[serde(default, skip_serializing_if = "Capabilities::is_empty")]
        can: Capabilities,
    },
    /// Refuses a session, an update or a watch, or ends it early.
    Refused {
        /// Channel of the session, update or watch.
        channel: u32,
        /// Reason, for people.
        why: String,
        /// Seconds after which another attempt may succeed.
        retry_secs: Option<u32>,
    },
    /// Announces that the server will end. New sessions are refused; running sessions get some time to end.
    GoAway,
    /// Reports changes below a watched directory. The first message of a watch has number 0 and no paths: changes are
    /// reported from now on.
    Changed {
        /// The channel of the watch.
        channel: u32,
        /// Number of the message within the watch, from 0.
        seq: u64,
        /// Paths that changed, the oldest change first. `None` if the server no longer has all changes since the last
        /// message: the client must list the directory again, and the watch continues.
        paths: Option<Vec<PathChange>>,
    },
    /// Asks the client to open no channel for some time. Open channels continue. Needs [`Capabilities::busy`] of the
    /// client.
    Busy {
        /// Seconds to wait.
        secs: u32,
    },
}

/// Optional messages that an end supports, sent as a list of words. Unknown words are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Capabilities {
    /// `watch`: the server answers [`FromClient::Watch`].
    pub watch: bool,
    /// `busy`: the client obeys [`FromServer::Busy`], and the server may send it.
    pub busy: bool,
    /// `replaces`: the server obeys the field of this name in [`FromClient::Open`].
    pub replaces: bool,
    /// `versions`: the server obeys the field `version` in [`FromClient::Open`].
    pub versions: bool,
}

const WATCH: &str = "watch";
const BUSY: &str = "busy";
const REPLACES: &str = "replaces";
const VERSIONS: &str = "versions";

impl Capabilities {
    /// True if no capability is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Vec<String>> for Capabilities {
    fn from(words: Vec<String>) -> Self {
        let has = |word| words.iter().any(|other| other == word);
        Self {
            watch: has(WATCH),
            busy: has(BUSY),
            replaces: has(REPLACES),
            versions: has(VERSIONS),
        }
    }
}

impl From<Capabilities> for Vec<String> {
    fn from(can: Capabilities) -> Self {
        let Capabilities { watch, busy, replaces, versions } = can;
        let words = [(watch, WATCH), (busy, BUSY), (replaces, REPLACES), (versions, VERSIONS)];
        words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word.into()).collect()
    }
}

/// Error of a control message that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum BadControl {
    /// The message exceeds the limit of its kind.
    #[error("a control message is too long")]
    TooLong,
    /// The message is unknown or malformed.
    #[error(transparent)]
    Garbled(#[from] serde_json::Error),
}

impl FromClient {
    /// Parses a message of a client.
    ///
    /// # Errors
    /// [`BadControl`] if the message is unknown, malformed or too long.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        if bytes.len() > MAX_CONTROL_BYTES {
            return Err(BadControl::TooLong);
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// Returns the complete message, with the number of channel 0.
    #[must_use]
    pub fn message(&self) -> Bytes {
        message(self)
    }
}

impl FromServer {
    /// Parses a message of a server.
    ///
    /// # Errors
    /// [`BadControl`] if the message is unknown, malformed or too long.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        if bytes.len() > MAX_CHANGED_BYTES {
            return Err(BadControl::TooLong);
        }
        let parsed = serde_json::from_slice(bytes)?;
        let may_be_long = matches!(parsed, Self::Changed { .. });
        if bytes.len() > MAX_CONTROL_BYTES && !may_be_long {
            return Err(BadControl::TooLong);
        }
        Ok(parsed)
    }

    /// Returns the complete message, with the number of channel 0.
    #[must_use]
    pub fn message(&self) -> Bytes {
        message(self)
    }
}

fn message(control: &impl Serialize) -> Bytes {
    encode(0, &serde_json::to_vec(control).expect("control messages are plain data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_says() {
        let open = FromClient::Open {
            channel: 1,
            volume: "photos".into(),
            scope: SessionScope::default(),
        };
        let text = r#"{"open":{"channel":1,"volume":"photos"}}"#;
        assert_eq!(serde_json::to_string(&open).unwrap(), text);
        assert_eq!(FromClient::parse(text.as_bytes()).unwrap(), open);
        assert_eq!(&open.message()[..], [b"\0", text.as_bytes()].concat());
        assert_eq!(FromServer::parse(br#""go_away""#).unwrap(), FromServer::GoAway);
        assert!(FromClient::parse(br#"{"shout":{}}"#).is_err());
        let deep = "[".repeat(10_000);
        assert!(FromClient::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn only_changes_may_be_longer_than_other_control_messages() {
        let padded =
            |text: &str, len: usize| [text, &" ".repeat(len - text.len())].concat().into_bytes();
        let close = r#"{"close":{"channel":1}}"#;
        assert!(FromClient::parse(&padded(close, MAX_CONTROL_BYTES)).is_ok());
        assert!(FromClient::parse(&padded(close, MAX_CONTROL_BYTES + 1)).is_err());
        let refused = r#"{"refused":{"channel":1,"why":"","retry_secs":null}}"#;
        assert!(FromServer::parse(&padded(refused, MAX_CONTROL_BYTES)).is_ok());
        assert!(FromServer::parse(&padded(refused, MAX_CONTROL_BYTES + 1)).is_err());
        let changed = r#"{"changed":{"channel":1,"seq":0,"paths":[]}}"#;
        assert!(FromServer::parse(&padded(changed, MAX_CHANGED_BYTES)).is_ok());
        assert!(FromServer::parse(&padded(changed, MAX_CHANGED_BYTES + 1)).is_err());
    }
}
