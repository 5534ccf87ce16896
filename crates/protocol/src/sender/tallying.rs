//! Directories that are told by their tallies, and listed only if the receiver finds them to be other than its own
//! (docs/decisions/0021).
//!
//! ```text
//! listed ──► Tally told, entries kept ──► alike: dropped
//!                                    └──► unlike: owed ──► Listing
//! ```
//!
//! The walk goes on below a directory while its tally waits for an answer, with tallies alone: what is to be listed there
//! waits until the receiver knows of it, by the answer *alike* or by the listing of the directory above. Kept entries count
//! as told, so that a listing that is owed never waits for room.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use deltic_tree::{Compared, DirDigest, Kind, RelPath};

use crate::error::PeerError;
use crate::limits::{ENTRY_WINDOW, TALLIED_ENTRIES, TALLY_WINDOW};
use crate::message::ToReceiver;
use crate::options::Options;

use super::Sender;
use super::listing::{Ready, is_left_out};

/// Entries of a session that are listed whatever tallies might save: a small tree is on its way without a question, and
/// the beginning of a first copy.
const LISTED_FIRST: u64 = 1024;
/// Fewer are not worth a tally.
const LEAST_ENTRIES: usize = 1;
/// How many entries of unlike directories make tallies useless, and at most so many of alike ones are remembered.
const MOST_LUCK: u64 = 16 << 10;
/// Where tallies are useless every so many directories one is told all the same.
const PROBE_EVERY: u64 = 32;

/// When a directory is told by its tally.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thrift {
    listed_first: u64,
    least_entries: usize,
}

/// What waits for answers, or for the receiver to know what it is below.
#[derive(Debug)]
pub(super) struct Tallies {
    compared: Option<Compared>,
    thrift: Thrift,
    next: u32,
    /// Those not answered, and those whose listings are owed.
    open: BTreeMap<u32, Told>,
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

/// A tally that was told.
#[derive(Debug)]
struct Told {
    /// Until its listing begins.
    ready: Option<Ready>,
    /// The tally of the directory above, if that is open.
    above: Option<u32>,
    is_unlike: bool,
    /// Tallies told below it.
    below: Vec<u32>,
    /// What is to be listed below it.
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

    /// Whether the tally of the next directory is to be taken.
    pub(super) const fn wants(&mut self) -> bool {
        self.asked += 1;
        self.compared.is_some() && (self.luck > 0 || self.asked.is_multiple_of(PROBE_EVERY))
    }

    /// Whether tallies are told at all, where so many entries were listed.
    pub(super) const fn begin(&self, told: u64) -> bool {
        told >= self.thrift.listed_first
    }

    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether nothing waits for an answer, and nothing is owed.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, no: u32) -> bool {
        self.open.contains_key(&no)
    }

    /// How many listings wait for the receiver to know of their directories.
    pub(super) const fn parked(&self) -> usize {
        self.parked
    }

    pub(super) fn park(&mut self, above: u32, ready: Ready) {
        let told = self.open.get_mut(&above).expect("its tally is open");
        told.parked.push(ready);
        self.parked += 1;
    }

    /// The next listing that is owed.
    pub(super) fn take_owed(&mut self) -> Option<Ready> {
        let (no, mut ready) = self.owed.pop_front()?;
        ready.tallied = Some(no);
        Some(ready)
    }

    /// So many entries of a listing that was owed have left.
    pub(super) const fn tell(&mut self, entries: u64) {
        self.kept -= entries;
    }

    /// Whether a tally of so many entries can be told, where so many more are told and not settled.
    fn has_room(&self, entries: u64, unsettled: u64) -> bool {
        self.open.len() + self.unnamed < TALLY_WINDOW
            && self.kept + entries <= TALLIED_ENTRIES
            && unsettled + self.kept + entries <= ENTRY_WINDOW
    }

    /// Notes a tally that is told.
    fn note(&mut self, ready: Ready, above: Option<u32>) -> u32 {
        let no = self.next;
        self.next += 1;
        self.kept += ready.entries.len() as u64;
        if let Some(above) = above {
            let told = self.open.get_mut(&above).expect("its tally is open");
            told.below.push(no);
        }
        let told = Told {
            ready: Some(ready),
            above,
            is_unlike: false,
            below: Vec::new(),
            parked: Vec::new(),
            unnamed: 0,
        };
        self.open.insert(no, told);
        no
    }

    fn unanswered(&mut self, no: u32) -> Result<&mut Told, PeerError> {
        let told = self.open.get_mut(&no).filter(|told| !told.is_unlike);
        told.ok_or(PeerError::Unexpected("an answer to no tally"))
    }

    fn is_above_open(&self, told: &Told) -> bool {
        told.above.is_some_and(|above| self.is_open(above))
    }

