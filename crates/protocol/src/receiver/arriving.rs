//! Entries that are here as listed: other names of their files may be linked to them (`-H`), and their sources may go
//! (`--remove-source-files`), once they are flushed: many at a time, so that the sender need not hold all of them; where a
//! source may be looked at again, or what arrived waits for its name, all at the end.

use std::collections::{BTreeSet, HashMap, HashSet};

use deltic_tree::RelPath;

use crate::error::PeerError;
use crate::limits::MAX_BATCH;
use crate::message::{FileNo, ToSender};
use crate::options::Options;
use crate::report::{Notice, Trouble};
use crate::work::Setback;

use super::sections::Section;
use super::{Place, Receiver, Work};

/// What is here, or will be.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Entries that are here; if their sources are to go.
    here: Vec<FileNo>,
    /// Those that may still arrive, where sources go before the end.
    open: BTreeSet<FileNo>,
    /// Below this the sender was told all that arrived.
    upto: FileNo,
    /// Whether what is here is being flushed, to be told.
    flushing: bool,
    /// Whether that ever failed: what was lost may be of what arrived since, and a later one does not say so again.
    is_lost: bool,
    /// Whether anything was told.
    begun: bool,
    /// Those that will be once a change is done.
    coming: HashMap<RelPath, FileNo>,
    /// Of those that are here, what waits for its name.
    unnamed: HashMap<RelPath, FileNo>,
    /// Whether the sender removes what arrived.
    leaving: bool,
    /// How many it was told of and has not reported as removed.
    unreported: u64,
}

impl Arrivals {
    /// Takes the entry that a change at `path` was to bring.
    pub(super) fn take(&mut self, path: &RelPath) -> Option<FileNo> {
        self.coming.remove(path)
    }

    /// Whether the sender was told, and has not answered.
    pub(super) const fn are_leaving(&self) -> bool {
        self.leaving
    }

    /// The number below which nothing will arrive that did not.
    fn upto(&self, told: u64) -> FileNo {
        self.open.first().copied().unwrap_or(FileNo(told))
    }
}

impl Receiver {
    /// An entry is here as listed, or would be in a dry run.
    pub(super) fn arrive(&mut self, file: FileNo) {
        self.came(file);
        if self.lacking.is_last {
            // Its source has what could not be set.
            self.stays_there(file);
        } else {
            self.arrive_elsewhere(file);
        }
    }

    /// What an entry brings need not be brought again, though it is not here.
    pub(super) fn arrive_elsewhere(&mut self, file: FileNo) {
        let Options { remove, dry_run, .. } = &self.cx.setting.options;
        let leaves = remove.sources && !dry_run;
        // What was given up stays.
        if leaves
            && (self.arrivals.open.remove(&file) || !self.cx.setting.options.sources_go_early())
        {
            self.arrivals.here.push(file);
        }
    }

    /// Entries may arrive that are listed.
    pub(super) fn expect_arrivals(&mut self, section: &Section) {
        if self.cx.setting.options.sources_go_early() {
            let numbered = (section.first..).zip(&section.entries);
            let open = numbered.filter(|(_, entry)| !entry.meta.is_dir());
            self.arrivals.open.extend(open.map(|(no, _)| FileNo(no)));
        }
    }

    /// An entry does not arrive.
    pub(super) fn stays_there(&mut self, file: FileNo) {
        self.arrivals.open.remove(&file);
    }

    /// Makes what arrived so far safe, so that the sender may let go of it, once that is much or the sender holds much that
    /// stays.
    pub(super) fn let_go(&mut self) {
        let Arrivals { here, upto, flushing, .. } = &self.arrivals;
        let is_early = self.cx.setting.options.sources_go_early() && self.closing.is_none();
        if !is_early || *flushing {
            return;
        }
        let next = self.arrivals.upto(self.list.told());
        if here.len() >= MAX_BATCH || next.0 - upto.0 >= 2 * MAX_BATCH as u64 {
            self.arrivals.flushing = true;
            let files = std::mem::take(&mut self.arrivals.here);
            self.cx.jobs.ask(Work::Flush, Place::FlushArrived { files, upto: next });
        }
    }

    /// What is safe now may go; if that failed, it stays.
    pub(super) fn flushed_arrived(
        &mut self,
        (files, upto): (Vec<FileNo>, FileNo),
        flushed: Result<(), Setback>,
    ) {
        self.arrivals.flushing = false;
        match flushed {
            Ok(()) => self.tell_arrivals(files, upto),
            Err(setback) => {
                self.arrivals.is_lost = true;
                self.tell_arrivals(Vec::new(), upto);
                self.cx.trouble(setback.trouble);
            }
        }
    }

