//! Types of the frames of the greeting.

use crate::error::PeerError;

pub(super) const HELLO: u8 = 1;
pub(super) const REQUEST: u8 = 2;
pub(super) const REPLY: u8 = 3;
pub(super) const NAMES: u8 = 5;
/// The last frame of an end that gives up; its payload says why.
pub(super) const ABORT: u8 = 4;
pub(super) const ALIVE: u8 = 6;

pub(super) fn expect(kind: u8, wanted: u8, what: &'static str) -> Result<(), PeerError> {
    if kind == wanted { Ok(()) } else { Err(PeerError::Unexpected(what)) }
}
