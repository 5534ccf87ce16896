//! Limits on input from a peer (docs/protocol.md, "Limits"); limits of groups are in `deltic_core::recipe`.
//!
//! The limits are part of the protocol: both ends enforce them on input and keep them in output.

use deltic_core::chunk::{ChunkerSpec, FixedLen, MAX_CHUNK_BYTES};
use deltic_tree::{Kind, Meta, RelPath};

use crate::error::PeerError;

/// Largest payload of a frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 1 << 20;
/// Smallest limit on frame payloads that an end may set, in bytes. Frames that a sender writes before it has heard
/// the other end's hello are no longer than this.
pub const MIN_FRAME_BYTES: usize = 64 << 10;
/// Most entries, groups, chunks or ranges in a frame.
pub const MAX_BATCH: usize = 4096;
/// Most outcomes, and most wanted files, of answers in one frame: more would save next to nothing, and delay the sender.
pub const MAX_ANSWERS: usize = 64;
/// Longest text (a message, a capability's name, a path argument) in bytes.
pub const MAX_TEXT_BYTES: usize = 4096;
/// Most capabilities in a hello.
pub const MAX_CAPABILITIES: usize = 64;
/// Most filter rules in a request.
pub const MAX_RULES: usize = 1 << 16;
/// Most source arguments in a request.
pub const MAX_SOURCES: usize = 4096;
/// Most names in the list of a request.
pub const MAX_NAMES: usize = 1 << 20;
/// Most bytes of all names in the list of a request.
pub const MAX_NAMES_BYTES: usize = 64 << 20;
/// Most streams of a session, counting the first.
pub const MAX_STREAMS: u32 = 16;
/// Most threads that an end may be asked to compute with.
pub const MAX_THREADS: u32 = 1024;
/// Highest zstd level that a request may ask for; frames are so short that even this level costs little memory.
pub const MAX_LEVEL: u32 = 22;
/// Longest mean chunk length that a request may ask for, in bytes.
pub const MAX_BLOCK_BYTES: u32 = 128 << 10;
/// Most bytes that either end reads before the hello and the request are complete.
pub const MAX_GREETING_BYTES: usize = MAX_FRAME_BYTES;
/// Most bytes of frames without a check after them. A writer checks earlier: after a frame that makes the run long.
pub const MAX_UNCHECKED_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// Most `Alive` frames in a row: more than an end sends within [`MAX_MUTE_SECONDS`] with the shortest timeout.
pub const MAX_ALIVES: u32 = 4 * MAX_MUTE_SECONDS as u32;
/// Most `Echo` frames without an answer.
pub const MAX_ECHOES: usize = 4;
/// Most entries listed by the sender and not yet settled by the receiver.
pub const ENTRY_WINDOW: u64 = 16 << 10;
/// Bytes of attributes and ACLs of entries listed and not yet settled. Above this limit no more entries with
/// attributes are listed.
pub const LISTED_BYTES: usize = 8 << 20;
/// Most directory tallies sent that are not answered, or belong to a directory that no listing has named.
pub const TALLY_WINDOW: usize = 4096;
/// Most entries of all directories with a tally sent and not answered: a part of [`ENTRY_WINDOW`].
pub const TALLIED_ENTRIES: u64 = ENTRY_WINDOW / 2;
/// Most users and groups with known names for which a receiver still compares tallies of owners.
pub const TALLIED_NAMES: usize = 256;
/// Most groups sent and not answered, over all files of a session.
pub const GROUP_WINDOW: u64 = 1 << 18;
/// Most groups that a sender sends of a file before the receiver asks for the file. The first packets of a connection
/// hold this many, so an unwanted offer delays nothing.
pub const OFFERED_GROUPS: u64 = 1 << 10;
/// Longest gap in the new version, in bytes; the bytes of the old version in its place are at most twice as long.
pub const GAP_BYTES: u64 = 256 << 10;
/// Most bytes of the new version in all gaps of a frame.
pub const MENDED_BYTES: u64 = 512 << 10;
/// Most gaps that a receiver has requested and not received, over all files of a session.
pub const GAP_WINDOW: u64 = 1 << 10;
/// Most open gaps that a sender accepts; gaps of attempts that the receiver gave up may still arrive.
pub const MAX_GAPS_OUT: u64 = 1 << 12;
/// Most groups in a file's recipe.
pub const MAX_GROUPS: usize = 1 << 21;
/// Most literal bytes that a receiver may grant as credit.
pub const MAX_CREDIT_BYTES: u64 = 16 << 20;
/// Most sums of a file that either end sends in a strategy of the papers.
pub const MAX_SUMS: usize = 1 << 22;
/// Most chunks sent and not named by a match, in a strategy that pipelines.
pub const SUM_WINDOW: u32 = 1 << 18;
/// Most bytes in all chunks of a token, unless the token is a single chunk.
pub const MAX_TOKEN_BYTES: u64 = 8 << 20;
/// Most old chunks that a receiver proposes for a chunk.
pub const MAX_CANDIDATES: usize = 16;
/// Most entries that a sender lists before it has heard the receiver. Later entries have the short form, if the
/// receiver understands it.
pub const UNHEARD_ENTRIES: u64 = 1 << 10;
/// Literal bytes of a fill, unless a single chunk is longer.
pub const FILL_BYTES: u64 = 256 << 10;
/// Block length of a file that is sent whole, in bytes.
pub const WHOLE_BLOCK_BYTES: u32 = 256 << 10;
/// Block length of a file that is sent as differences from a base, in bytes.
pub const CHANGED_BLOCK_BYTES: u32 = 4096;
/// Most changed blocks of a file that is sent as differences from a base.
pub const MAX_CHANGED_BLOCKS: usize = 1 << 20;
/// Most runs of blocks of a file that the base has at other positions.
pub const MAX_MOVED_RUNS: usize = 1 << 18;
/// Length in bytes of the shortest hole that a sender reports before data; a file that begins with data has a first
/// hole of 0.
pub const MIN_HOLE_BYTES: u64 = 64 << 10;
/// Most data runs in all `Holes` frames of a file.
pub const MAX_DATA_RUNS: usize = 1 << 16;
/// Most data runs in all `Holes` frames of a file that is not large. A file of `LARGE_FILE_BYTES` has no more runs
/// between holes of `MIN_HOLE_BYTES`.
pub const MAX_SMALL_DATA_RUNS: usize = (LARGE_FILE_BYTES / MIN_HOLE_BYTES) as usize;
/// Longest file that is always sent whole, in bytes: a recipe would cost a round trip to save less than a packet.
pub const WHOLE_BELOW_BYTES: u64 = 2 << 10;
/// Longest file whose recipe is sent as chunks without groups, in bytes: groups would save fewer bytes than the extra
/// round trip costs.
pub const TOLD_BY_CHUNK_BYTES: u64 = 128 << 10;
/// Longest file that is not searched for under other names, in bytes: sending many such files costs less than finding
/// them.
pub const MOVED_ABOVE_BYTES: u64 = 16 << 10;
/// Most lengths for which the first new file is remembered, to match another file against it; not visible to the
/// peer.
pub const MAX_REPEATABLE: usize = 1 << 14;
/// Least bytes of a file that are read, cut and summed in one piece of work.
pub const SEGMENT_BYTES: u64 = 512 << 10;
/// Most files in transfer at once.
pub const MAX_ACTIVE_FILES: usize = 256;
/// Longest file that does not count as large, in bytes.
pub const LARGE_FILE_BYTES: u64 = 32 << 20;
/// Most large files in transfer at once: each needs an index of its old version.
pub const MAX_ACTIVE_LARGE: usize = 2;
/// Most attempts at a file before the file counts as failed.
pub const MAX_ATTEMPTS: u32 = 3;
/// Most chunks of old versions in the index of a file; data beyond them is sent as literals.
pub const INDEX_BUDGET_CHUNKS: usize = 1 << 20;
/// Most bytes in the names and values of an entry's extended attributes.
pub const MAX_XATTRS_BYTES: usize = deltic_tree::meta::MAX_XATTRS_BYTES;
/// Most named users and groups in an ACL.
pub const MAX_ACL_NAMED: usize = deltic_tree::meta::MAX_ACL_NAMED;
/// Most users, and most groups, with names sent in a session.
pub const MAX_OWNER_NAMES: usize = 16 << 10;
/// Most hard-linked files with a first name sent and further names to come.
pub const MAX_LINKED: usize = 1 << 20;
/// Most bytes of the first names of all hard-linked files with further names to come, including symlink targets,
/// attributes and ACLs.
pub const MAX_LINKED_BYTES: usize = 128 << 20;
/// Most alternates of a run.
pub const MAX_ALTERNATES: usize = 20;
/// Most names that `Delete::Guarded` deletes at any share of the destination, unless a share is set.
pub const GUARDED_DELETES: u64 = 1000;
/// Share of the destination's names that `Delete::Guarded` deletes if this is more, in percent.
pub const GUARDED_PERCENT: u8 = 25;