    fn tell_arrivals(&mut self, files: Vec<FileNo>, upto: FileNo) {
        let files = if self.arrivals.is_lost { Vec::new() } else { files };
        let (mut files, before) = (files.chunks(MAX_BATCH).peekable(), self.arrivals.upto);
        (self.arrivals.begun, self.arrivals.upto) = (true, upto);
        loop {
            let part = files.next().unwrap_or_default().to_vec();
            let is_last = files.peek().is_none();
            self.arrivals.unreported += part.len() as u64;
            let upto = if is_last { upto } else { before };
            self.cx.frames.push_back(ToSender::Arrived { files: part, upto, last: false });
            if is_last {
                return;
            }
        }
    }

    /// Without a flush nothing is safe.
    pub(super) fn flushed(&mut self, flushed: Result<(), Setback>) {
        if flushed.is_err() {
            self.arrivals.is_lost = true;
            self.arrivals.here.clear();
        }
        self.closed(flushed);
    }

    /// An entry is here as listed once a change of it is done.
    pub(super) fn will_arrive(&mut self, file: FileNo, path: &RelPath) {
        if self.cx.setting.options.remove.sources || self.linking.leads(file) {
            self.arrivals.coming.insert(path.clone(), file);
        }
    }

    /// What is here may still wait for its name.
    pub(super) fn waits(&mut self, file: FileNo, path: &RelPath) {
        if self.cx.setting.options.writing.delay && self.cx.setting.options.remove.sources {
            self.arrivals.unnamed.insert(path.clone(), file);
        }
    }

    /// What did not get its name did not arrive.
    pub(super) fn landed(&mut self, failed: Vec<(RelPath, Trouble)>) {
        let mut stay_away = HashSet::new();
        for (path, trouble) in failed {
            stay_away.extend(self.arrivals.unnamed.remove(&path));
            self.cx.trouble(trouble);
        }
        self.arrivals.here.retain(|here| !stay_away.contains(here));
        self.arrivals.unnamed.clear();
    }

    /// Not before all is flushed: what goes at the source must be safe here.
    pub(super) fn tell_arrived(&mut self) {
        let files = std::mem::take(&mut self.arrivals.here);
        if files.is_empty() && !self.arrivals.begun {
            return;
        }
        let upto = FileNo(self.list.told());
        self.tell_arrivals(files, upto);
        self.cx.frames.push_back(ToSender::Arrived { files: Vec::new(), upto, last: true });
        self.arrivals.leaving = true;
    }

    /// A source is gone at the sender.
    pub(super) fn removed_source(&mut self, path: RelPath) -> Result<(), PeerError> {
        let unreported = self.arrivals.unreported.checked_sub(1);
        self.arrivals.unreported =
            unreported.ok_or(PeerError::Unexpected("the removal of what did not arrive"))?;
        self.cx.notices.push_back(Notice::Removed(path));
        Ok(())
    }

