//! Files that moved: what is not in its place here may be elsewhere in the destination, under another name.
//!
//! ```text
//! a file without an old version ──► waits while Chart looks around ──► the queue ──► OpenOld asks the chart
//!     there is a twin, or kin ──► an old version like any other: it is matched against, and nothing is believed of it
//!     there is none           ──► it comes whole
//! ```
//!
//! The chart is drawn a few thousand names at a time, by work like any other, when the first such file appears; files with
//! an old version do not wait for it. What is below the listed directories is looked at in any case, as it was looked at
//! for the list; of the rest of the destination no more than what is wanted is worth (docs/decisions/0022).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deltic_core::strategy::Conversation;
use deltic_tree::RelPath;

use crate::limits::MOVED_ABOVE_BYTES;
use crate::message::FileNo;
use crate::work::Handle;

use super::file::Candidate;
use super::{Charted, Kinship, Place, Receiver, Similar, Unseen, Work};

/// What is known of files that may have moved.
#[derive(Debug, Default)]
pub(super) struct Moved {
    chart: Chart,
    /// Files that wait for it.
    waiting: BTreeMap<FileNo, Candidate>,
    /// Names looked at for it.
    names: u64,
    has_files: bool,
    /// Length in bytes of all files that were to be looked for.
    wanted_bytes: u64,
    twins: Luck,
    kin: Luck,
    /// Places that files under way are matched against, and by how many.
    lent: HashMap<RelPath, usize>,
    /// Files that are complete, but for their places being lent.
    held: BTreeSet<Handle>,
}

/// How far the destination was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chart {
    #[default]
    Blank,
    Drawing,
    Left(Unseen),
}

/// How guesses turned out.
#[derive(Clone, Copy, Debug, Default)]
struct Luck {
    hits: u32,
    misses: u32,
}

impl Luck {
    fn is_out(self) -> bool {
        self.misses > MISSES_BORNE.saturating_add(self.hits.saturating_mul(2))
    }
}

/// Names looked at in one piece of work.
const NAMES_AT_ONCE: u64 = 8 << 10;
/// Names away from the listed directories that are looked at whatever is wanted.
const FAR_NAMES: u64 = 16 << 10;
/// Bytes wanted that are worth a look at one more such name: a look may take a disk as long as these take a line.
const BYTES_FOR_NAME: u64 = 64 << 10;
/// Most of them, whatever a sender says that it has.
const MOST_FAR_NAMES: u64 = 1 << 20;
/// Wrong guesses that are borne; each hit makes up for two.
const MISSES_BORNE: u32 = 16;
/// A guess that brought less than this share of a file was wrong.
const HIT_SHARE: u64 = 8;

impl Moved {
    /// The lowest number that waits.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.waiting.keys().next().copied()
    }

    /// What may be guessed.
    pub(super) fn most(&self) -> Option<Kinship> {
        match () {
            () if self.twins.is_out() => None,
            () if self.kin.is_out() => Some(Kinship::Twin),
            () => Some(Kinship::Kin),
        }
    }

    /// Learns from how much of a file its `kinship` brought, in bytes.
    pub(super) fn learn(&mut self, kinship: Kinship, matched: u64, len: u64) {
        let luck = match kinship {
            Kinship::Repeat => return,
            Kinship::Twin => &mut self.twins,
            Kinship::Kin => &mut self.kin,
        };
        let count = if matched >= len / HIT_SHARE { &mut luck.hits } else { &mut luck.misses };
        *count = count.saturating_add(1);
    }
}

impl Receiver {
    /// Puts a file into the queue; before that it may have to wait until it can be looked for.
    pub(super) fn enqueue(&mut self, candidate: Candidate) {
        if !self.may_have_moved(&candidate) {
            return self.queue_up(candidate);
        }
        self.moved.wanted_bytes = self.moved.wanted_bytes.saturating_add(candidate.meta.len);
        self.moved.waiting.insert(candidate.file, candidate);
    }

