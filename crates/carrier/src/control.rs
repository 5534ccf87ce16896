//! Control messages: what the ends of a WebSocket say about its channels, as JSON in channel 0.
//!
//! Unknown fields are ignored and unknown messages refused, so that either end may be the older one.

use std::io;

use serde::{Deserialize, Serialize};

/// Most bytes of a control message.
const MAX_CONTROL_BYTES: usize = 16 << 10;

/// Messages of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromClient {
    /// Says who it is, where the request for the WebSocket could not: the first message, or none.
    Auth {
        /// The token.
        token: String,
    },
    /// Opens a channel for a session; its first bytes may follow at once.
    Open {
        /// A number that no open channel has, from 1 on.
        channel: u32,
        /// The volume that the session is about.
        volume: String,
    },
    /// Opens a channel for one [update](crate::update), which follows at once and ends it; the answer ends it too.
    Update {
        /// A number that no open channel has, from 1 on.
        channel: u32,
        /// The volume of the file.
        volume: String,
    },
    /// Gives a session up.
    Close {
        /// Its channel.
        channel: u32,
    },
}

/// Messages of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    /// The client is known.
    Welcome {
        /// Version of the server's program.
        version: String,
        /// Most channels at once.
        channels: u32,
        /// Most bytes of a message.
        message_bytes: u32,
    },
    /// A session cannot be, or has ended before its time.
    Refused {
        /// Its channel.
        channel: u32,
        /// Why, for people.
        why: String,
        /// Seconds after which another attempt may succeed.
        retry_secs: Option<u32>,
    },
    /// The server ends soon: no new sessions, and those under way are given some time.
    GoAway,
}

/// Parses a control message.
///
/// # Errors
/// Where it is none, or too long.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<T> {
    if bytes.len() > MAX_CONTROL_BYTES {
        let why = "a control message is too long";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    serde_json::from_slice(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_says() {
        let open = FromClient::Open { channel: 1, volume: "photos".into() };
        let text = r#"{"open":{"channel":1,"volume":"photos"}}"#;
        assert_eq!(serde_json::to_string(&open).unwrap(), text);
        assert_eq!(parse::<FromClient>(text.as_bytes()).unwrap(), open);
        assert_eq!(parse::<FromServer>(br#""go_away""#).unwrap(), FromServer::GoAway);
        assert!(parse::<FromClient>(br#"{"shout":{}}"#).is_err());
        assert!(parse::<FromClient>(&vec![b' '; MAX_CONTROL_BYTES + 1]).is_err());
        let deep = "[".repeat(10_000);
        assert!(parse::<FromClient>(deep.as_bytes()).is_err());
    }
}