    /// The receiver knows what is in this directory: what waited below it may be listed. Returns what was parked.
    pub(super) fn close(&mut self, no: u32) -> Vec<Ready> {
        let Some(told) = self.open.remove(&no) else { return Vec::new() };
        self.unnamed -= told.unnamed;
        self.parked -= told.parked.len();
        for below in told.below {
            self.owe(below);
        }
        told.parked
    }

    /// Owes the listing of an unlike directory, if the receiver knows of it.
    fn owe(&mut self, no: u32) {
        let Some(told) = self.open.get(&no) else { return };
        if !told.is_unlike || self.is_above_open(told) {
            return;
        }
        let ready = self.open.get_mut(&no).and_then(|told| told.ready.take());
        self.owed.extend(ready.map(|ready| (no, ready)));
    }
}

impl Sender {
    /// The same from whom every directory goes by its tally that may, the first and the smallest as well: so that a test
    /// need not make a large tree.
    #[doc(hidden)]
    #[must_use]
    pub fn eager(mut self) -> Self {
        self.lister.tallies.eager();
        self
    }

    /// The tally of a directory that was listed, if that may stand for its list: nothing is to be said of any of its
    /// entries.
    pub(super) fn tally_of(&self, ready: &Ready, tally: Option<DirDigest>) -> Option<DirDigest> {
        let least = self.lister.tallies.thrift.least_entries;
        let len = ready.entries.len();
        let fits = len >= least && len as u64 <= TALLIED_ENTRIES;
        let is_whole = !ready.partial && !ready.is_empty_source;
        let is_plain = ready.own.is_none() && is_whole && !ready.dir.is_root() && fits;
        let tally = tally.filter(|_| is_plain)?;
        let is_quiet = |entry: &deltic_tree::Entry| {
            !is_left_out(&entry.meta.kind, &self.options)
                && !matches!(entry.meta.kind, Kind::Device(_))
                && !entry.meta.is_partly_unread()
                && ready.dir.holds(&entry.name)
        };
        ready.entries.iter().all(is_quiet).then_some(tally)
    }

    /// Tells the tally of the first directory that is ready, if there is room, and walks on below it.
    pub(super) fn tell_tally(&mut self, tally: DirDigest) -> bool {
        let Some(ready) = self.lister.ready.pop_front() else { return false };
        let entries = ready.entries.len() as u64;
        if !self.lister.tallies.has_room(entries, self.lister.unsettled()) {
            self.lister.ready.push_front(ready);
            return false;
        }
        let dir = ready.dir.clone();
        let dirs = ready.entries.iter().filter(|entry| entry.meta.is_dir());
        let dirs: Vec<RelPath> = dirs.filter_map(|entry| dir.join(&entry.name).ok()).collect();
        let above = ready.above.filter(|above| self.lister.tallies.is_open(*above));
        let no = self.lister.tallies.note(ready, above);
        self.lister.dirs.extend(dirs.into_iter().map(|dir| (dir, Some(no))));
        self.frames.push_back(ToReceiver::Tally { dir, tally });
        true
    }

    pub(super) fn tallied(
        &mut self,
        alike: Vec<Range<u32>>,
        unlike: Vec<Range<u32>>,
    ) -> Result<(), PeerError> {
        for no in alike.into_iter().flatten() {
            self.alike(no)?;
        }
        for no in unlike.into_iter().flatten() {
            let tallies = &mut self.lister.tallies;
            let told = tallies.unanswered(no)?;
            told.is_unlike = true;
            let entries = told.ready.as_ref().map_or(0, |ready| ready.entries.len() as u64);
            tallies.luck = tallies.luck.saturating_sub(entries);
            tallies.owe(no);
        }
        self.list_more();
        Ok(())
    }

    /// All that is in a directory is settled.
    fn alike(&mut self, no: u32) -> Result<(), PeerError> {
        let tallies = &mut self.lister.tallies;
        let told = tallies.unanswered(no)?;
        let ready = told.ready.take().expect("no listing is owed that was not asked for");
        let above = told.above;
        let entries = ready.entries.len() as u64;
        tallies.kept -= entries;
        tallies.luck = (tallies.luck + entries).min(MOST_LUCK);
        if let Some(above) = above.and_then(|above| tallies.open.get_mut(&above)) {
            above.unnamed += 1;
            tallies.unnamed += 1;
        }
        let parked = tallies.close(no);
        self.lister.ready.extend(parked);
        self.lister.names += entries;
        let mut bytes = 0_u64;
        for entry in ready.entries.iter().filter(|entry| entry.meta.is_file()) {
            self.lister.files += 1;
            self.progress.list(entry.meta.len);
            bytes = bytes.saturating_add(entry.meta.len);
        }
        self.report_listed();
        self.report_settled(bytes);
        Ok(())
    }
}
