//! Names of capabilities. The meaning of a name never changes.

use deltic_core::Strategy;

use crate::error::PeerError;

/// The conversation that every end of this version holds.
pub(super) const RECIPE: &str = "recipe:keyed-8";
/// Content-defined chunks by the sieve.
pub(super) const SIEVE: &str = "chunker:sieve";
/// Chunks named by the keyed sum: of an end that takes it fast.
pub(super) const KEYED: &str = "names:keyed";
/// Literals compressed by zstd.
pub(super) const ZSTD: &str = "compress:zstd";
/// Literals without their long runs of zeros.
pub(super) const ZEROS: &str = "zeros";
/// Large holes of files told by their places, and only the data transferred.
pub(super) const HOLES: &str = "holes";
/// Checks behind frames, by CRC-32C.
pub(super) const CHECKS: &str = "checks:crc32c";
/// More streams than one.
pub(super) const STREAMS: &str = "streams";
/// A guard that allows a share of the names to be deleted.
pub(super) const DELETE_SHARE: &str = "delete:share";
/// Troubles that say where they happened.
pub(super) const TROUBLES: &str = "troubles:located";

/// Totals that say how much was resumed.
pub(super) const RESUMED: &str = "totals:resumed";
/// Changes that say why a name is passed over.
pub(super) const PASSED_OVER: &str = "changes:passed-over";
/// The sender may say which sources it removed.
pub(super) const REMOVED: &str = "sources:removed";

/// `Restless` may be sent for a file that a program has open for writing. The receiver gives the copy an earlier
/// time.
pub(super) const OPEN_FILES: &str = "restless:open";

/// A receiver may say which base its old version is, and a sender answer by what changed since.
pub(super) const BASES: &str = "bases";
/// Such an answer may say which blocks the base has elsewhere.
pub(super) const MOVED: &str = "bases:moved";

/// The sender may say which sums its storage keeps of a file, and the receiver of what it makes a signature.
pub(super) const KEPT_SUMS: &str = "sums:kept";

/// Behind it, how many files of a session an end can hold open at once.
pub(super) const FILES: &str = "files:";

/// The capability of an end that knows a strategy. The meaning of a name never changes.
pub(super) fn capability(strategy: &Strategy) -> String {
    format!("strategy:{}", strategy.name)
}

/// Literals within the credit that the receiver gives. Behind a colon, the bytes that it grants at first.
pub(super) const CREDIT: &str = "credit";

/// The capability of a receiver that grants so many bytes of literals at first.
pub(super) fn credit(bytes: u64) -> String {
    format!("{CREDIT}:{bytes}")
}

/// Behind it, the longest payload of a frame that an end takes after the greeting.
pub(super) const FRAME: &str = "limit:frame=";

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
