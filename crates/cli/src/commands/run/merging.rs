//! Merges the notices and counts of all attempts of a run: the user sees one run without a lost connection.
//!
//! Each attempt lists and compares everything again. A name that an earlier attempt reported is not reported again, and
//! counts once. The record of reported names has a bound; later names may be reported twice.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use deltic_net::{Outcome, Traffic};
use deltic_protocol::options::Options;
use deltic_protocol::report::{Action, Change, EntryType, Notice, Totals};
use deltic_tree::RelPath;

use crate::report::reporter::UiEvent;

/// Notices and counts of a run over all of its attempts.
#[derive(Debug, Default)]
pub(super) struct RunNotices {
    /// True if another attempt may follow, so that names are recorded.
    records: bool,
    /// True if sources that an attempt removed are missing in the lists of later attempts.
    counts_removed: bool,
    names: ReportedNames,
    /// Lengths of changed files whose sources may be removed, by hashed path.
    lengths: HashMap<u64, u64>,
    /// Counts of earlier attempts.
    earlier: Totals,
    /// Counts of this attempt.
    current: Totals,
    /// Counts of this attempt for names that an earlier attempt has reported.
    repeated: Totals,
    /// Settled bytes (up to date, matched or sent) in this attempt, and the most of any earlier attempt.
    settled: u64,
    most_settled: u64,
    /// Bytes of earlier attempts.
    traffic: Traffic,
    has_made_root: bool,
    was_heard: bool,
    made_progress: bool,
    /// True if this attempt compares contents, which the user did not ask for.
    hides_content: bool,
}

impl RunNotices {
    /// Starts without notices. Records names if the run `may_retry`.
    pub(super) fn of(options: &Options, may_retry: bool, lists_removed_again: bool) -> Self {
        let counts_removed = may_retry && options.remove.sources && !lists_removed_again;
        Self { records: may_retry, counts_removed, ..Self::default() }
    }

    /// Takes a notice of the current attempt. Returns the event for the reporter, if any.
    pub(super) fn event(&mut self, notice: Notice) -> Option<UiEvent> {
        if !self.records {
            return Some(UiEvent::Notice(notice));
        }
        let notice = match notice {
            Notice::Settled { bytes } => Notice::Settled { bytes: self.settle(bytes)? },
            Notice::Wire { bytes } => {
                self.was_heard = true;
                let Traffic { sent, received } = self.traffic;
                Notice::Wire { bytes: bytes.saturating_add(sent).saturating_add(received) }
            }
            Notice::Changed(change) => Notice::Changed(self.change(change)?),
            Notice::Trouble(trouble) => {
                let key = self.names.key(trouble.message.as_bytes(), NameState::Trouble);
                return Some(match self.names.note(key) {
                    NoteResult::Repeated => UiEvent::Repeated(trouble.kind),
                    NoteResult::New | NoteResult::Full => UiEvent::Notice(Notice::Trouble(trouble)),
                });
            }
            Notice::Entry { path, meta } => {
                let key = self.names.key(path.as_bytes(), NameState::Same);
                (self.names.note(key) != NoteResult::Repeated)
                    .then_some(Notice::Entry { path, meta })?
            }
            Notice::MadeRoot(made) => (!std::mem::replace(&mut self.has_made_root, true))
                .then_some(Notice::MadeRoot(made))?,
            Notice::Removed(path) => {
                self.source_removed(&path);
                Notice::Removed(path)
            }
            Notice::Listed { .. }
            | Notice::Agreed(_)
            | Notice::ReadReason { .. }
            | Notice::Closing
            | Notice::Finished(_) => notice,
        };
        Some(UiEvent::Notice(notice))
    }

    /// Returns the settled bytes beyond those of earlier attempts.
    fn settle(&mut self, bytes: u64) -> Option<u64> {
        let before = self.settled.max(self.most_settled);
        self.settled = self.settled.saturating_add(bytes);
        let fresh = self.settled.checked_sub(before).filter(|fresh| *fresh > 0)?;
        self.made_progress = true;
        Some(fresh)
    }

    /// Counts a change. Returns the change, unless an earlier attempt has reported the name.
    fn change(&mut self, mut change: Change) -> Option<Change> {
        let state = match change.action {
            Action::Deleted => NameState::Deleted,
            action if action.is_none() => NameState::Same,
            _ => NameState::Changed,
        };
        change.differs.content &= !self.hides_content;
        let counts = counts(&change);
        let path = change.path.as_bytes();
        let was_changed =
            state == NameState::Same && self.names.has(self.names.key(path, NameState::Changed));
        let noted = match was_changed {
            true => NoteResult::Repeated,
            false => self.names.note(self.names.key(path, state)),
        };
        if noted == NoteResult::Repeated && state != NameState::Deleted {
            add(&mut self.repeated, &counts);
            return None;
        }
        self.made_progress |= noted == NoteResult::New && state != NameState::Same;
        if self.counts_removed && change.item == EntryType::File && self.lengths.len() < MAX_NAMES {
            let key = self.names.key(path, NameState::Same);
            self.lengths.insert(key, change.facts.len);
        }
        add(&mut self.current, &counts);
        Some(change)
    }