/// Most names shown by the question before many names are deleted.
pub const MAX_ASKED: usize = 5;
/// Seconds after which a peer that sends only `Alive` frames counts as silent, where a timeout is set.
pub const MAX_MUTE_SECONDS: u64 = 86_400;

/// Limits that the two ends of a session agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a frame, in bytes: at most [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Literal bytes that the sender may send before the receiver grants more credit, at most [`MAX_CREDIT_BYTES`];
    /// `None` means no limit.
    pub credit: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes: MAX_FRAME_BYTES, credit: None }
    }
}

impl Limits {
    /// Limits that hold before the other end is heard.
    pub const UNHEARD: Self = Self { frame_bytes: MIN_FRAME_BYTES, credit: None };

    /// Checks the length of a payload.
    ///
    /// # Errors
    /// [`PeerError::Limit`] where the payload is too long.
    pub const fn check_frame(&self, len: usize) -> Result<(), PeerError> {
        if len > self.frame_bytes { Err(PeerError::Limit("frame length")) } else { Ok(()) }
    }

    /// Returns the most items in a list of a frame, given the bytes that an item may take.
    #[must_use]
    pub fn max_items(&self) -> usize {
        MAX_BATCH.min(self.frame_bytes / ITEM_BYTES)
    }

    /// Returns the longest chunk of a new version, in bytes: one such chunk fits a frame.
    #[must_use]
    pub fn chunk_bytes(&self) -> u32 {
        MAX_CHUNK_BYTES.min((self.frame_bytes - FIELD_BYTES) as u32)
    }

