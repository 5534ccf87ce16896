//! Bounds on what a peer may send (docs/protocol.md, "Limits"); those of groups are `deltic_core::recipe`'s.
//!
//! They are part of the protocol: both ends enforce them on what comes in and honour them in what goes out.

use deltic_core::chunk::{ChunkerSpec, FixedLen, MAX_CHUNK_BYTES};
use deltic_tree::{Kind, Meta, RelPath};

use crate::error::PeerError;

/// Largest payload of one frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 1 << 20;
/// Least payload of one frame that an end may be limited to. What a sender writes before it has heard the other end's
/// hello is no longer.
pub const MIN_FRAME_BYTES: usize = 64 << 10;
/// Most entries, groups, chunks or ranges in one frame.
pub const MAX_BATCH: usize = 4096;
/// Longest text (a message, a capability's name, a path argument) in bytes.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Most capabilities in a hello.
pub const MAX_CAPABILITIES: usize = 64;
/// Most filter rules in a request.
pub const MAX_RULES: usize = 1 << 16;
/// Most source arguments in a request.
pub const MAX_SOURCES: usize = 4096;
/// Most names, in a list of its own, that a request is for.
pub const MAX_NAMES: usize = 1 << 20;
/// Bytes of all of them.
pub const MAX_NAMES_BYTES: usize = 64 << 20;
/// Most streams of one session, the first among them.
pub const MAX_STREAMS: u32 = 16;
/// Most threads that one end may be asked to compute with.
pub const MAX_THREADS: u32 = 1024;
/// Highest level of zstd that a request may ask for; a frame is too short for it to cost much memory.
pub const MAX_LEVEL: u32 = 22;
/// Longest chunks that a request may ask for, in the mean and in bytes.
pub const MAX_BLOCK_BYTES: u32 = 128 << 10;
/// Most bytes that either end reads before the hello and the request are through.
pub const MAX_GREETING_BYTES: usize = MAX_FRAME_BYTES;
/// Most bytes of frames without a check behind them. A writer checks sooner: once a frame makes a run long.
pub const MAX_UNCHECKED_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// Most signs of life in a row: more than an end writes in [`MAX_MUTE_SECONDS`] with the shortest silence.
pub const MAX_ALIVES: u32 = 4 * MAX_MUTE_SECONDS as u32;
/// Most entries listed by the sender and not yet settled by the receiver.
pub const ENTRY_WINDOW: u64 = 16 << 10;
/// Bytes of the attributes and ACLs of entries listed and not settled, beyond which no more entries that have some are
/// listed.
pub const LISTED_BYTES: usize = 8 << 20;
/// Most tallies of directories told that are not answered, or are of directories that no listing has named.
pub const TALLY_WINDOW: usize = 4096;
/// Most entries of all directories whose tallies are told and not answered: a part of [`ENTRY_WINDOW`].
pub const TALLIED_ENTRIES: u64 = ENTRY_WINDOW / 2;
/// Most users and groups whose names a receiver has been told and still compares tallies of owners.
pub const TALLIED_NAMES: usize = 256;
/// Most groups sent and not yet answered, over all files of a session.
pub const GROUP_WINDOW: u64 = 1 << 18;
/// Most groups that a sender tells of a file before it is wanted: as many as the first packets of a connection hold,
/// so that those of a file that is not wanted hold up nothing.
pub const OFFERED_GROUPS: u64 = 1 << 10;
/// Longest gap in new, in bytes; what it is told against is at most twice as long.
pub const GAP_BYTES: u64 = 256 << 10;
/// Bytes of new that the gaps of one frame have together.
pub const MENDED_BYTES: u64 = 512 << 10;
/// Most gaps that a receiver asks for and that are not mended, over all files of a session.
pub const GAP_WINDOW: u64 = 1 << 10;
/// Most that a sender takes in: those of attempts that the receiver gave up may still be on their way.
pub const MAX_GAPS_OUT: u64 = 1 << 12;
/// Most groups in one file's recipe.
pub const MAX_GROUPS: usize = 1 << 21;
/// Most literal bytes that a receiver may grant at a time.
pub const MAX_CREDIT_BYTES: u64 = 16 << 20;
/// Most sums of one file that either end tells by a strategy of the papers.
pub const MAX_SUMS: usize = 1 << 22;
/// Most chunks that are told by a strategy that pipelines, and that no match has named.
pub const SUM_WINDOW: u32 = 1 << 18;
/// Bytes of all chunks of one token, unless it is a single one.
pub const MAX_TOKEN_BYTES: u64 = 8 << 20;
/// Literal bytes that one fill carries, unless a single chunk is longer.
pub const FILL_BYTES: u64 = 256 << 10;
/// Length of the blocks in which a file is sent whole, in bytes.
pub const WHOLE_BLOCK_BYTES: u32 = 256 << 10;
/// Length in bytes of the blocks of a file that goes by what changed since a base.
pub const CHANGED_BLOCK_BYTES: u32 = 4096;
/// Most blocks of one file that changed since a base, and go by themselves.
pub const MAX_CHANGED_BLOCKS: usize = 1 << 20;
/// Most runs of blocks of one file that its base has elsewhere.
pub const MAX_MOVED_RUNS: usize = 1 << 18;
/// Length in bytes of the shortest hole that a sender tells in front of data, unless the file begins with data.
pub const MIN_HOLE_BYTES: u64 = 64 << 10;
/// Largest number of data runs that `Holes` frames tell of one file.
pub const MAX_DATA_RUNS: usize = 1 << 16;
/// Largest number of data runs that `Holes` frames tell of a file that is not large: a file of `LARGE_FILE_BYTES` has
/// no more runs between holes of `MIN_HOLE_BYTES`.
pub const MAX_SMALL_DATA_RUNS: usize = (LARGE_FILE_BYTES / MIN_HOLE_BYTES) as usize;
/// Files up to this length are sent whole: a recipe would cost another round trip to save less than a packet.
pub const WHOLE_BELOW_BYTES: u64 = 2 << 10;
/// Files up to this length are told chunk by chunk: groups would save fewer bytes than the round trip is worth that
/// spells them.
pub const TOLD_BY_CHUNK_BYTES: u64 = 128 << 10;
/// Files up to this length, in bytes, are not looked for under other names: many of them cost less to send than to
/// find.
pub const MOVED_ABOVE_BYTES: u64 = 16 << 10;
/// Lengths of which the first new file is known, so that another one may be matched against it; not seen by the peer.
pub const MAX_REPEATABLE: usize = 1 << 14;
/// Bytes of a file that are read, cut and summed in one piece of work, at least.
pub const SEGMENT_BYTES: u64 = 512 << 10;
/// Most files under way at once.
pub const MAX_ACTIVE_FILES: usize = 256;
/// Files longer than this, in bytes, count as large.
pub const LARGE_FILE_BYTES: u64 = 32 << 20;
/// Most large files under way at once: each holds an index of its old version.
pub const MAX_ACTIVE_LARGE: usize = 2;
/// Attempts at one file before it counts as failed.
pub const MAX_ATTEMPTS: u32 = 3;
/// Most chunks of old versions that one file's index keeps; what lies beyond is sent as literals.
pub const INDEX_BUDGET_CHUNKS: usize = 1 << 20;
/// Most bytes in the names and values of one entry's extended attributes.
pub const MAX_XATTRS_BYTES: usize = deltic_tree::meta::MAX_XATTRS_BYTES;
/// Most named users and groups in one ACL.
pub const MAX_ACL_NAMED: usize = deltic_tree::meta::MAX_ACL_NAMED;
/// Most users, and as many groups, whose names a sender tells in a session.
pub const MAX_OWNER_NAMES: usize = 16 << 10;
/// Most files of which one name was told and others may come.
pub const MAX_LINKED: usize = 1 << 20;
/// Bytes of the first names of all of them, of the targets of those that are symbolic links, and of their attributes
/// and ACLs.
pub const MAX_LINKED_BYTES: usize = 128 << 20;
/// Most other trees of the receiver that a run compares with.
pub const MAX_ALTERNATES: usize = 20;
/// Names that `Delete::Guarded` removes whatever share of the destination they are, unless a share is named.
pub const GUARDED_DELETES: u64 = 1000;
/// The share of the destination's names that it removes if that is more.
pub const GUARDED_PERCENT: u8 = 25;