    fn source_removed(&mut self, path: &RelPath) {
        if self.counts_removed {
            let key = self.names.key(path.as_bytes(), NameState::Same);
            let bytes = self.lengths.remove(&key).unwrap_or_default();
            add(&mut self.current, &Totals { files: 1, bytes, ..Totals::default() });
        }
    }

    /// True if bytes of the other end arrived in the current attempt.
    pub(super) const fn was_heard(&self) -> bool {
        self.was_heard
    }

    /// True if the current attempt settled more than the attempts before it.
    pub(super) const fn made_progress(&self) -> bool {
        self.made_progress
    }

    /// Ends a failed attempt, which moved the bytes `traffic`. Changes `options` for another attempt: files that have
    /// arrived must not count as different again.
    pub(super) fn begin_again(&mut self, traffic: Traffic, options: &mut Options) {
        self.names.begin_again();
        let counts = std::mem::take(&mut self.current);
        add(&mut self.earlier, &counts);
        self.repeated = Totals::default();
        self.most_settled = self.most_settled.max(std::mem::take(&mut self.settled));
        self.traffic.sent += traffic.sent;
        self.traffic.received += traffic.received;
        (self.was_heard, self.made_progress) = (false, false);
        self.hides_content |= compare_contents(options);
    }

    /// Returns the outcome of the run, which took the time `elapsed`, given the outcome of its last attempt.
    pub(super) fn outcome(&self, last: &Outcome, elapsed: Duration) -> Outcome {
        let mut outcome = *last;
        add(&mut outcome.totals, &self.earlier);
        subtract(&mut outcome.totals, &self.repeated);
        outcome.traffic.sent += self.traffic.sent;
        outcome.traffic.received += self.traffic.received;
        Outcome { elapsed, ..outcome }
    }
}

/// True if sizes and times show that a file has arrived: without `-I`, and with `-t` or `--size-only`.
pub(super) const fn times_show_arrival(options: &Options) -> bool {
    let compare = &options.compare;
    !compare.ignore_times && (options.times || compare.size_only)
}

/// Lets another attempt compare contents where sizes and times do not show that a file has arrived. Returns true if the
/// options changed.
fn compare_contents(options: &mut Options) -> bool {
    let Options { compare, writing, .. } = &*options;
    let rewrites = compare.ignore_times && writing.inplace && writing.sparse;
    if options.checksum || options.dry_run || rewrites || times_show_arrival(options) {
        return false;
    }
    options.checksum = true;
    options.compare.ignore_times = false;
    true
}

/// Returns the counts that a change adds to the totals of an attempt.
fn counts(change: &Change) -> Totals {
    let Change { item, action, facts, .. } = change;
    let is_sent = matches!(action, Action::Created | Action::Updated)
        && *item == EntryType::File
        && facts.linked.is_none();
    let sent = if is_sent { facts.len } else { 0 };
    let literal = facts.literal.min(sent);
    Totals {
        created: u64::from(*action == Action::Created),
        transferred: u64::from(is_sent),
        transferred_bytes: sent,
        literal,
        matched: sent - literal,
        deleted: u64::from(*action == Action::Deleted),
        ..Totals::default()
    }
}

fn add(to: &mut Totals, more: &Totals) {
    combine(to, more, u64::saturating_add);
}

fn subtract(from: &mut Totals, less: &Totals) {
    combine(from, less, u64::saturating_sub);
}

fn combine(to: &mut Totals, other: &Totals, by: fn(u64, u64) -> u64) {
    let counts = |totals: &Totals| {
        let Totals { files, bytes, created, transferred, transferred_bytes, .. } = *totals;
        let Totals { literal, matched, deleted, .. } = *totals;
        [files, bytes, created, transferred, transferred_bytes, literal, matched, deleted]
    };
    let (ours, others) = (counts(to), counts(other));
    let [files, bytes, created, transferred, transferred_bytes, literal, matched, deleted] =
        std::array::from_fn(|at| by(ours[at], others[at]));
    let combined = Totals { files, bytes, created, transferred, transferred_bytes, ..*to };
    *to = Totals { literal, matched, deleted, ..combined };
}

/// Last report of a name, or of a trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum NameState {
    /// Up to date, passed over, or listed.
    Same = 0,
    Changed = 1,
    Deleted = 2,
    Trouble = 3,
}

/// Result of recording a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoteResult {
    New,
    /// An earlier attempt has recorded the same.
    Repeated,
    /// The record is full.
    Full,
}

/// Hashes of the names that were reported, each with its state in the lowest bits.
#[derive(Debug, Default)]
struct ReportedNames {
    /// Names of earlier attempts.
    earlier: HashSet<u64>,
    /// Names of this attempt.
    current: Vec<u64>,
    hasher: RandomState,
}

impl ReportedNames {
    fn key(&self, name: &[u8], state: NameState) -> u64 {
        self.hasher.hash_one(name) & !STATE_BITS | state as u64
    }

    fn has(&self, key: u64) -> bool {
        self.earlier.contains(&key)
    }

