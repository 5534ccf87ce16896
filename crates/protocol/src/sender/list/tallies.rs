//! Directories sent as tallies (digests), and listed only if the receiver's directory differs (docs/decisions/0021).
//!
//! ```text
//! listed ──► Tally sent, entries kept ──► alike: dropped
//!                                    └──► unlike: owed ──► Listing
//! ```
//!
//! While a tally waits for its answer, the walk continues below the directory, with tallies alone. A directory to be
//! listed below waits until the receiver knows of it: by the answer *alike*, or by the listing of its parent. Kept
//! entries count as sent, so that the listing of a differing directory never waits for room.

use std::collections::{BTreeMap, VecDeque};

use deltic_tree::ComparedAttributes;

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, LISTED_BYTES, TALLIED_ENTRIES, TALLY_WINDOW, UNHEARD_ENTRIES};
use crate::options::Options;

use super::ready::ReadyDir;

/// Entries of a session that are always listed: a small tree is sent without a question, and so is the beginning of a
/// first copy. Tallies follow without waiting, also before the receiver is heard.
const LISTED_FIRST: u64 = UNHEARD_ENTRIES;
/// Fewest entries for which a tally saves bytes.
const LEAST_ENTRIES: usize = 1;
/// Maximum of `DirTallies::credit`, in entries.
const MAX_TALLY_CREDIT: u64 = 16 << 10;
/// While tallies count as useless, one directory in this number still gets a tally.
const PROBE_EVERY: u64 = 32;

/// Conditions for sending a directory as a tally.
#[derive(Clone, Copy, Debug)]
struct TallyConditions {
    listed_first: u64,
    least_entries: usize,
}

/// Directories whose tallies wait for answers, and directories that wait until the receiver knows their parent.
#[derive(Debug)]
pub(super) struct DirTallies {
    compared: Option<ComparedAttributes>,
    thrift: TallyConditions,
    next: u32,
    /// Tallies without an answer, and tallies of differing directories whose listing has not begun.
    open: BTreeMap<u32, SentTally>,
    /// Number of entries of all open tallies.
    kept: u64,
    /// Bytes of ACLs and extended attributes of these entries.
    kept_bytes: usize,
    /// Number of listings that wait for the receiver to know their directories.
    parked: usize,
    /// Number of matching directories below directories with open tallies.
    unnamed: usize,
    owed: VecDeque<(u32, ReadyDir)>,
    /// Credit of tallies, in entries. The entries of a matching directory are added, the entries of a differing
    /// directory subtracted. At 0, tallies count as useless.
    credit: u64,
    asked: u64,
}

/// A tally that was sent.
#[derive(Debug)]
struct SentTally {
    /// The directory with its entries, until its listing begins.
    ready: Option<ReadyDir>,
    /// Bytes of ACLs and extended attributes of the entries.
    bytes: usize,
    /// Number of the parent directory's tally, if that tally was open.
    above: Option<u32>,
    is_unlike: bool,
    /// Tallies sent for directories in this directory.
    below: Vec<u32>,
    /// Directories in this directory that are to be listed.
    parked: Vec<ReadyDir>,
    /// Number of matching directories in this directory.
    unnamed: usize,
}

impl Default for TallyConditions {
    fn default() -> Self {
        Self { listed_first: LISTED_FIRST, least_entries: LEAST_ENTRIES }
    }
}

