//! Keeping a destination as its sources are: a sync, and one more of what changed whenever something did.
//!
//! [`Watch`] says what the next round is to bring over and when; whoever drives it runs the round as any other sync,
//! and says how it ended. Changes are gathered meanwhile, and wait for the round after that. Law: when changes end,
//! and rounds go well, the destination is what the sources are, whatever was lost on the way: what is not known to be
//! in order is compared as a whole.

mod batch;
mod dirt;
mod inotify;
mod mounts;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deltic_protocol::options::{Delete, Missing, Options};
use deltic_store_local::SourceArg;
use deltic_store_local::reason;
use deltic_tree::path::printable;
use deltic_tree::rule::{Action::Exclude, PatternRule, Rule, RuleModifiers, RuleSides};
use deltic_tree::{Follow, Mounts, RelPath, glob};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::Outcome;
use crate::error::SyncError;
use crate::host::place;
use crate::host::sources::argument;
use crate::host::user::User;
use crate::plan::{Destination, Names, Plan, Sources};
use crate::run::{runtime, told_to_end};
use batch::{Batch, Fault};
use dirt::{Change, Dirt};
use inotify::Site;
use tree::Watches;

pub use batch::Pace;

/// What is to be synced next.
#[derive(Debug)]
pub struct Round {
    /// How: of the same sources to the same destination, but perhaps not all of them.
    pub plan: Plan,
    /// Counted from 1.
    pub number: u64,
    /// How many names and directories are compared; `None` where all are.
    pub names: Option<usize>,
    /// Who answers where the guard asks, unless that is whoever runs it.
    pub user: Option<User>,
    /// How many names that user did not let go.
    refused: Arc<AtomicU64>,
    dirt: Dirt,
}

impl Round {
    /// Paths of the files that changed, below the destination, if nothing else may have; they may be gone by now.
    #[must_use]
    pub fn files(&self) -> Option<Vec<RelPath>> {
        let is_of_names = self.names.is_some() && self.dirt.dirs().next().is_none();
        is_of_names.then(|| self.dirt.names().collect())
    }

    /// The directory here below which is what is at `path` below the destination.
    #[must_use]
    pub fn root_of(&self, path: &RelPath) -> Option<PathBuf> {
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

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All is at the destination.
    Well,
    /// All but deletions, which their limit held back.
    HeldBack,
    /// Some names failed.
    Partly,
    /// The run did not go to its end.
    Broken,
}

/// Something to tell that is of no round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A source is not there; it is waited for.
    SourceGone,
    /// It is there again.
    SourceBack,
    /// There are more directories than the system lets be watched: all is compared now and then instead.
    TooManyDirs,
    /// So many names are to be removed, which the guard holds back until that is [confirmed](Confirming).
    HeldBack(u64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Self::SourceGone => "the source is gone; waiting for it",
            Self::SourceBack => "the source is there again",
            Self::TooManyDirs => {
                "too many directories to watch them all: everything is compared now and then instead"
            }
            Self::HeldBack(1) => "1 name waits to be removed",
            Self::HeldBack(names) => return write!(f, "{names} names wait to be removed"),
        };
        f.write_str(said)
    }
}

/// Sources that are watched.
#[derive(Debug)]
pub struct Watch {
    plan: Plan,
    /// The sources, as far as they are directories.
    roots: Vec<SourceArg>,
    shared: Shared,
    runtime: Runtime,
    ending: Arc<AtomicBool>,
    /// When the watch is to end.
    end: Option<Instant>,
    rounds: u64,
    /// Names in the sources when they were last compared as a whole, with what rounds brought and removed since; from
    /// when a round went through.
    names: Option<u64>,
    /// Closed with this, it ends the thread that watches.
    _stop: OwnedFd,
}