/// Most names that a question shows before many are removed.
pub const MAX_ASKED: usize = 5;
/// Seconds after which a peer that has said nothing but that it is alive counts as silent, where there is a silence.
pub const MAX_MUTE_SECONDS: u64 = 86_400;

/// Bounds that the two ends of a session agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of one frame, in bytes: at most [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Literal bytes that the sender may send before the receiver gives credit for more: at most [`MAX_CREDIT_BYTES`];
    /// any number if `None`.
    pub credit: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes: MAX_FRAME_BYTES, credit: None }
    }
}

impl Limits {
    /// Bounds that hold whatever the other end says.
    pub const UNHEARD: Self = Self { frame_bytes: MIN_FRAME_BYTES, credit: None };

    /// Checks the length of a payload.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where it is too long.
    pub const fn check_frame(&self, len: usize) -> Result<(), PeerError> {
        if len > self.frame_bytes { Err(PeerError::Limit("frame length")) } else { Ok(()) }
    }

    /// Most items in one list of a frame: each takes some bytes.
    #[must_use]
    pub fn batch(&self) -> usize {
        MAX_BATCH.min(self.frame_bytes / ITEM_BYTES)
    }

    /// Longest chunk of new: alone in a frame it fits.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        MAX_CHUNK_BYTES.min((self.frame_bytes - FIELD_BYTES) as u32)
    }

    /// True for a chunker whose chunks fit frames.
    #[must_use]
    pub fn admit(&self, spec: &ChunkerSpec) -> bool {
        spec.max_len() <= self.chunk_bytes()
    }

    /// Literal bytes that one frame carries, unless a single chunk is longer.
    #[must_use]
    pub fn fill_bytes(&self) -> u64 {
        FILL_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// Checks that so many literal bytes fit a frame with so many ranges.
    pub(crate) fn fit(&self, bytes: u64, ranges: usize) -> bool {
        bytes + (ranges * RANGE_BYTES + FIELD_BYTES) as u64 <= self.frame_bytes as u64
    }

    /// Length of the blocks in which a file is sent whole, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        WHOLE_BLOCK_BYTES.min(self.frame_bytes as u32 / 2)
    }

    /// The chunker of files that go in blocks.
    #[must_use]
    pub fn blocks(&self) -> ChunkerSpec {
        let len = FixedLen::new(self.block_bytes());
        ChunkerSpec::Fixed(len.expect("a block is as long as a chunk may be"))
    }

    /// The chunker of files that go by what changed since a base.
    #[must_use]
    pub fn changed_blocks() -> ChunkerSpec {
        let len = FixedLen::new(CHANGED_BLOCK_BYTES);
        ChunkerSpec::Fixed(len.expect("a block is as long as a chunk may be"))
    }

    /// Longest gap in new, in bytes.
    pub(crate) fn gap_bytes(&self) -> u64 {
        GAP_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// Bytes of new that the gaps of one frame have together.
    pub(crate) fn mended_bytes(&self) -> u64 {
        MENDED_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// Bytes of entries beyond which a frame takes no more.
    pub(crate) const fn listing_bytes(&self) -> usize {
        let most = self.frame_bytes / 4;
        if most < LISTING_BYTES { most } else { LISTING_BYTES }
    }

    /// Bytes of one entry with all of its attributes.
    pub(crate) const fn entry_bytes(&self) -> usize {
        self.frame_bytes / 8 * 5
    }
}

/// Bytes that the longest item of a list takes, but for names and entries.
const ITEM_BYTES: usize = 64;
/// Bytes that a range takes at most.
const RANGE_BYTES: usize = 10;
/// Bytes of all other fields of a frame with literals.
const FIELD_BYTES: usize = 1 << 10;
/// Bytes of the entries of one frame, unless the last is longer.
const LISTING_BYTES: usize = 128 << 10;

/// Bytes that a file with the first name `path` counts as of [`MAX_LINKED_BYTES`].
pub(crate) fn linked_bytes(path: &RelPath, meta: &Meta) -> usize {
    let target = match &meta.kind {
        Kind::Symlink(target) => target.len(),
        _ => 0,
    };
    path.as_bytes().len() + target + meta.more_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");
    const SOURCE: &str = include_str!("limits.rs");

    macro_rules! limits {
        ($($name:ident)*) => { [$((stringify!($name), $name as u64)),*] };
    }

    fn limits() -> impl Iterator<Item = (&'static str, u64)> {
        limits![
            MAX_FRAME_BYTES MIN_FRAME_BYTES MAX_BATCH MAX_TEXT_BYTES MAX_CAPABILITIES MAX_RULES MAX_SOURCES MAX_NAMES MAX_NAMES_BYTES MAX_STREAMS MAX_THREADS MAX_LEVEL MAX_BLOCK_BYTES MAX_GREETING_BYTES MAX_UNCHECKED_BYTES MAX_ALIVES
            ENTRY_WINDOW LISTED_BYTES TALLY_WINDOW TALLIED_ENTRIES TALLIED_NAMES GROUP_WINDOW OFFERED_GROUPS GAP_BYTES MENDED_BYTES GAP_WINDOW MAX_GAPS_OUT MAX_GROUPS MAX_CREDIT_BYTES MAX_SUMS SUM_WINDOW MAX_TOKEN_BYTES FILL_BYTES WHOLE_BLOCK_BYTES CHANGED_BLOCK_BYTES MAX_CHANGED_BLOCKS MAX_MOVED_RUNS MIN_HOLE_BYTES MAX_DATA_RUNS MAX_SMALL_DATA_RUNS WHOLE_BELOW_BYTES TOLD_BY_CHUNK_BYTES MOVED_ABOVE_BYTES MAX_REPEATABLE SEGMENT_BYTES
            MAX_ACTIVE_FILES LARGE_FILE_BYTES MAX_ACTIVE_LARGE MAX_ATTEMPTS INDEX_BUDGET_CHUNKS MAX_XATTRS_BYTES MAX_ACL_NAMED MAX_OWNER_NAMES MAX_LINKED MAX_LINKED_BYTES MAX_ALTERNATES GUARDED_DELETES GUARDED_PERCENT MAX_ASKED MAX_MUTE_SECONDS
        ]
        .into_iter()
    }

    fn with_commas(number: u64) -> String {
        let digits = number.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(<[u8]>::to_vec).collect();
        String::from_utf8(groups.join(&b',')).unwrap()
    }

    #[test]
    fn the_document_says_what_the_limits_are() {
        for (name, value) in limits() {
            let row = format!("| `{name}` | {} |", with_commas(value));
            assert!(DOCUMENT.contains(&row), "docs/protocol.md lacks {row}");
        }
        let constants = SOURCE.lines().filter(|line| line.starts_with("pub const")).count();
        assert_eq!(limits().count(), constants, "a limit is missing here");
    }
}