    /// Records a name of this attempt.
    fn note(&mut self, key: u64) -> NoteResult {
        if self.has(key) {
            return NoteResult::Repeated;
        }
        if self.earlier.len() + self.current.len() >= MAX_NAMES {
            return NoteResult::Full;
        }
        self.current.push(key);
        NoteResult::New
    }

    /// Ends an attempt.
    fn begin_again(&mut self) {
        self.earlier.extend(self.current.drain(..));
    }
}

/// Bits of a key that hold the state.
const STATE_BITS: u64 = 3;
/// Most recorded names: eight bytes each, and about nine in a set.
const MAX_NAMES: usize = 900_000;

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_protocol::report::{Differs, Facts, Trouble, TroubleKind};

    fn change(name: &str, action: Action) -> Notice {
        let path = RelPath::parse(name.as_bytes()).unwrap();
        let facts = Facts { len: 10, literal: 4, ..Facts::default() };
        let differs = Differs { content: true, ..Differs::default() };
        Notice::Changed(Change { path, item: EntryType::File, action, differs, facts })
    }

    fn notices(remove_sources: bool) -> RunNotices {
        let mut options = Options::default();
        options.remove.sources = remove_sources;
        RunNotices::of(&options, true, false)
    }

    #[test]
    fn a_name_is_reported_and_counted_once() {
        let mut run = notices(false);
        let options = &mut Options { times: true, ..Options::default() };
        let is_told = |run: &mut RunNotices, notice| run.event(notice).is_some();
        assert!(is_told(&mut run, change("a", Action::Created)) && run.made_progress());
        assert!(is_told(&mut run, change("same", Action::Unchanged)));
        assert!(is_told(&mut run, change("gone", Action::Deleted)));
        run.begin_again(Traffic { sent: 100, received: 10 }, options);
        assert!(!options.checksum && !run.made_progress());
        for action in [Action::Created, Action::Touched, Action::Unchanged] {
            assert!(!is_told(&mut run, change("a", action)), "{action:?}");
        }
        assert!(!is_told(&mut run, change("same", Action::Unchanged)) && !run.made_progress());
        assert!(is_told(&mut run, change("same", Action::Updated)) && run.made_progress());
        // The last attempt counts `same`, and `a` again.
        let totals = Totals { created: 1, transferred: 2, files: 2, ..Totals::default() };
        let totals = Totals { transferred_bytes: 20, literal: 8, matched: 12, ..totals };
        let traffic = Traffic { sent: 5, received: 6 };
        let last = Outcome { totals, traffic, ..Outcome::default() };
        let all = run.outcome(&last, Duration::from_secs(9));
        assert_eq!(all.totals, Totals { deleted: 1, ..totals });
        assert_eq!((all.traffic, all.elapsed.as_secs()), (Traffic { sent: 105, received: 16 }, 9));
    }

    #[test]
    fn progress_never_goes_back_and_only_more_than_before_is_progress() {
        let mut run = notices(false);
        let settle = |run: &mut RunNotices, bytes| match run.event(Notice::Settled { bytes }) {
            Some(UiEvent::Notice(Notice::Settled { bytes })) => bytes,
            None => 0,
            _ => unreachable!("a notice of another kind"),
        };
        assert_eq!(settle(&mut run, 10), 10);
        run.begin_again(Traffic { sent: 7, received: 3 }, &mut Options::default());
        assert_eq!((settle(&mut run, 4), settle(&mut run, 6)), (0, 0));
        assert!(!run.made_progress());
        assert_eq!((settle(&mut run, 5), run.made_progress()), (5, true));
        let wire = run.event(Notice::Wire { bytes: 1 });
        assert!(matches!(wire, Some(UiEvent::Notice(Notice::Wire { bytes: 11 }))));
    }

    #[test]
    fn a_removed_source_still_counts_and_a_trouble_is_told_once() {
        let mut run = notices(true);
        run.event(change("a", Action::Created));
        run.event(Notice::Removed(RelPath::parse(b"a").unwrap()));
        let trouble = || Notice::Trouble(Trouble::new(TroubleKind::Failed, "cannot read b"));
        assert!(matches!(run.event(trouble()), Some(UiEvent::Notice(_))));
        run.begin_again(Traffic::default(), &mut Options::default());
        assert!(matches!(run.event(trouble()), Some(UiEvent::Repeated(TroubleKind::Failed))));
        let all = run.outcome(&Outcome::default(), Duration::ZERO).totals;
        assert_eq!((all.files, all.bytes, all.transferred), (1, 10, 1));
    }

    #[test]
    fn contents_are_compared_where_times_do_not_show_that_a_file_has_arrived() {
        let options = |times, ignore_times, size_only| {
            let mut options = Options { times, ..Options::default() };
            (options.compare.ignore_times, options.compare.size_only) = (ignore_times, size_only);
            options
        };
        for (times, ignore_times, size_only, compares) in [
            (true, false, false, false),
            (true, true, false, true),
            (false, false, false, true),
            (false, false, true, false),
        ] {
            let mut options = options(times, ignore_times, size_only);
            assert_eq!(compare_contents(&mut options), compares);
            assert_eq!(options.checksum, compares);
            assert!(!options.compare.ignore_times);
        }
    }
}
