//! Directories whose tallies are sent, and that are listed only if the receiver finds them to be other than its own
//! (docs/decisions/0021).
//!
//! ```text
//! listed ──► Tally sent, entries kept ──► alike: dropped
//!                                    └──► unlike: owed ──► Listing
//! ```
//!
//! The walk goes on below a directory while its tally waits for an answer, with tallies alone: what is to be listed
//! there waits until the receiver knows of it, by the answer *alike* or by the listing of the directory above. Kept
//! entries count as sent, so that a listing that is owed never waits for room.

use std::collections::{BTreeMap, VecDeque};

use deltic_tree::ComparedAttributes;

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, TALLIED_ENTRIES, TALLY_WINDOW};
use crate::options::Options;

use super::ready::Ready;

/// Entries of a session that are listed whatever tallies might save: a small tree is on its way without a question, and
/// the beginning of a first copy.
const LISTED_FIRST: u64 = 1024;
/// Fewer are not worth a tally.
const LEAST_ENTRIES: usize = 1;
/// Entries of unlike directories that make tallies useless; at most so many of alike ones are remembered.
const MOST_LUCK: u64 = 16 << 10;
/// Directories of which one is sent by its tally all the same where tallies are useless.
const PROBE_EVERY: u64 = 32;

/// The conditions for a directory to be sent by its tally.
#[derive(Clone, Copy, Debug)]
struct Thrift {
    listed_first: u64,
    least_entries: usize,
}

/// Directories that wait for answers, or for the receiver to know what they are below.
#[derive(Debug)]
pub(super) struct Tallies {
    compared: Option<ComparedAttributes>,
    thrift: Thrift,
    next: u32,
    /// Those not answered, and those whose listings are owed.
    open: BTreeMap<u32, Sent>,
    /// Entries of all of these.
    kept: u64,
    /// Listings that wait for the receiver to know of their directories.
    parked: usize,
    /// Alike ones below others that are open.
    unnamed: usize,
    owed: VecDeque<(u32, Ready)>,
    /// Entries that tallies may still be wrong about.
    luck: u64,
    asked: u64,
}

/// A tally that was sent.
#[derive(Debug)]
struct Sent {
    /// Until its listing begins.
    ready: Option<Ready>,
    /// The tally of the directory above, if that is open.
    above: Option<u32>,
    is_unlike: bool,
    /// Tallies sent below it.
    below: Vec<u32>,
    /// Directories below it that are to be listed.
    parked: Vec<Ready>,
    /// Alike ones below it.
    unnamed: usize,
}

impl Default for Thrift {
    fn default() -> Self {
        Self { listed_first: LISTED_FIRST, least_entries: LEAST_ENTRIES }
    }
}

