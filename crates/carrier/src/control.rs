//! Control messages: what the ends of a connection say about its channels, as JSON in channel 0.
//!
//! An unknown field is ignored and an unknown message refused, so either end may be the older one. A message that a
//! first server or client did not know needs a [capability](Capabilities): it is sent only to an end that has named it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::changes::PathChange;
use crate::message::{MAX_MESSAGE_BYTES, encode};

/// Most bytes of a control message, but for [`FromServer::Changed`].
pub const MAX_CONTROL_BYTES: usize = 16 << 10;
/// Most bytes of [`FromServer::Changed`]. One path of 4,096 bytes, with each byte escaped, is longer than other control
/// messages may be.
pub const MAX_CHANGED_BYTES: usize = MAX_MESSAGE_BYTES;

/// Messages of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromClient {
    /// Names the client's token, where the request for the WebSocket did not: the first message, or none.
    Auth {
        /// The token.
        token: String,
    },
    /// Opens a channel for a session; the session's first bytes may follow at once.
    Open {
        /// A number that no open channel has, from 1 on.
        channel: u32,
        /// The volume that the session is about.
        volume: String,
    },
    /// Opens a channel for one [update](crate::update), which follows at once and ends the client's direction; the
    /// answer ends the server's.
    Update {
        /// A number that no open channel has, from 1 on.
        channel: u32,
        /// The volume of the file.
        volume: String,
    },
    /// Gives a session, an update or a watch up.
    Close {
        /// Its channel.
        channel: u32,
    },
    /// Names the capabilities of the client. Sent only to a server whose `welcome` names some.
    Can(Capabilities),
    /// Asks for a token that lasts longer, with the rights of this one: [`FromServer::Renewed`], or
    /// [`FromServer::Refused`] of channel 0. Needs [`Capabilities::renew`] of the server.
    Renew,
    /// Asks to be told what changes below a directory. The watch has a channel's number, so [`Close`](Self::Close) ends
    /// it and [`FromServer::Refused`] says why it cannot be; no stream has that number meanwhile. Needs
    /// [`Capabilities::watch`] of the server.
    Watch {
        /// A number that no open channel has, from 1 on.
        channel: u32,
        /// The volume.
        volume: String,
        /// The directory, from the volume on; empty for the whole volume.
        path: String,
    },
}

/// Messages of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    /// The client's token is known.
    Welcome {
        /// Version of the server's program.
        version: String,
        /// Most channels at once.
        channels: u32,
        /// Most bytes of a message.
        message_bytes: u32,
        /// Capabilities of the server.
        #[serde(default, skip_serializing_if = "Capabilities::is_empty")]
        can: Capabilities,
    },
    /// A session, an update or a watch is refused, or has ended early. Channel 0 stands for a renewal.
    Refused {
        /// Its channel.
        channel: u32,
        /// Why, for people.
        why: String,
        /// Seconds after which another attempt may succeed.
        retry_secs: Option<u32>,
    },
    /// The server ends soon: it takes no new sessions, and gives those under way some time.
    GoAway,
    /// Answer to [`FromClient::Renew`]. The old token goes on until its own end.
    Renewed {
        /// The new token.
        token: String,
        /// The end of the new token, in seconds since 1970; none if the token has no end.
        expires: Option<u64>,
    },
    /// Tells of changes below a watched directory. The first one of a watch has number 0 and no paths: changes are told
    /// from now on.
    Changed {
        /// The channel of the watch.
        channel: u32,
        /// Counts the messages of this watch, from 0 on.
        seq: u64,
        /// The paths that changed, the oldest change first; none if the server no longer keeps all changes since the
        /// last message: the client lists the directory anew, and the watch goes on.
        paths: Option<Vec<PathChange>>,
    },
    /// Asks the client to open no channel for some time; open ones go on. Needs [`Capabilities::busy`] of the client.
    Busy {
        /// Seconds to wait.
        secs: u32,
    },
}

/// Optional messages that an end understands, or answers; as a list of words. Unknown words are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Capabilities {
    /// `renew`: the server answers [`FromClient::Renew`].
    pub renew: bool,
    /// `watch`: the server answers [`FromClient::Watch`].
    pub watch: bool,
    /// `busy`: the client heeds [`FromServer::Busy`], and the server may say so.
    pub busy: bool,
}

const RENEW: &str = "renew";
const WATCH: &str = "watch";
const BUSY: &str = "busy";

impl Capabilities {
    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Vec<String>> for Capabilities {
    fn from(words: Vec<String>) -> Self {
        let has = |word| words.iter().any(|other| other == word);
        Self { renew: has(RENEW), watch: has(WATCH), busy: has(BUSY) }
    }
}

impl From<Capabilities> for Vec<String> {
    fn from(Capabilities { renew, watch, busy }: Capabilities) -> Self {
        let words = [(renew, RENEW), (watch, WATCH), (busy, BUSY)];
        words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word.into()).collect()
    }
}

/// Error of a control message that does not parse.
#[derive(Debug, thiserror::Error)]
pub enum BadControl {
    /// The message is longer than one of its kind may be.
    #[error("a control message is too long")]
    TooLong,
    /// The message is not one of those known.
    #[error(transparent)]
    Garbled(#[from] serde_json::Error),
}

impl FromClient {
    /// Parses a message of a client.
    ///
    /// # Errors
    /// [`BadControl`] where the message is unknown, garbled or too long.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadControl> {
        if bytes.len() > MAX_CONTROL_BYTES {
            return Err(BadControl::TooLong);
        }
        Ok(serde_json::from_slice(bytes)?)
    }

    /// The whole message of channel 0.
    #[must_use]
    pub fn message(&self) -> Bytes {
        message(self)
    }
}

impl FromServer {
    /// Parses a message of a server.
    ///
    /// # Errors
    /// [`BadControl`] where the message is unknown, garbled or too long.
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

    /// The whole message of channel 0.
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
        let open = FromClient::Open { channel: 1, volume: "photos".into() };
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
