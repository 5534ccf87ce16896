//! The change of a connection from HTTP to a WebSocket (RFC 6455 §4), as both ends compute it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Constant of RFC 6455.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A key for a client's request.
pub(crate) fn new_key() -> String {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the system has randomness");
    STANDARD.encode(key)
}

/// The answer of a server to a client's key.
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