impl Tallies {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            compared: options.tallied(),
            thrift: Thrift::default(),
            next: 0,
            open: BTreeMap::new(),
            kept: 0,
            parked: 0,
            unnamed: 0,
            owed: VecDeque::new(),
            luck: MOST_LUCK / 2,
            asked: 0,
        }
    }

    /// Tallies from the first directory below the root on, however small it is.
    pub(super) const fn eager(&mut self) {
        self.thrift = Thrift { listed_first: 0, least_entries: 0 };
    }

    /// Decides whether the tally of the next directory is to be taken.
    pub(super) const fn wants(&mut self) -> bool {
        self.asked += 1;
        self.compared.is_some() && (self.luck > 0 || self.asked.is_multiple_of(PROBE_EVERY))
    }

    /// Decides whether tallies are sent at all, where so many entries were listed.
    pub(super) const fn begin(&self, sent: u64) -> bool {
        sent >= self.thrift.listed_first
    }

    /// Decides whether a directory of so many entries may go by its tally.
    pub(super) const fn takes(&self, entries: usize) -> bool {
        entries >= self.thrift.least_entries && entries as u64 <= TALLIED_ENTRIES
    }

    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns true where nothing waits for an answer, and nothing is owed.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, no: u32) -> bool {
        self.open.contains_key(&no)
    }

    /// Listings that wait for the receiver to know of their directories.
    pub(super) const fn parked(&self) -> usize {
        self.parked
    }

    pub(super) fn park(&mut self, above: u32, ready: Ready) {
        let sent = self.open.get_mut(&above).expect("its tally is open");
        sent.parked.push(ready);
        self.parked += 1;
    }

    /// The next listing that is owed.
    pub(super) fn take_owed(&mut self) -> Option<Ready> {
        let (no, mut ready) = self.owed.pop_front()?;
        ready.tallied = Some(no);
        Some(ready)
    }

    /// Counts entries of a listing that was owed and leaves.
    pub(super) const fn pass(&mut self, entries: u64) {
        self.kept -= entries;
    }

    /// Decides whether a tally of so many entries has room, where so many more are sent and not settled.
    pub(super) fn has_room(&self, entries: u64, unsettled: u64) -> bool {
        self.open.len() + self.unnamed < TALLY_WINDOW
            && self.kept + entries <= TALLIED_ENTRIES
            && unsettled + self.kept + entries <= ENTRY_WINDOW
    }

    /// Notes a tally that is sent. Returns its number.
    pub(super) fn note(&mut self, ready: Ready, above: Option<u32>) -> u32 {
        let no = self.next;
        self.next += 1;
        self.kept += ready.entries.len() as u64;
        if let Some(above) = above {
            let sent = self.open.get_mut(&above).expect("its tally is open");
            sent.below.push(no);
        }
        let sent = Sent {
            ready: Some(ready),
            above,
            is_unlike: false,
            below: Vec::new(),
            parked: Vec::new(),
            unnamed: 0,
        };
        self.open.insert(no, sent);
        no
    }

    fn unanswered(&mut self, no: u32) -> Result<&mut Sent, PeerError> {
        let sent = self.open.get_mut(&no).filter(|sent| !sent.is_unlike);
        sent.ok_or(PeerError::Unexpected("an answer to no tally"))
    }

    fn is_above_open(&self, sent: &Sent) -> bool {
        sent.above.is_some_and(|above| self.is_open(above))
    }

    /// Takes the answer *unlike*: the directory is to be listed.
    pub(super) fn unlike(&mut self, no: u32) -> Result<(), PeerError> {
        let sent = self.unanswered(no)?;
        sent.is_unlike = true;
        let entries = sent.ready.as_ref().map_or(0, |ready| ready.entries.len() as u64);
        self.luck = self.luck.saturating_sub(entries);
        self.owe(no);
        Ok(())
    }

    /// Takes the answer *alike*: all that is in the directory is settled. Returns it, and what waited below it.
    pub(super) fn alike(&mut self, no: u32) -> Result<(Ready, Vec<Ready>), PeerError> {
        let sent = self.unanswered(no)?;
        let ready = sent.ready.take().expect("no listing is owed that was not asked for");
        let above = sent.above;
        let entries = ready.entries.len() as u64;
        self.kept -= entries;
        self.luck = (self.luck + entries).min(MOST_LUCK);
        if let Some(above) = above.and_then(|above| self.open.get_mut(&above)) {
            above.unnamed += 1;
            self.unnamed += 1;
        }
        let parked = self.close(no);
        Ok((ready, parked))
    }

    /// Forgets a directory whose entries the receiver knows: what waited below it may be listed. Returns what was
    /// parked.
    pub(super) fn close(&mut self, no: u32) -> Vec<Ready> {
        let Some(sent) = self.open.remove(&no) else { return Vec::new() };
        self.unnamed -= sent.unnamed;
        self.parked -= sent.parked.len();
        for below in sent.below {
            self.owe(below);
        }
        sent.parked
    }

    /// Owes the listing of an unlike directory, if the receiver knows of it.
    fn owe(&mut self, no: u32) {
        let Some(sent) = self.open.get(&no) else { return };
        if !sent.is_unlike || self.is_above_open(sent) {
            return;
        }
        let ready = self.open.get_mut(&no).and_then(|sent| sent.ready.take());
        self.owed.extend(ready.map(|ready| (no, ready)));
    }
}
