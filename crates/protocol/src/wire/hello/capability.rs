//! Names of capabilities. The meaning of a name never changes.

use deltic_core::Strategy;

use crate::error::PeerError;

/// The conversation that every end of this version supports.
pub(super) const RECIPE: &str = "recipe:keyed-8";
/// Content-defined chunking by the sieve.
pub(super) const SIEVE: &str = "chunker:sieve";
/// Chunks are named by keyed sums. Offered only by an end that computes keyed sums fast.
pub(super) const KEYED: &str = "names:keyed";
/// Literals compressed with zstd.
pub(super) const ZSTD: &str = "compress:zstd";
/// Frames of literals compressed in one zstd stream, with the history of the frames before.
pub(super) const ZSTD_STREAM: &str = "compress:zstd-stream";
/// Gaps of x86-64 code may be compared and sent with zeros in their address fields, which are sent separately.
pub(super) const X86_SPLIT: &str = "filter:x86-split";
/// Literals without the long runs of zeros.
pub(super) const ZEROS: &str = "zeros";
/// Large holes of files are sent as positions. Only the data between the holes is transferred.
pub(super) const HOLES: &str = "holes";
/// Checks after frames, by CRC-32C.
pub(super) const CHECKS: &str = "checks:crc32c";
/// Further streams besides the first.
pub(super) const STREAMS: &str = "streams";
/// The limit of a guarded deletion may be a share of the names.
pub(super) const DELETE_SHARE: &str = "delete:share";
/// A trouble report may contain the path and errno of the error.
pub(super) const TROUBLES: &str = "troubles:located";

/// The totals may contain the number of resumed bytes.
pub(super) const RESUMED: &str = "totals:resumed";
/// A report of changes may contain skipped names, each with the reason.
pub(super) const PASSED_OVER: &str = "changes:passed-over";
/// The sender may report the sources that it removed.
pub(super) const REMOVED: &str = "sources:removed";

/// The receiver asks why the sender reads large files whole or in part.
pub(super) const REASONS: &str = "reasons";

/// `Restless` may be sent for a file that a program has open for writing. The receiver gives the copy an earlier
/// modification time.
pub(super) const OPEN_FILES: &str = "restless:open";

/// The receiver may name the base of its old version. The sender may then send only the differences from that base.
pub(super) const BASES: &str = "bases";
/// The answer to a base may copy blocks from other offsets of the base.
pub(super) const MOVED: &str = "bases:moved";

/// The sender may name the sums that its storage keeps of a file. The receiver may choose the sums of the signature.
pub(super) const KEPT_SUMS: &str = "sums:kept";

/// The receiver may ask for a file cut into the blocks that storage keeps sums of, with fingerprints made of these
/// sums.
pub(super) const SUMMED_BLOCKS: &str = "sums:blocks";

/// The receiver may propose several old chunks for a chunk, where the strategy has several candidates.
pub(super) const CANDIDATES: &str = "match:candidates";

/// Listings may have the short form of entries, and listings and tallies the short form of paths.
pub(super) const SHORT_LISTS: &str = "list:shared";
/// A short file sent whole may come in a single frame.
pub(super) const SINGLE_FRAMES: &str = "whole:brief";

/// Digests of compared contents may be cut to their first bytes.
pub(super) const SHORT_DIGESTS: &str = "digests:brief";

/// Tallies may have the compared parts of their sums alone.
pub(super) const CUT_TALLIES: &str = "tallies:cut";

/// A short file sent whole and as listed may come with the first bytes of its proof.
pub(super) const SHORT_PROOFS: &str = "whole:short";

/// Outcomes of several entries and requests for several files may travel in one frame.
pub(super) const ANSWERS: &str = "answers:together";

/// Tallies with ACLs, extended attributes, hard links, backups, sizes alone or a window of times.
pub(super) const WIDE_TALLIES: &str = "tallies:wide";

/// Prefix; followed by the number of files of a session that an end can hold open at once.
pub(super) const FILES: &str = "files:";

/// Prefix; followed by the fingerprint of a place that an end reads or writes.
pub(super) const PLACE: &str = "place:";

/// Prefix; followed by the name of a strategy that an end supports.
pub(super) const STRATEGY: &str = "strategy:";
/// The sender may ask for echoes, which measure the round trip.
pub(super) const ECHO: &str = "link:echo";
/// The other end is asked to send so slowly that echoes stay short.
pub(super) const GENTLE: &str = "link:gentle";
/// Prefix; followed by the rate of the link in an earlier session, in bits a second, as a receiver knows the rate; 0 if
/// unknown. The receiver asks for measurements in echoes.
pub(super) const RATE: &str = "link:rate=";

/// Returns the capability of an end that supports a strategy. The meaning of a name never changes.
pub(super) fn capability_of(strategy: &Strategy) -> String {
    format!("{STRATEGY}{}", strategy.name)
}

/// The sender sends literals only within the receiver's credit. After a colon follows the number of bytes granted at
/// first.
pub(super) const CREDIT: &str = "credit";

/// Returns the capability of a receiver that grants `bytes` of literals at first.
pub(super) fn credit_capability(bytes: u64) -> String {
    format!("{CREDIT}:{bytes}")
}

/// Prefix; followed by the longest frame payload that an end accepts after the greeting, in bytes.
pub(super) const FRAME: &str = "limit:frame=";

pub(super) const HELLO: u8 = 1;
pub(super) const REQUEST: u8 = 2;
pub(super) const REPLY: u8 = 3;
pub(super) const NAMES: u8 = 5;
/// Type of the last frame of an end that gives up; the payload holds the reason.
pub(super) const ABORT: u8 = 4;
pub(super) const ALIVE: u8 = 6;

pub(in crate::wire) fn check_kind(
    kind: u8,
    wanted: u8,
    what: &'static str,
) -> Result<(), PeerError> {
    if kind == wanted { Ok(()) } else { Err(PeerError::Unexpected(what)) }
}
