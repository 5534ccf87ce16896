//! Keeps a destination equal to its sources: a first sync, and another sync of the changed names after each change.
//!
//! [`Watch`] tells what the next round syncs, and when. The caller runs each round as an ordinary sync, and reports the
//! result. Meanwhile, changes are gathered for the following round. Guarantee: when changes end and rounds succeed, the
//! destination equals the sources, even if events were lost. A directory that may have changed unnoticed is compared as
//! a whole.

mod batch;
mod dirt;
mod inotify;
mod mounts;
mod note;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltic_protocol::options::{Delete, Missing, Options};
use deltic_store_local::{SourceArg, StoreContext, reason};
use deltic_tree::path::printable;
use deltic_tree::rule::{Action::Exclude, PatternRule, Rule, RuleModifiers, RuleSides};
use deltic_tree::{Follow, Mounts, RelPath, glob};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::Outcome;
use crate::error::SyncError;
use crate::host::place;
use crate::host::sources::parse_argument;
use crate::plan::{Destination, Names, Plan, Sources};
use crate::run::runtime;
use batch::{Batch, Fault};
use deltic_worker::user::User;
use dirt::{Change, Dirt};
use inotify::Site;
use tree::Watches;

pub use batch::Pace;
pub use note::Note;

/// A sync to be run now.
#[derive(Debug)]
pub struct Round {
    /// The plan of the round: the same sources and destination, perhaps with only some names.
    pub plan: Plan,
    /// Number of the round, from 1.
    pub number: u64,
    /// Number of compared names and directories; `None` if all are compared.
    pub names: Option<usize>,
    /// The user that answers the delete guard. `None` for the user of the caller.
    pub user: Option<User>,
    /// Number of removals that this user refused.
    refused: Arc<AtomicU64>,
    dirt: Dirt,
}

impl Round {
    /// Returns the paths of the changed files, below the destination. `None` if more than these files may have changed.
    /// The files may be gone by now.
    #[must_use]
    pub fn changed_files(&self) -> Option<Vec<RelPath>> {
        let is_of_names = self.names.is_some() && self.dirt.dirs().next().is_none();
        is_of_names.then(|| self.dirt.names().collect())
    }

    /// Returns the local source directory for the destination's root, for the entry at `path`.
    #[must_use]
    pub fn source_of_root(&self, path: &RelPath) -> Option<PathBuf> {
        let Sources::Local(args) = &self.plan.sources else { return None };
        args.iter().find_map(|arg| {
            let arg = arg.as_os_str().as_bytes();
            let at = arg.windows(MARK.len()).position(|window| window == MARK)?;
            let (base, below) = (&arg[..at], &arg[at + MARK.len()..]);
            let below = RelPath::parse(below.strip_suffix(b"/").unwrap_or(below)).ok()?;
            let base = if base.is_empty() { b"/" } else { base };
            path.starts_with(&below).then(|| PathBuf::from(OsString::from_vec(base.to_vec())))
        })
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every change is at the destination.
    Well,
    /// Every change is at the destination, except deletions that exceed their limit.
    HeldBack,
    /// Some names failed.
    Partly,
    /// The run failed before its end.
    Broken,
}

/// A watch of sources, which plans the rounds.
#[derive(Debug)]
pub struct Watch {
    plan: Plan,
    /// The source arguments that are directories.
    roots: Vec<SourceArg>,
    shared: Shared,
    runtime: Runtime,
    ending: Arc<AtomicBool>,
    /// Time at which the watch ends.
    end: Option<Instant>,
    rounds: u64,
    /// Number of names in the sources: counted by the last full comparison, then updated by later rounds. `None` until
    /// a round has succeeded.
    names: Option<u64>,
    /// The watching thread ends when this descriptor is closed.
    _stop: OwnedFd,
}

/// State that the watching thread and the rounds share.
#[derive(Clone, Debug)]
struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// True if some names of the sources can be synced without the rest.
    divides: bool,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    batch: Batch,
    notes: Vec<Note>,
    held: Option<Held>,
    /// Number of names that the next round may remove regardless of the guard.
    allowed: u64,
    is_lost: bool,
    is_short: bool,
}

/// Deletions that the guard holds back.
#[derive(Debug)]
struct Held {
    dirt: Dirt,
    names: u64,
}

