//! State of the two ends of channel 0. Each end remembers the capabilities of the other end, so an older program never
//! gets an unknown message.

use crate::control::{BadControl, Capabilities, FromClient, FromServer, SessionScope};

/// State of the client's end: the last channel number, and the capabilities of the server.
#[derive(Clone, Debug, Default)]
pub struct ClientEnd {
    /// Number of the last channel that was opened.
    opened: u32,
    server: Capabilities,
}

/// State of the server's end: the capabilities of the client.
#[derive(Clone, Debug, Default)]
pub struct ServerEnd {
    client: Capabilities,
}

impl ClientEnd {
    /// Returns a number for a new channel. Numbers repeat only after four billion channels.
    pub const fn new_channel(&mut self) -> u32 {
        self.opened = match self.opened.checked_add(1) {
            Some(next) => next,
            None => 1,
        };
        self.opened
    }

    /// Returns the message that starts a watch, and the number of the watch. `None` if the server lacks the
    /// capability.
    pub fn watch(&mut self, volume: String, path: String) -> Option<(u32, FromClient)> {
        let channel = self.server.watch.then(|| self.new_channel())?;
        Some((channel, FromClient::Watch { channel, volume, path }))
    }

    /// Returns the message that opens a channel for a session with these limits, and the number of the channel. `None`
    /// if the server lacks a capability.
    pub fn open(&mut self, volume: String, scope: SessionScope) -> Option<(u32, FromClient)> {
        let can_replace = scope.replaces.is_none() || self.server.replaces;
        let can_read = scope.version.is_none() || self.server.versions;
        let channel = (can_replace && can_read).then(|| self.new_channel())?;
        Some((channel, FromClient::Open { channel, volume, scope }))
    }

    /// Returns the message that lists the capabilities `can` of this client. `None` if `can` is empty, or the server
    /// has no capabilities.
    #[must_use]
    pub fn capabilities_message(&self, can: Capabilities) -> Option<FromClient> {
        (!self.server.is_empty() && !can.is_empty()).then_some(FromClient::Can(can))
    }

    /// Parses a control message of the server. Stores the capabilities of a `welcome` message.
    ///
    /// # Errors
    /// [`BadControl`] if the message is unknown, malformed or too long.
    pub fn parse_message(&mut self, message: &[u8]) -> Result<FromServer, BadControl> {
        let heard = FromServer::parse(message)?;
        if let FromServer::Welcome { can, .. } = &heard {
            self.server = *can;
        }
        Ok(heard)
    }
}

impl ServerEnd {
    /// Returns the message that asks the client to wait. `None` if the client lacks the capability.
    #[must_use]
    pub fn busy(&self, secs: u32) -> Option<FromServer> {
        self.client.busy.then_some(FromServer::Busy { secs })
    }

    /// Parses a control message of the client. Stores the capabilities of a `can` message.
    ///
    /// # Errors
    /// [`BadControl`] if the message is unknown, malformed or too long.
    pub fn parse_message(&mut self, message: &[u8]) -> Result<FromClient, BadControl> {
        let heard = FromClient::parse(message)?;
        if let FromClient::Can(can) = &heard {
            self.client = *can;
        }
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::FileVersion;

    const ALL: Capabilities =
        Capabilities { watch: true, busy: true, replaces: true, versions: true };

    fn welcome(can: Capabilities) -> Vec<u8> {
        let (version, channels, message_bytes) = ("0.1.0".into(), 8, 65_536);
        let welcome = FromServer::Welcome { version, channels, message_bytes, can };
        welcome.message()[1..].to_vec()
    }

    #[test]
    fn an_older_server_is_sent_no_message_that_it_does_not_know() {
        let mut client = ClientEnd::default();
        let old = welcome(Capabilities::default());
        assert!(!String::from_utf8_lossy(&old).contains("can"), "as it was before");
        client.parse_message(&old).unwrap();
        assert_eq!(client.capabilities_message(ALL), None);
        assert_eq!(client.watch("photos".into(), String::new()), None);
        let (tag, id) = (Some("0f".to_owned()), "1".to_owned());
        let version = Some(FileVersion { path: "a".into(), id });
        for scope in [
            SessionScope { replaces: tag, ..SessionScope::default() },
            SessionScope { version, ..SessionScope::default() },
        ] {
            assert_eq!(client.open("photos".into(), scope), None);
        }
        let (volume, scope) = ("photos".to_owned(), SessionScope::default());
        let open = FromClient::Open { channel: 1, volume: volume.clone(), scope: scope.clone() };
        let opened = client.open(volume, scope);
        assert_eq!(opened, Some((1, open)), "a refused message takes no number");
    }

    #[test]
    fn a_newer_server_is_asked_for_what_it_names() {
        let mut client = ClientEnd::default();
        client
            .parse_message(&welcome(Capabilities { watch: true, ..Capabilities::default() }))
            .unwrap();
        assert_eq!(client.capabilities_message(ALL), Some(FromClient::Can(ALL)));
        assert_eq!(client.capabilities_message(Capabilities::default()), None);
        let (channel, volume, path) = (1, "photos".to_owned(), "2026".to_owned());
        let watch = FromClient::Watch { channel, volume: volume.clone(), path: path.clone() };
        assert_eq!(client.watch(volume, path), Some((1, watch)));
        let later = br#"{"welcome":{"version":"9","channels":8,"message_bytes":65536,"can":["replaces","fly"]}}"#;
        client.parse_message(later).unwrap();
        let scope = SessionScope { replaces: Some("0f".into()), ..SessionScope::default() };
        assert!(client.open("photos".into(), scope).is_some(), "unknown words are ignored");
    }

    #[test]
    fn only_a_client_that_heeds_it_is_asked_to_wait() {
        let mut server = ServerEnd::default();
        assert_eq!(server.busy(5), None);
        server.parse_message(br#"{"can":["busy"]}"#).unwrap();
        assert_eq!(server.busy(5), Some(FromServer::Busy { secs: 5 }));
    }

    #[test]
    fn numbers_of_channels_begin_again_behind_the_last() {
        let mut client = ClientEnd { opened: u32::MAX - 1, ..ClientEnd::default() };
        assert_eq!([client.new_channel(), client.new_channel()], [u32::MAX, 1]);
    }
}