/// What the thread that watches and the rounds share.
#[derive(Clone, Debug)]
struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// True if it is possible to sync a part of the sources.
    divides: bool,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    batch: Batch,
    notes: Vec<Note>,
    held: Option<Held>,
    /// How many names the next round may remove whatever the guard says.
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

    /// Keeps what a round brought but for deletions, of which so many names wait.
    fn hold_back(&mut self, dirt: Dirt, names: u64) {
        self.notes.push(Note::HeldBack(names));
        match &mut self.held {
            Some(held) => {
                held.names += names;
                held.dirt.join(dirt);
            }
            held => *held = Some(Held { dirt, names }),
        }
    }

    /// Takes in a change. If what is held back is there again, or more goes of it, it is counted once more: protected,
    /// what it is part of would stay for ever.
    fn note(&mut self, now: Duration, change: Change) {
        let back = match (&change, &mut self.held) {
            (Change::Came(path), Some(held)) => held.dirt.is_back(path),
            (Change::Gone(path), Some(held)) => held.dirt.goes_with(path),
            _ => false,
        };
        self.batch.note(now, change);
        if let Some(held) = self.held.take_if(|_| back) {
            self.batch.held_back(held.dirt);
        }
    }

    /// Takes the changes of the next round, and with them what is held back and not known name by name: a round that
    /// compared a part of that would count a part of what goes, and let it go.
    fn take(&mut self, now: Duration) -> Option<Dirt> {
        let mut dirt = self.batch.take(now)?;
        if let Some(held) = self.held.take_if(|held| !held.dirt.knows_gone()) {
            dirt.join(held.dirt);
        }
        Some(dirt)
    }

    /// Rules that keep what is held back from being asked for in each round.
    fn protecting(&self) -> Vec<Rule> {
        let dirt = self.held.iter().map(|held| &held.dirt);
        let gone = dirt.clone().flat_map(Dirt::names_gone).map(protects);
        gone.chain(dirt.flat_map(Dirt::gone_from).map(protects_all_in)).collect()
    }

    fn confirm(&mut self) -> u64 {
        let Some(Held { dirt, names }) = self.held.take() else { return 0 };
        self.batch.confirm(dirt);
        self.allowed = names;
        names
    }
}

/// The user's word to a watch, from any thread.
#[derive(Clone, Debug)]
pub struct Confirming(Shared);