    /// Strategies of the papers look for nothing: they are here to be compared.
    fn may_have_moved(&self, candidate: &Candidate) -> bool {
        let options = &self.cx.setting.options;
        candidate.old.is_none()
            && candidate.beside.is_none()
            && candidate.meta.len > MOVED_ABOVE_BYTES
            && !options.whole_file
            && !options.dry_run
            && options.strategy.conversation == Conversation::Recipe
            && self.moved.most().is_some()
    }

    /// Goes on with the chart while files wait for it that it may help; the others go to the queue.
    pub(super) fn draw(&mut self) {
        if self.moved.waiting.is_empty() || self.moved.chart == Chart::Drawing {
            return;
        }
        let worthwhile = match self.moved.chart {
            Chart::Blank | Chart::Left(Unseen::Near) => true,
            Chart::Left(Unseen::Far) => self.moved.names < self.most_far_names(),
            Chart::Left(Unseen::Nothing) | Chart::Drawing => false,
        };
        if worthwhile {
            let near = if self.moved.chart == Chart::Blank { self.near() } else { Vec::new() };
            self.moved.chart = Chart::Drawing;
            return self.cx.jobs.ask(Work::Chart { near, names: NAMES_AT_ONCE }, Place::Chart);
        }
        for (_, mut candidate) in std::mem::take(&mut self.moved.waiting) {
            // A first copy finds nothing there, and need not look.
            candidate.may_have_moved = self.moved.has_files;
            self.queue_up(candidate);
        }
    }

    fn most_far_names(&self) -> u64 {
        let worth = self.moved.wanted_bytes / BYTES_FOR_NAME;
        let names =
            FAR_NAMES.saturating_add(self.list.known().saturating_mul(2)).saturating_add(worth);
        names.min(MOST_FAR_NAMES)
    }

    /// Directories that are brought over, and that no other holds.
    fn near(&self) -> Vec<RelPath> {
        if self.root_is_whole {
            return vec![RelPath::root()];
        }
        // One that is on the way to a source says nothing of what is in it.
        match self.cx.setting.options.select.relative {
            true => Vec::new(),
            false => self.dirs.topmost(),
        }
    }

    pub(super) fn charted(&mut self, Charted { names, unseen, has_files }: Charted) {
        self.moved.names = self.moved.names.saturating_add(names);
        self.moved.chart = Chart::Left(unseen);
        self.moved.has_files = has_files;
    }

    /// A file under way is matched against another one: nothing is to take that one's place meanwhile.
    pub(super) fn borrow(&mut self, handle: Handle, similar: Option<&Similar>) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        incoming.similar = similar.cloned();
        if let Some(Similar { path, kinship: Some(_), .. }) = similar {
            *self.moved.lent.entry(path.clone()).or_default() += 1;
        }
    }

    /// Whether a file that is complete must not take its place yet, because another one is matched against what is there.
    pub(super) fn holds(&mut self, handle: Handle) -> bool {
        let is_lent = self.waits_for(handle).is_some_and(|path| self.moved.lent.contains_key(path));
        if is_lent {
            self.moved.held.insert(handle);
        }
        is_lent
    }

    /// The file is not matched against the other one any more: what is to take that one's place may.
    pub(super) fn give_back(&mut self, similar: Option<Similar>) {
        let Some(Similar { path, kinship: Some(_), .. }) = similar else { return };
        let Some(count) = self.moved.lent.get_mut(&path) else { return };
        *count -= 1;
        if *count == 0 {
            self.moved.lent.remove(&path);
            std::mem::take(&mut self.moved.held).into_iter().for_each(|held| self.try_settle(held));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_guesses_end_guessing_and_right_ones_go_on() {
        let mut moved = Moved::default();
        for _ in 0..=MISSES_BORNE {
            assert_eq!(moved.most(), Some(Kinship::Kin));
            moved.learn(Kinship::Kin, 0, 100);
        }
        assert_eq!(moved.most(), Some(Kinship::Twin));
        moved.learn(Kinship::Kin, 90, 100);
        assert_eq!(moved.most(), Some(Kinship::Kin));
        for _ in 0..=MISSES_BORNE {
            moved.learn(Kinship::Twin, 0, 100);
        }
        assert_eq!(moved.most(), None);
    }
}