    /// True if the chunks of this chunker fit frames.
    #[must_use]
    pub fn admits_chunker(&self, spec: &ChunkerSpec) -> bool {
        spec.max_len() <= self.chunk_bytes()
    }

    /// Returns the literal bytes of a fill, unless a single chunk is longer.
    #[must_use]
    pub fn fill_bytes(&self) -> u64 {
        FILL_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// True if a frame holds this number of literal bytes and of ranges.
    pub(crate) fn fits_frame(&self, bytes: u64, ranges: usize) -> bool {
        bytes + (ranges * RANGE_BYTES + FIELD_BYTES) as u64 <= self.frame_bytes as u64
    }

    /// Returns the block length of files that are sent whole, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        WHOLE_BLOCK_BYTES.min(self.frame_bytes as u32 / 2)
    }

    /// Returns the chunker of files that are sent in blocks.
    #[must_use]
    pub fn whole_file_chunker(&self) -> ChunkerSpec {
        let len = FixedLen::new(self.block_bytes());
        ChunkerSpec::Fixed(len.expect("a block is as long as a chunk may be"))
    }

    /// Returns the chunker of files that are sent as differences from a base.
    #[must_use]
    pub fn changed_file_chunker() -> ChunkerSpec {
        let len = FixedLen::new(CHANGED_BLOCK_BYTES);
        ChunkerSpec::Fixed(len.expect("a block is as long as a chunk may be"))
    }

    /// Returns the longest gap in a new version, in bytes.
    pub(crate) fn gap_bytes(&self) -> u64 {
        GAP_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// Returns the most bytes of a new version in the gaps of a frame.
    pub(crate) fn mended_bytes(&self) -> u64 {
        MENDED_BYTES.min(self.frame_bytes as u64 / 2)
    }

    /// Returns the bytes of entries after which a listing frame is full.
    pub(crate) const fn listing_bytes(&self) -> usize {
        let most = self.frame_bytes / 4;
        if most < LISTING_BYTES { most } else { LISTING_BYTES }
    }

    /// Returns the most bytes of an entry including attributes.
    pub(crate) const fn entry_bytes(&self) -> usize {
        self.frame_bytes / 8 * 5
    }
}

/// Bytes of the longest list item, other than names and entries.
const ITEM_BYTES: usize = 64;
/// Bytes of the longest range.
const RANGE_BYTES: usize = 10;
/// Bytes of all other fields in a frame with literals.
const FIELD_BYTES: usize = 1 << 10;
/// Bytes of the entries in a frame, unless the last entry is longer.
const LISTING_BYTES: usize = 128 << 10;

/// Returns the bytes that a hard-linked file with the first name `path` counts towards [`MAX_LINKED_BYTES`].
pub(crate) fn hard_link_bytes(path: &RelPath, meta: &Meta) -> usize {
    let target = match &meta.kind {
        Kind::Symlink(target) => target.len(),
        _ => 0,
    };
    path.as_bytes().len() + target + meta.extra_metadata_bytes()
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
            MAX_FRAME_BYTES MIN_FRAME_BYTES MAX_BATCH MAX_TEXT_BYTES MAX_CAPABILITIES MAX_RULES MAX_SOURCES MAX_NAMES MAX_NAMES_BYTES MAX_STREAMS MAX_THREADS MAX_LEVEL MAX_BLOCK_BYTES MAX_GREETING_BYTES MAX_UNCHECKED_BYTES MAX_ALIVES MAX_ECHOES
            ENTRY_WINDOW LISTED_BYTES TALLY_WINDOW TALLIED_ENTRIES TALLIED_NAMES GROUP_WINDOW OFFERED_GROUPS GAP_BYTES MENDED_BYTES GAP_WINDOW MAX_ANSWERS MAX_GAPS_OUT MAX_GROUPS MAX_CREDIT_BYTES MAX_SUMS SUM_WINDOW MAX_TOKEN_BYTES MAX_CANDIDATES UNHEARD_ENTRIES FILL_BYTES WHOLE_BLOCK_BYTES CHANGED_BLOCK_BYTES MAX_CHANGED_BLOCKS MAX_MOVED_RUNS MIN_HOLE_BYTES MAX_DATA_RUNS MAX_SMALL_DATA_RUNS WHOLE_BELOW_BYTES TOLD_BY_CHUNK_BYTES MOVED_ABOVE_BYTES MAX_REPEATABLE SEGMENT_BYTES
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