impl Confirming {
    /// Lets deletions go that are held back; how many names they were when they were counted. More do not go.
    #[must_use]
    pub fn confirm(&self) -> u64 {
        let names = self.0.with(State::confirm);
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

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what was seen.
    fn heard(&self, changes: Vec<Change>, watches: &Watches) {
        let now = self.now();
        let (is_lost, is_short) = (watches.lost, watches.is_short);
        self.with(|state| {
            for change in changes {
                // Where no part can be synced everything is, but what goes is known even so.
                state.note(now, change);
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
            state.batch.set_blind(now, is_short);
            (state.is_lost, state.is_short) = (is_lost, is_short);
        });
        self.0.changed.notify_one();
    }
}

impl Watch {
    /// Begins to watch the sources of `plan`. The first [round](Self::next) is due at once.
    ///
    /// # Errors
    /// [`SyncError::Usage`] or [`SyncError::Options`] for a plan that cannot be gone through again and again, or whose sources are not here;
    /// [`SyncError::NoSource`] for one that is not there; [`SyncError::Watch`] where the system does not let us watch.
    pub fn start(plan: &Plan, pace: Pace) -> Result<Self, SyncError> {
        let paths = check(plan)?;
        let options = &plan.options;
        let (mut roots, mut files) = (Vec::new(), Vec::new());
        for path in paths {
            let arg = argument(path.as_os_str(), options)?;
            let shown = || printable(path.as_os_str().as_bytes());
            let is_dir = inotify::is_dir(&arg);
            match is_dir.map_err(|error| {
                SyncError::NoSource(format!("cannot read {}: {}", shown(), reason(&error)))
            })? {
                true => roots.push(arg),
                false => files.push(arg),
            }
        }
        let divides = files.is_empty() && divides(&roots, options);
        let shared = Shared::new(pace, divides);
        let threads = |source| SyncError::Transport { action: "start threads", source };
        let (stopped, stop) = std::io::pipe().map_err(threads)?;
        let site = Site { dirs: roots.clone(), files, options: options.clone() };
        inotify::start(site, shared.clone(), stopped.into())?;
        let (runtime, ending) = (runtime()?, Arc::new(AtomicBool::new(false)));
        let (flag, changed) = (Arc::clone(&ending), Arc::clone(&shared.0.changed));
        runtime.spawn(async move {
            told_to_end().await;
            flag.store(true, Ordering::Release);
            changed.notify_one();
        });
        let end = plan.patience.whole.map(|whole| Instant::now() + whole);
        let plan = plan.clone();
        let (rounds, names) = (0, None);
        let _stop = stop.into();
        Ok(Self { plan, roots, shared, runtime, ending, end, rounds, names, _stop })
    }

    /// Waits for the next round; `None` once the user, or the time, ends the watch. `tell` hears what there is to say
    /// meanwhile.
    pub fn next(&mut self, tell: &mut dyn FnMut(&Note)) -> Option<Round> {
        loop {
            let notes = self.shared.with(|state| std::mem::take(&mut state.notes));
            notes.iter().for_each(&mut *tell);
            if self.is_ending() || self.is_time_up() {
                return None;
            }
            let now = self.shared.now();
            let due = self.shared.with(|state| match state.is_lost {
                true => Err(None),
                false => state.take(now).ok_or_else(|| state.batch.due()),
            });
            let pause = match due {
                Ok(dirt) => return Some(self.round(dirt)),
                Err(due) => due.map(|due| due.saturating_sub(now)),
            };
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            let pause = pause.into_iter().chain(left).min().unwrap_or(FOR_EVER);
            let changed = Arc::clone(&self.shared.0.changed);
            // Either way is a reason to look again.
            self.runtime
                .block_on(async { tokio::time::timeout(pause, changed.notified()).await })
                .ok();
        }
    }

    /// Hears how a round ended, and of one that did what it did.
    pub fn ended(&mut self, round: Round, ended: Ended, outcome: Option<&Outcome>) {
        let now = self.shared.now();
        if let Some(Outcome { totals, .. }) = outcome {
            let names = match (round.names, self.names) {
                (Some(_), Some(before)) => (before + totals.created).saturating_sub(totals.deleted),
                _ => totals.listed(),
            };
            self.names = Some(names);
        }
        let refused = round.refused.load(Ordering::Acquire);
        self.shared.with(|state| match ended {
            Ended::Well => {
                let settled = |held: &mut Held| {
                    held.dirt.is_gone_empty() && round.dirt.covers_dirs(&held.dirt)
                };
                state.held.take_if(settled);
            }
            Ended::HeldBack if refused > 0 => state.hold_back(round.dirt, refused),
            Ended::HeldBack => state.batch.held_back(round.dirt),
            Ended::Partly => state.batch.failed(now, round.dirt, Fault::Names),
            Ended::Broken => {
                // What the other end has by now nobody knows; it may not even be the same.
                let mut all = Dirt::default();
                all.note(Change::All);
                state.batch.failed(now, all, Fault::Run);
            }
        });
    }

    /// Where deletions are confirmed that are held back.
    #[must_use]
    pub fn confirming(&self) -> Confirming {
        Confirming(self.shared.clone())
    }

    /// True if a round has gone through.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.names.is_some()
    }

    /// True if the watch ends because its time is up.
    #[must_use]
    pub fn is_time_up(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Counts the names that wait for the user's [word](Self::confirming) to be removed.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.shared.with(|state| state.held.as_ref().map_or(0, |held| held.names))
    }

    /// True if everything that was seen is at the destination, as far as rounds went well.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.shared.with(|state| state.batch.is_clean() && state.held.is_none())
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    fn round(&mut self, dirt: Dirt) -> Round {
        self.rounds += 1;
        let mut plan = self.plan.clone();
        plan.patience.whole = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if self.names.is_some() {
            // One that went away is waited for: in its place there may be a mount point.
            plan.options.select.existing = true;
        }
        let (allowed, protecting) =
            self.shared.with(|state| (std::mem::take(&mut state.allowed), state.protecting()));
        plan.options.rules.list.splice(..0, protecting);
        let refused = Arc::default();
        // Who started it may be at a terminal, and need not be later.
        let user = (self.names.is_some() || !plan.options.remove.asks)
            .then(|| allowing(allowed, Arc::clone(&refused)));
        plan.options.remove.asks = true;
        let args = if dirt.is_all() { None } else { args_of(&self.roots, &dirt) };
        let names = args.map(|args| {
            plan.sources = Sources::Local(args);
            divide(&mut plan.options, self.names.unwrap_or(0));
            dirt.len()
        });
        Round { plan, number: self.rounds, names, user, refused, dirt }
    }
}

/// The rule that what is at `path` at the destination stays.
fn protects(path: &RelPath) -> Rule {
    // Where no byte is special, the backslash is not either.
    match glob::has_wildcards(path.as_bytes()) {
        true => protects_pattern(escaped(path)),
        false => protects_pattern([b"/", path.as_bytes()].concat()),
    }
}

/// The rule that all stays that is in a directory at the destination.
fn protects_all_in(dir: &RelPath) -> Rule {
    let mut pattern = escaped(dir);
    pattern.extend_from_slice(if dir.is_root() { b"*" } else { b"/*" });
    protects_pattern(pattern)
}

/// The pattern of this path alone, where another byte of it is special.
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

fn protects_pattern(pattern: Vec<u8>) -> Rule {
    let marks = RuleModifiers { sides: RuleSides::Receiver, ..RuleModifiers::default() };
    let pattern = pattern.into();
    Rule::Pattern(PatternRule { action: Exclude, negated: false, marks, pattern })
}

/// Lets so many names go, and notes how many were too many.
fn allowing(names: u64, refused: Arc<AtomicU64>) -> User {
    User::new(move |question| {
        let allows = question.names <= names;
        if !allows {
            refused.store(question.names, Ordering::Release);
        }
        allows
    })
}

/// Longest wait for nothing.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// The sources of a plan that can be watched.
fn check(plan: &Plan) -> Result<&[PathBuf], SyncError> {
    let usage = |why: &str| Err(SyncError::Usage(format!("watch: {why}")));
    let options = |why: &str| Err(SyncError::Options(format!("watch: {why}")));
    let Options { recursive, dry_run, select, delete, remove, .. } = &plan.options;
    match &plan.sources {
        Sources::Remote { .. } => usage("the source must be on this machine"),
        _ if plan.names != Names::None => {
            options("it takes sources, no list of names (--files-from)")
        }
        _ if select.list_only => {
            options("a destination is missing, or --list-only: nothing would be kept equal")
        }
        _ if *dry_run => usage("there is nothing to keep equal in a dry run"),
        _ if matches!(delete, Delete::AtMost(most) if *most < u64::MAX) => options(
            "--max-delete=N would remove N names in each round; a share holds them back (--max-delete 10%)",
        ),
        _ if !recursive => usage("it needs -r or -a"),
        _ if remove.sources => {
            options("what is removed at the source (--remove-source-files) would count as a change")
        }
        Sources::Local(paths) => {
            // What a round writes would be the next one's change.
            let inside = match &plan.destination {
                Destination::Local(to) => {
                    let to = place::resolve(&place::here(to.as_os_str()), None, select.mkpath).ok();
                    to.map(|to| place::inside(paths, plan.options.follow.follow, &to))
                        .transpose()?
                }
                Destination::Remote { .. } => None,
            };
            inside.flatten().map_or(Ok(paths), |inside| Err(inside.refusal()))
        }
    }
}

/// True if some names of these sources can be synced without the others, and come to the same.
fn divides(roots: &[SourceArg], options: &Options) -> bool {
    let select = &options.select;
    let apart = |one: &SourceArg, other: &SourceArg| !other.path().starts_with(one.path());
    let all_apart = roots.iter().enumerate().all(|(nth, one)| {
        roots.iter().enumerate().all(|(other_nth, other)| nth == other_nth || apart(one, other))
    });
    // Who follows links would have to watch where they lead; rules in directories count from the top; a new name may
    // be another one of a file that did not change.
    all_apart
        && options.follow.follow == Follow::Never
        && select.mounts == Mounts::Enter
        && !select.prune_empty_dirs
        && !select.plain_implied_dirs
        && !options.metadata.hard_links
        && !options.rules.list.iter().any(|rule| matches!(rule, Rule::DirMerge(_)))
}

/// The arguments that mean what is dirty; `None` where some of it is in no root.
fn args_of(roots: &[SourceArg], dirt: &Dirt) -> Option<Vec<PathBuf>> {
    let arg = |path: &RelPath, end: &[u8]| {
        let root = roots.iter().find(|root| path.starts_with(root.path()))?;
        let mut bytes = without_dots(root.dir().as_os_str());
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(path.as_bytes());
        bytes.extend_from_slice(end);
        Some(PathBuf::from(OsString::from_vec(bytes)))
    };
    let mut dirs: BTreeSet<_> = dirt.dirs().cloned().collect();
    // Where contents are synced the root is too, and new versions grow in it: its times would be those of the round.
    dirs.extend(roots.iter().map(|root| root.path().clone()).filter(RelPath::is_root));
    let dirs = dirs.iter().map(|dir| arg(dir, if dir.is_root() { b"" } else { b"/" }));
    let names = dirt.names().map(|name| arg(&name, b"")).collect::<Vec<_>>();
    let args: Vec<_> = dirs.chain(names).collect::<Option<_>>()?;
    // What was below a directory that is none any more is gone with it; that is another change.
    let args: Vec<_> = args.into_iter().filter(|arg| !place::is_below_file(arg)).collect();
    (!args.is_empty()).then_some(args)
}

/// The mark behind which the paths of a transfer begin.
const MARK: &[u8] = b"/./";

/// A path without that mark.
fn without_dots(path: &OsStr) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    while let Some(at) = bytes.windows(MARK.len()).position(|three| three == MARK) {
        bytes.drain(at..at + 2);
    }
    bytes
}

/// Options of a round for some names only, of sources that have so many.
fn divide(options: &mut Options, names: u64) {
    options.recursive = false;
    options.select.dirs = true;
    options.select.relative = true;
    // It may be gone by now, which is another change.
    options.select.missing = Missing::Ignore;
    if let Delete::Guarded(guard) = &mut options.delete {
        // Of a part of the list no share can be told.
        guard.names = Some(names);
    }
}