impl State {
    fn new(pace: Pace) -> Self {
        let batch = Batch::new(pace);
        let (notes, held, allowed) = (Vec::new(), None, 0);
        Self { batch, notes, held, allowed, is_lost: false, is_short: false }
    }

    /// Holds back the deletions of a round that brought all other changes. `names` is the number of names to remove.
    fn hold_back_deletions(&mut self, dirt: Dirt, names: u64) {
        self.notes.push(Note::HeldBack(names));
        match &mut self.held {
            Some(held) => {
                held.names += names;
                held.dirt.merge(dirt);
            }
            held => *held = Some(Held { dirt, names }),
        }
    }

    /// Notes a change. A held-back deletion is counted again by the next round, if the change extends the deletion or
    /// brings back one of its names. Otherwise the protecting rules would keep these names for ever.
    fn note_change(&mut self, now: Duration, change: Change) {
        let back = match (&change, &mut self.held) {
            (Change::Came(path), Some(held)) => held.dirt.note_exists(path),
            (Change::Gone(path), Some(held)) => held.dirt.extends_deletions(path),
            _ => false,
        };
        self.batch.note_change(now, change);
        if let Some(held) = self.held.take_if(|_| back) {
            self.batch.note_held_back(held.dirt);
        }
    }

    /// Takes the changes of the next round. Adds held-back deletions if not all of their names are known. A round that
    /// compared a part of their directories would count, and allow, only a part of the deletions.
    fn next_changes(&mut self, now: Duration) -> Option<Dirt> {
        let mut dirt = self.batch.take_due(now)?;
        if let Some(held) = self.held.take_if(|held| !held.dirt.knows_all_gone()) {
            dirt.merge(held.dirt);
        }
        Some(dirt)
    }

    /// Returns rules that protect held-back names, so that later rounds do not ask about these names again.
    fn protecting_rules(&self) -> Vec<Rule> {
        let dirt = self.held.iter().map(|held| &held.dirt);
        let gone = dirt.clone().flat_map(Dirt::names_gone).map(protecting_rule);
        gone.chain(dirt.flat_map(Dirt::gone_from).map(rule_protecting_all_in)).collect()
    }

    fn confirm_deletions(&mut self) -> u64 {
        let Some(Held { dirt, names }) = self.held.take() else { return 0 };
        self.batch.allow_deletions(dirt);
        self.allowed = names;
        names
    }
}

/// Confirms held-back deletions of a watch, from any thread.
#[derive(Clone, Debug)]
pub struct Confirming(Shared);

impl Confirming {
    /// Allows the held-back deletions. Returns the number of counted names: a round will not remove more names.
    #[must_use]
    pub fn confirm(&self) -> u64 {
        let names = self.0.with_state(State::confirm_deletions);
        self.0.0.changed.notify_one();
        names
    }
}

