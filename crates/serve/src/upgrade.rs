//! The upgrade of a connection from HTTP to a WebSocket (RFC 6455 §4), for both ends.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// GUID from RFC 6455.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns a random `Sec-WebSocket-Key` (RFC 6455).
pub(crate) fn new_key() -> String {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the system has randomness");
    STANDARD.encode(key)
}

/// Returns a server's answer to a client's key.
pub(crate) fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::digest(format!("{key}{GUID}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_of_the_rfc_is_answered_as_there() {
        assert_eq!(super::accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
