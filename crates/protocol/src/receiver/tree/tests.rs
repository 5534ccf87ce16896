//! Trees driven without content: entries without content, and files that are only named.

use deltic_tree::{Entry, Follow, Kind, Meta, Name, RelPath, Timestamp};

use super::*;
use crate::limits::MAX_BATCH;
use crate::message::Extent;
use crate::options::{Links, Metadata, Options, Remove, Select, Writing};
use crate::receiver::ask::{EntryWork, LookupAnswer, LookupWork, ReceiverWork};
use crate::receiver::pending::ReceiverPending;
use crate::report::TroubleKind;
use crate::work::{ErrorAction, WorkError};

const SECTIONS: u64 = 6;
const ENTRIES: u64 = MAX_BATCH as u64 / 2;

fn options() -> Options {
    let remove = Remove { sources: true, ..Remove::default() };
    Options { recursive: true, links: true, remove, ..Options::default() }
}

fn link(no: u64) -> Entry {
    let name = Name::new(format!("{no:06}").as_bytes()).unwrap();
    let kind = Kind::Symlink(b"x"[..].into());
    Entry { name, meta: Meta::without_owner(kind, 0, Timestamp::default(), 0o777) }
}

/// A tree that is driven without files.
struct Driver {
    cx: Context,
    tree: ReceiverTree,
    /// Number of flushes that still fail.
    failures: u32,
}

impl Driver {
    fn new(options: Options, failures: u32) -> Self {
        let cx = Context::new(Setting { options, ..Setting::default() });
        Self { tree: ReceiverTree::new(&cx.setting), cx, failures }
    }

    /// Takes a frame, and does all work that is asked for.
    fn handle(&mut self, frame: ToReceiver) {
        self.tree.handle(&mut self.cx, frame).unwrap();
        loop {
            self.tree.take_possible_steps(&mut self.cx);
            self.tree.report_settled_number(&mut self.cx, None);
            while self.tree.may_close(&self.cx) {
                self.tree.take_next_step(&mut self.cx);
            }
            let Some((id, work)) = self.cx.jobs.poll() else { return };
            let pending = self.cx.jobs.take_answer(id).unwrap();
            self.cx.load.uncount_pending(&pending);
            let ReceiverPending::Tree(pending) = pending else { panic!("{pending:?}") };
            let answer = answer(work, &mut self.failures);
            self.tree.answer(&mut self.cx, pending, answer).unwrap();
        }
    }
}

/// Returns the frames sent to the sender for links, of which some cannot be made; the first `failures` flushes fail.
fn heard(options: Options, failures: u32) -> Vec<ToSender> {
    let mut driver = Driver::new(options, failures);
    for no in 0..=SECTIONS {
        let entries = (no * ENTRIES..(no + 1) * ENTRIES).map(link).collect();
        let extent = if no + 1 == SECTIONS { Extent::Last } else { Extent::More };
        let listing = ToReceiver::Listing { dir: RelPath::root(), own: None, entries, extent };
        let frame = if no == SECTIONS { ToReceiver::Listed { intact: true } } else { listing };
        driver.handle(frame);
    }
    driver.cx.frames.into()
}

fn answer(work: ReceiverWork, failures: &mut u32) -> ReceiverAnswer {
    let trouble = Trouble::new(TroubleKind::Failed, "sad");
    let sad = || ReceiverAnswer::Done(Err(WorkError { trouble, then: ErrorAction::GiveUp }));
    match work {
        ReceiverWork::Lookup(LookupWork::Look { paths, .. }) => ReceiverAnswer::Lookup(
            LookupAnswer::Looked(paths.iter().map(|_| Ok(None)).collect(), Default::default()),
        ),
        ReceiverWork::Entry(EntryWork::MakeSymlink { path, .. }) if fails(&path) => sad(),
        ReceiverWork::Flush if *failures > 0 => {
            *failures -= 1;
            sad()
        }
        ReceiverWork::SetDirs { .. } => ReceiverAnswer::SetDirs(Vec::new()),
        ReceiverWork::Land => ReceiverAnswer::Landed(Vec::new()),
        _ => ReceiverAnswer::Done(Ok(())),
    }
}

fn fails(path: &RelPath) -> bool {
    path.as_bytes().ends_with(b"7")
}