impl Shared {
    fn new(pace: Pace, divides: bool) -> Self {
        let state = Mutex::new(State::new(pace));
        Self(Arc::new(Inner { start: Instant::now(), divides, state, changed: Arc::default() }))
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the changes that the watching thread found.
    fn take_changes(&self, changes: Vec<Change>, watches: &Watches) {
        let now = self.now();
        let (is_lost, is_short) = (watches.lost, watches.is_short);
        self.with_state(|state| {
            for change in changes {
                // No part can be synced alone, so all names are compared. Gone names are noted as well.
                state.note_change(now, change);
                if !self.0.divides {
                    state.batch.compare_all();
                }
            }
            match (state.is_lost, is_lost) {
                (false, true) => state.notes.push(Note::SourceGone),
                (true, false) => state.notes.push(Note::SourceBack),
                _ => {}
            }
            if is_short && !state.is_short {
                state.notes.push(Note::TooManyDirs);
            }
            state.batch.set_may_miss_changes(now, is_short);
            (state.is_lost, state.is_short) = (is_lost, is_short);
        });
        self.0.changed.notify_one();
    }
}

impl Watch {
    /// Watches the sources of `plan` until `ending` completes. The first [round](Self::next) is due at once.
    ///
    /// # Errors
    /// [`SyncError::Usage`] or [`SyncError::Options`] if the plan cannot be repeated, or its sources are not
    /// on this machine; [`SyncError::NoSource`] if a source is missing; [`SyncError::Watch`] if the system refuses to
    /// watch.
    pub fn start(
        plan: &Plan,
        pace: Pace,
        ending: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, SyncError> {
        let paths = watchable_sources(plan)?;
        let options = &plan.options;
        let (mut roots, mut files) = (Vec::new(), Vec::new());
        for path in paths {
            let arg = parse_argument(path.as_os_str(), options, &StoreContext::default())?;
            let shown = || printable(path.as_os_str().as_bytes());
            let lacks = |error| format!("cannot read {}: {}", shown(), reason(&error));
            match inotify::is_dir(&arg).map_err(|error| SyncError::NoSource(lacks(error)))? {
                true => roots.push(arg),
                false => files.push(arg),
            }
        }
        let divides = files.is_empty() && can_sync_partially(&roots, options);
        let shared = Shared::new(pace, divides);
        let threads = |source| SyncError::Transport { action: "start threads", source };
        let (stopped, stop) = std::io::pipe().map_err(threads)?;
        let site = Site { dirs: roots.clone(), files, options: options.clone() };
        inotify::start(site, shared.clone(), stopped.into())?;
        let (runtime, is_ending) = (runtime()?, Arc::new(AtomicBool::new(false)));
        let (flag, changed) = (Arc::clone(&is_ending), Arc::clone(&shared.0.changed));
        runtime.spawn(async move {
            ending.await;
            flag.store(true, Ordering::Release);
            changed.notify_one();
        });
        let end = plan.timeouts.whole.map(|whole| Instant::now() + whole);
        let (plan, rounds, names, _stop) = (plan.clone(), 0, None, stop.into());
        Ok(Self { plan, roots, shared, runtime, ending: is_ending, end, rounds, names, _stop })
    }

    /// Waits for the next round; messages go to `tell`. Returns `None` when the user or the time limit ends the watch.
    pub fn next(&mut self, tell: &mut dyn FnMut(&Note)) -> Option<Round> {
        loop {
            let notes = self.shared.with_state(|state| std::mem::take(&mut state.notes));
            notes.iter().for_each(&mut *tell);
            if self.is_ending() || self.is_time_up() {
                return None;
            }
            let now = self.shared.now();
            let due = self.shared.with_state(|state| match state.is_lost {
                true => Err(None),
                false => state.next_changes(now).ok_or_else(|| state.batch.next_due()),
            });
            let pause = match due {
                Ok(dirt) => return Some(self.round(dirt)),
                Err(due) => due.map(|due| due.saturating_sub(now)),
            };
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            let pause = pause.into_iter().chain(left).min().unwrap_or(FOR_EVER);
            let changed = Arc::clone(&self.shared.0.changed);
            // The loop looks again after a timeout or a change.
            self.runtime
                .block_on(async { tokio::time::timeout(pause, changed.notified()).await })
                .ok();
        }
    }

    /// Notes the result of a round, and the outcome if there is one.
    pub fn note_result(&mut self, round: Round, ended: Ended, outcome: Option<&Outcome>) {
        let now = self.shared.now();
        if let Some(Outcome { totals, .. }) = outcome {
            let names = match (round.names, self.names) {
                (Some(_), Some(before)) => (before + totals.created).saturating_sub(totals.deleted),
                _ => totals.listed(),
            };
            self.names = Some(names);
        }
        let refused = round.refused.load(Ordering::Acquire);
        self.shared.with_state(|state| match ended {
            Ended::Well => {
                let settled = |held: &mut Held| {
                    held.dirt.is_gone_empty() && round.dirt.covers_dirs(&held.dirt)
                };
                state.held.take_if(settled);
            }
            Ended::HeldBack if refused > 0 => state.hold_back_deletions(round.dirt, refused),
            Ended::HeldBack => state.batch.note_held_back(round.dirt),
            Ended::Partly => state.batch.note_failed(now, round.dirt, Fault::Names),
            Ended::Broken => {
                // The state of the other end is unknown, and another machine may be at the other end.
                let mut all = Dirt::default();
                all.note_change(Change::All);
                state.batch.note_failed(now, all, Fault::Run);
            }
        });
    }

    /// Returns the time left until failed changes are tried again. `None` if no changes failed.
    #[must_use]
    pub fn next_try(&self) -> Option<Duration> {
        let at = self.shared.with_state(|state| state.batch.next_try());
        at.map(|at| at.saturating_sub(self.shared.now()))
    }

    /// Returns a handle to confirm deletions that are held back.
    #[must_use]
    pub fn confirmation_handle(&self) -> Confirming {
        Confirming(self.shared.clone())
    }

    /// True if a round has succeeded.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.names.is_some()
    }