    /// What arrived is gone at the sender, but for this.
    pub(super) fn gone(&mut self, troubles: Vec<Trouble>) -> Result<(), PeerError> {
        if !std::mem::take(&mut self.arrivals.leaving) {
            return Err(PeerError::Unexpected("the end of what did not arrive"));
        }
        self.cx.totals.failed += troubles.len() as u64;
        self.cx.notices.extend(troubles.into_iter().map(Notice::Trouble));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use deltic_tree::{Entry, Follow, Kind, Meta, Name, Timestamp};

    use super::super::{Answer, Setting};
    use super::*;
    use crate::message::{Extent, ToReceiver};
    use crate::options::{Links, Metadata, Remove, Writing};
    use crate::report::TroubleKind;
    use crate::work::Then;

    const SECTIONS: u64 = 6;
    const ENTRIES: u64 = MAX_BATCH as u64 / 2;

    fn options() -> Options {
        let remove = Remove { sources: true, ..Remove::default() };
        Options { recursive: true, links: true, remove, ..Options::default() }
    }

    fn link(no: u64) -> Entry {
        let name = Name::new(format!("{no:06}").as_bytes()).unwrap();
        let kind = Kind::Symlink(b"x"[..].into());
        Entry { name, meta: Meta::plain(kind, 0, Timestamp::default(), 0o777) }
    }

    /// What the sender hears of links, of which some cannot be made; the first so many flushes fail.
    fn heard(options: Options, mut failures: u32) -> Vec<ToSender> {
        let mut receiver = Receiver::new(Setting { options, ..Setting::default() });
        let mut heard = Vec::new();
        for no in 0..=SECTIONS {
            let entries = (no * ENTRIES..(no + 1) * ENTRIES).map(link).collect();
            let extent = if no + 1 == SECTIONS { Extent::Last } else { Extent::More };
            let listing = ToReceiver::Listing { dir: RelPath::root(), own: None, entries, extent };
            let frame = if no == SECTIONS { ToReceiver::Listed { intact: true } } else { listing };
            receiver.handle(frame).unwrap();
            while let Some((id, work)) = receiver.poll_work() {
                receiver.answer(id, answer(work, &mut failures)).unwrap();
            }
            heard.extend(std::iter::from_fn(|| receiver.poll_frame()));
        }
        heard
    }

    fn answer(work: Work, failures: &mut u32) -> Answer {
        let trouble = Trouble::new(TroubleKind::Failed, "sad");
        let sad = || Answer::Done(Err(Setback { trouble, then: Then::GiveUp }));
        match work {
            Work::Look { paths, .. } => {
                Answer::Looked(paths.iter().map(|_| Ok(None)).collect(), Default::default())
            }
            Work::MakeSymlink { path, .. } if fails(&path) => sad(),
            Work::Flush if *failures > 0 => {
                *failures -= 1;
                sad()
            }
            Work::SetDirs { .. } => Answer::SetDirs(Vec::new()),
            Work::Land => Answer::Landed(Vec::new()),
            _ => Answer::Done(Ok(())),
        }
    }

    fn fails(path: &RelPath) -> bool {
        path.as_bytes().ends_with(b"7")
    }

    /// Of each frame that says so how many arrived, below which number nothing else will, and whether it was heard before the
    /// last entry was settled.
    fn arrivals(heard: &[ToSender]) -> Vec<(usize, u64, bool)> {
        let all = ToSender::Settled { upto: FileNo(SECTIONS * ENTRIES) };
        let settled = heard.iter().position(|frame| *frame == all).unwrap();
        let arrived = |(at, frame): (usize, &ToSender)| match frame {
            ToSender::Arrived { files, upto, .. } => Some((files.len(), upto.0, at < settled)),
            _ => None,
        };
        heard.iter().enumerate().filter_map(arrived).collect()
    }

    #[test]
    fn sources_go_long_before_all_have_arrived() {
        let heard = heard(options(), 0);
        let told = arrivals(&heard);
        let count: usize = told.iter().map(|(count, ..)| count).sum();
        let made = (0..SECTIONS * ENTRIES).filter(|no| no % 10 != 7).count();
        assert_eq!(count, made, "{told:?}");
        let early: usize = told.iter().filter(|(.., early)| *early).map(|(count, ..)| count).sum();
        assert!(early > made / 2, "{told:?}");
        assert!(told.is_sorted_by_key(|(_, upto, _)| upto), "{told:?}");
        // What did not arrive does not wait for the end either.
        assert!(told.iter().any(|(_, upto, early)| *early && *upto >= 3 * ENTRIES), "{told:?}");
        let last =
            ToSender::Arrived { files: Vec::new(), upto: FileNo(SECTIONS * ENTRIES), last: true };
        assert_eq!(heard.last(), Some(&last));
    }

    #[test]
    fn what_may_be_looked_at_again_or_waits_for_its_name_goes_at_the_end() {
        let metadata = Metadata { hard_links: true, ..Metadata::default() };
        let follow = Links { follow: Follow::Dirs, ..Links::default() };
        let writing = Writing { delay: true, ..Writing::default() };
        let all = [
            Options { metadata, ..options() },
            Options { follow, ..options() },
            Options { writing, ..options() },
        ];
        for options in all {
            let told = arrivals(&heard(options, 0));
            assert!(told.len() > 1 && told.iter().all(|(.., early)| !early), "{told:?}");
        }
    }

    #[test]
    fn nothing_goes_that_could_not_be_flushed() {
        // A later flush does not say again what an earlier one lost.
        for (delay, failures) in [(false, 1), (false, u32::MAX), (true, u32::MAX)] {
            let writing = Writing { delay, ..Writing::default() };
            let told = arrivals(&heard(Options { writing, ..options() }, failures));
            assert!(told.iter().all(|(count, ..)| *count == 0), "{told:?}");
        }
    }
}