/// Returns, for each `Arrived` frame, the number of arrivals, the bound below which nothing else will arrive, and
/// whether the frame came before the last entry was settled.
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
    // Entries that failed do not delay the bound until the end.
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
    // A later flush does not report the loss of an earlier one again.
    for (delay, failures) in [(false, 1), (false, u32::MAX), (true, u32::MAX)] {
        let writing = Writing { delay, ..Writing::default() };
        let told = arrivals(&heard(Options { writing, ..options() }, failures));
        assert!(told.iter().all(|(count, ..)| *count == 0), "{told:?}");
    }
}

fn file(name: &str, linked: Option<deltic_tree::meta::HardLink>) -> Entry {
    let mut meta = Meta::without_owner(Kind::File, 1, Timestamp::default(), 0o644);
    meta.set_hard_link(linked);
    Entry { name: Name::new(name.as_bytes()).unwrap(), meta }
}

fn listing(entries: Vec<Entry>, extent: Extent) -> ToReceiver {
    ToReceiver::Listing { dir: RelPath::root(), own: None, entries, extent }
}

#[test]
fn a_list_that_is_only_shown_keeps_nothing_of_files_of_several_names() {
    use deltic_tree::meta::HardLink;
    let metadata = Metadata { hard_links: true, ..Metadata::default() };
    let select = Select { list_only: true, ..Select::default() };
    let options = Options { recursive: true, metadata, select, ..Options::default() };
    let mut driver = Driver::new(options, 0);
    for names in [["a", "b"], ["c", "d"]] {
        let linked = [HardLink::First(2), HardLink::Back(1)];
        let entries = names.into_iter().zip(linked).map(|(name, linked)| file(name, Some(linked)));
        driver.handle(listing(entries.collect(), Extent::More));
        let links = &driver.tree.entries.links;
        assert!(links.is_empty(), "{links:?}");
    }
}

#[test]
fn files_are_named_and_waited_for_until_they_are_settled() {
    let mut driver = Driver::new(Options { recursive: true, ..Options::default() }, 0);
    driver.handle(listing(vec![file("a", None), file("b", None)], Extent::Last));
    let wanted = driver.tree.take_wanted();
    assert!(wanted.iter().map(|candidate| candidate.file).eq([FileNo(0), FileNo(1)]));
    assert_eq!(driver.tree.unsettled_entries(), 2..2, "no entry waits in the tree");
    for candidate in wanted {
        let end = crate::receiver::files::candidate::FileOutcome::Replaced;
        driver
            .tree
            .take_settled_file(&mut driver.cx, SettledFile { candidate, end, is_restless: false });
    }
    driver.handle(ToReceiver::Listed { intact: true });
    assert!(driver.tree.is_finished());
}

/// No window counts empty directories, so all might wait at once.
#[test]
fn an_empty_directory_is_not_looked_into_and_counts_until_it_is_made() {
    let mut driver = Driver::new(Options { recursive: true, ..Options::default() }, 0);
    let name = "n".repeat(250);
    let meta = Meta::without_owner(Kind::Dir, 0, Timestamp::default(), 0o755);
    let dir = Entry { name: Name::new(name.as_bytes()).unwrap(), meta };
    driver.tree.handle(&mut driver.cx, listing(vec![dir], Extent::Last)).unwrap();
    let path = RelPath::parse(name.as_bytes()).unwrap();
    let below =
        ToReceiver::Listing { dir: path, own: None, entries: Vec::new(), extent: Extent::Last };
    driver.tree.handle(&mut driver.cx, below).unwrap();
    let mut failures = 0;
    let mut looks = 0;
    while let Some((id, work)) = driver.cx.jobs.poll() {
        looks += u32::from(matches!(work, ReceiverWork::Lookup(LookupWork::Look { .. })));
        let is_made = matches!(work, ReceiverWork::Entry(EntryWork::MakeDir { .. }));
        assert_eq!(driver.cx.load.backlog_bytes() > name.len(), is_made, "{work:?}");
        let pending = driver.cx.jobs.take_answer(id).unwrap();
        driver.cx.load.uncount_pending(&pending);
        let ReceiverPending::Tree(pending) = pending else { panic!("{pending:?}") };
        driver.tree.answer(&mut driver.cx, pending, answer(work, &mut failures)).unwrap();
    }
    assert_eq!((looks, driver.cx.load.backlog_bytes()), (1, 0));
    driver.handle(ToReceiver::Listed { intact: true });
    assert!(driver.tree.is_finished());
}