    /// True if the watch ends because its time is up.
    #[must_use]
    pub fn is_time_up(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Returns the number of names that wait for the user's [confirmation](Self::confirmation_handle) to be removed.
    #[must_use]
    pub fn held_back_count(&self) -> u64 {
        self.shared.with_state(|state| state.held.as_ref().map_or(0, |held| held.names))
    }

    /// True if all noted changes are at the destination, and no deletion is held back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.shared.with_state(|state| state.batch.is_clean() && state.held.is_none())
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn round(&mut self, dirt: Dirt) -> Round {
        self.rounds += 1;
        let mut plan = self.plan.clone();
        plan.timeouts.whole = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if self.names.is_some() {
            // A missing destination may be an unmounted file system: it is not created again, but waited for.
            plan.options.select.existing = true;
        }
        let take = |from: &mut State| (std::mem::take(&mut from.allowed), from.protecting_rules());
        let (allowed, protecting) = self.shared.with_state(take);
        plan.options.rules.list.splice(..0, protecting);
        let refused = Arc::default();
        // The user is at the terminal for the first round, and perhaps not later.
        let user = (self.names.is_some() || !plan.options.remove.asks)
            .then(|| user_allowing(allowed, Arc::clone(&refused)));
        plan.options.remove.asks = true;
        let args = if dirt.is_all() { None } else { args_of(&self.roots, &dirt) };
        let names = args.map(|args| {
            plan.sources = Sources::Local(args);
            restrict_to_names(&mut plan.options, self.names.unwrap_or(0));
            dirt.len()
        });
        Round { plan, number: self.rounds, names, user, refused, dirt }
    }
}

/// Returns the rule that protects the entry at `path` of the destination.
fn protecting_rule(path: &RelPath) -> Rule {
    // A backslash is an ordinary character in a pattern without wildcards.
    match glob::has_wildcards(path.as_bytes()) {
        true => rule_protecting_pattern(escaped(path)),
        false => rule_protecting_pattern([b"/", path.as_bytes()].concat()),
    }
}

/// Returns the rule that protects all entries of a directory of the destination.
fn rule_protecting_all_in(dir: &RelPath) -> Rule {
    let mut pattern = escaped(dir);
    pattern.extend_from_slice(if dir.is_root() { b"*" } else { b"/*" });
    rule_protecting_pattern(pattern)
}

/// Returns a pattern that matches only this path, with wildcards escaped.
fn escaped(path: &RelPath) -> Vec<u8> {
    let mut pattern = vec![b'/'];
    for byte in path.as_bytes() {
        if b"*?[\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

fn rule_protecting_pattern(pattern: Vec<u8>) -> Rule {
    let marks = RuleModifiers { sides: RuleSides::Receiver, ..RuleModifiers::default() };
    let pattern = pattern.into();
    Rule::Pattern(PatternRule { action: Exclude, negated: false, marks, pattern })
}

/// Returns a user that allows the removal of up to `names` names, and stores a larger number in `refused`.
fn user_allowing(names: u64, refused: Arc<AtomicU64>) -> User {
    User::new(move |question| {
        let allows = question.names <= names;
        if !allows {
            refused.store(question.names, Ordering::Release);
        }
        allows
    })
}

/// Longest wait if no round is due.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Returns the sources of a plan, if they can be watched.
fn watchable_sources(plan: &Plan) -> Result<&[PathBuf], SyncError> {
    let usage = |why: &str| Err(SyncError::Usage(format!("watch: {why}")));
    let options = |why: &str| Err(SyncError::Options(format!("watch: {why}")));
    let Options { recursive, dry_run, select, delete, remove, follow, .. } = &plan.options;
    match &plan.sources {
        Sources::Remote { .. } => usage("the source must be on this machine"),
        _ if plan.names != Names::None => {
            options("--files-from is not possible; name the directories as sources")
        }
        _ if select.list_only => options(
            "no destination to keep equal; write `deltic watch [OPTIONS] SRC... DEST`, without --list-only",
        ),
        _ if *dry_run => usage("-n is not possible; `deltic sync -n` shows the changes"),
        _ if matches!(delete, Delete::AtMost(most) if *most < u64::MAX) => options(
            "--max-delete=N would remove N names in each round; a share holds them back (--max-delete 10%)",
        ),
        _ if !recursive => usage("the options need -r or -a, to watch directories"),
        _ if remove.sources => {
            options("--remove-source-files would start a round for each removal; use `deltic sync`")
        }
        Sources::Local(paths) => {
            // A destination inside a source is refused: each round's writes would be changes for the next round.
            let context = StoreContext::default();
            let inside = match &plan.destination {
                Destination::Local(to) => {
                    let to = place::to_local_path(to.as_os_str());
                    let to = place::resolve(&to, None, select.mkpath, &context).ok();
                    to.map(|to| place::source_containing(paths, follow.follow, &to, &context))
                        .transpose()?
                }
                Destination::Remote { .. } => None,
            };
            inside.flatten().map_or(Ok(paths), |inside| Err(inside.refusal_error()))
        }
    }
}

/// True if syncing some names of these sources gives the same result as syncing all names.
fn can_sync_partially(roots: &[SourceArg], options: &Options) -> bool {
    let select = &options.select;
    let apart = |one: &SourceArg, other: &SourceArg| !other.path().starts_with(one.path());
    let all_apart = roots.iter().enumerate().all(|(nth, one)| {
        roots.iter().enumerate().all(|(other_nth, other)| nth == other_nth || apart(one, other))
    });
    // Followed links would need watches at their targets. Rules files also depend on the directories above. A new name
    // may be a hard link to an unchanged file.
    all_apart
        && options.follow.follow == Follow::Never
        && select.mounts == Mounts::Enter
        && !select.prune_empty_dirs
        && !select.plain_implied_dirs
        && !options.metadata.hard_links
        && !options.rules.list.iter().any(|rule| matches!(rule, Rule::DirMerge(_)))
}

/// Returns the arguments for the changed names and directories. Returns `None` if a name is outside of all roots.
fn args_of(roots: &[SourceArg], dirt: &Dirt) -> Option<Vec<PathBuf>> {
    let arg = |path: &RelPath, end: &[u8]| {
        let root = roots.iter().find(|root| path.starts_with(root.path()))?;
        let mut bytes = remove_dot_marks(root.dir().as_os_str());
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(end);
        Some(PathBuf::from(OsString::from_vec(bytes)))
    };
    let mut dirs: BTreeSet<_> = dirt.dirs().cloned().collect();
    // A root with listed content is listed too, since staging new files in the root changes its times.
    dirs.extend(roots.iter().map(|root| root.path().clone()).filter(RelPath::is_root));
    let dirs = dirs.iter().map(|dir| arg(dir, if dir.is_root() { b"" } else { b"/" }));
    let names = dirt.names().map(|name| arg(&name, b"")).collect::<Vec<_>>();
    let mut args: Vec<_> = dirs.chain(names).collect::<Option<_>>()?;
    // Names below a removed directory need no argument, since the removal of the directory is a change too.
    args.retain(|arg| !place::is_below_file(arg, &StoreContext::default()));
    (!args.is_empty()).then_some(args)
}

/// Mark in a source path; the path in the transfer begins after the mark.
const MARK: &[u8] = b"/./";

/// Removes the mark `/./` from a path.
fn remove_dot_marks(path: &OsStr) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    while let Some(at) = bytes.windows(MARK.len()).position(|three| three == MARK) {
        bytes.drain(at..at + 2);
    }
    bytes
}

/// Adapts options for a round of some names. `names` is the number of all names in the sources.
fn restrict_to_names(options: &mut Options, names: u64) {
    options.recursive = false;
    options.select.dirs = true;
    options.select.relative = true;
    // A name may be gone by now. Its deletion is another change.
    options.select.missing = Missing::Ignore;
    if let Delete::Guarded(guard) = &mut options.delete {
        // The guard needs the number of all names to compute a share.
        guard.names = Some(names);
    }
}