impl DirTallies {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            compared: options.tallied_attributes(),
            thrift: TallyConditions::default(),
            next: 0,
            open: BTreeMap::new(),
            kept: 0,
            kept_bytes: 0,
            parked: 0,
            unnamed: 0,
            owed: VecDeque::new(),
            credit: MAX_TALLY_CREDIT / 2,
            asked: 0,
        }
    }

    /// Sends tallies of all directories below the root, from the first on and of any size.
    pub(super) const fn tally_all_dirs(&mut self) {
        self.thrift = TallyConditions { listed_first: 0, least_entries: 0 };
    }

    /// Expects tallies to be useless from now on, until a directory matches.
    pub(super) const fn expect_no_match(&mut self) {
        self.credit = 0;
    }

    /// True if a tally of the next directory should be computed.
    pub(super) const fn wants_tally(&mut self) -> bool {
        self.asked += 1;
        self.compared.is_some() && (self.credit > 0 || self.asked.is_multiple_of(PROBE_EVERY))
    }

    /// True if tallies may be sent after `sent` entries.
    pub(super) const fn may_begin(&self, sent: u64) -> bool {
        sent >= self.thrift.listed_first
    }

    /// True if a directory with these entries may be sent as a tally.
    pub(super) fn can_tally(&self, ready: &ReadyDir) -> bool {
        let entries = ready.entries.len();
        let is_covered = |compared: ComparedAttributes| {
            ready.entries.iter().all(|entry| compared.cover(&entry.meta))
        };
        entries >= self.thrift.least_entries
            && entries as u64 <= TALLIED_ENTRIES
            && ready.attribute_bytes() <= LISTED_BYTES
            && self.compared.is_some_and(is_covered)
    }

    pub(super) const fn unsettled_entries(&self) -> u64 {
        self.kept
    }

    /// True if no tally waits for an answer, and no differing directory waits for its listing.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn awaits_answer(&self, no: u32) -> bool {
        self.open.contains_key(&no)
    }

    /// Returns the number of listings that wait for the receiver to know their directories.
    pub(super) const fn parked_count(&self) -> usize {
        self.parked
    }

    pub(super) fn park(&mut self, above: u32, ready: ReadyDir) {
        let sent = self.open.get_mut(&above).expect("its tally is open");
        sent.parked.push(ready);
        self.parked += 1;
    }

    /// Returns the next directory that must be listed because its tally differed.
    pub(super) fn next_to_list(&mut self) -> Option<ReadyDir> {
        let (no, mut ready) = self.owed.pop_front()?;
        ready.tallied = Some(no);
        Some(ready)
    }

    /// Counts sent entries of a listing that follows a differing tally.
    pub(super) const fn count_sent_entries(&mut self, entries: u64) {
        self.kept -= entries;
    }

    /// True if there is room for a tally of `entries` entries, with `bytes` of attributes, while `unsettled` entries
    /// are sent and not settled.
    pub(super) fn has_room(&self, entries: u64, bytes: usize, unsettled: u64) -> bool {
        let fits = bytes == 0 || self.kept_bytes + bytes <= LISTED_BYTES;
        fits && self.open.len() + self.unnamed < TALLY_WINDOW
            && self.kept + entries <= TALLIED_ENTRIES
            && unsettled + self.kept + entries <= ENTRY_WINDOW
    }

    /// Registers a tally that is sent. Returns its number.
    pub(super) fn register(&mut self, ready: ReadyDir, above: Option<u32>) -> u32 {
        let no = self.next;
        self.next += 1;
        let bytes = ready.attribute_bytes();
        self.kept += ready.entries.len() as u64;
        self.kept_bytes += bytes;
        if let Some(above) = above {
            let sent = self.open.get_mut(&above).expect("its tally is open");
            sent.below.push(no);
        }
        let sent = SentTally {
            ready: Some(ready),
            bytes,
            above,
            is_unlike: false,
            below: Vec::new(),
            parked: Vec::new(),
            unnamed: 0,
        };
        self.open.insert(no, sent);
        no
    }

    fn open_tally(&mut self, no: u32) -> Result<&mut SentTally, PeerError> {
        let sent = self.open.get_mut(&no).filter(|sent| !sent.is_unlike);
        sent.ok_or(PeerError::Unexpected("an answer to an unknown tally"))
    }

    fn has_open_dir_above(&self, sent: &SentTally) -> bool {
        sent.above.is_some_and(|above| self.awaits_answer(above))
    }

    /// Takes the answer *unlike*: the directory must be listed.
    pub(super) fn note_different(&mut self, no: u32) -> Result<(), PeerError> {
        let sent = self.open_tally(no)?;
        sent.is_unlike = true;
        let entries = sent.ready.as_ref().map_or(0, |ready| ready.entries.len() as u64);
        self.credit = self.credit.saturating_sub(entries);
        self.queue_listing(no);
        Ok(())
    }

    /// Takes the answer *alike*: all entries of the directory are settled. Returns the directory, and the directories
    /// parked below it.
    pub(super) fn note_equal(&mut self, no: u32) -> Result<(ReadyDir, Vec<ReadyDir>), PeerError> {
        let sent = self.open_tally(no)?;
        let ready = sent.ready.take().expect("no listing is owed that was not asked for");
        let above = sent.above;
        let entries = ready.entries.len() as u64;
        self.kept -= entries;
        self.credit = (self.credit + entries).min(MAX_TALLY_CREDIT);
        if let Some(above) = above.and_then(|above| self.open.get_mut(&above)) {
            above.unnamed += 1;
            self.unnamed += 1;
        }
        let parked = self.close(no);
        Ok((ready, parked))
    }

    /// Closes the tally of a directory with entries known to the receiver, so that directories below may be listed.
    /// Returns the directories parked below.
    pub(super) fn close(&mut self, no: u32) -> Vec<ReadyDir> {
        let Some(sent) = self.open.remove(&no) else { return Vec::new() };
        self.kept_bytes -= sent.bytes;
        self.unnamed -= sent.unnamed;
        self.parked -= sent.parked.len();
        for below in sent.below {
            self.queue_listing(below);
        }
        sent.parked
    }

    /// Queues the listing of a differing directory, if the receiver knows its parent.
    fn queue_listing(&mut self, no: u32) {
        let Some(sent) = self.open.get(&no) else { return };
        if !sent.is_unlike || self.has_open_dir_above(sent) {
            return;
        }
        let ready = self.open.get_mut(&no).and_then(|sent| sent.ready.take());
        self.owed.extend(ready.map(|ready| (no, ready)));
    }
}
