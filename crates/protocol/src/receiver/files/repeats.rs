//! Files that come more than once in a run: a new one that is as long as one before it may be the same.
//!
//! ```text
//! the first new file of a length ──► the queue ──► it is in place
//!     another of that length ──────────────────────────► waits until then, and is matched against it by recipe
//! ```
//!
//! Nothing is believed of such a guess: what is not found there is sent, and all is proven. A wrong one costs a recipe,
//! so only so many bytes are guessed in vain (docs/decisions/0028).

use std::collections::{BTreeMap, HashMap};

use deltic_core::strategy::Conversation;
use deltic_tree::RelPath;

use crate::limits::{MAX_REPEATABLE, WHOLE_BLOCK_BYTES};
use crate::message::FileNo;
use crate::options::Options;
use crate::receiver::guesses::Guesses;

use super::candidate::Candidate;

/// The first new file of each length in this run, and those that wait for one.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// By length in bytes.
    firsts: HashMap<u64, First>,
    waiting: BTreeMap<FileNo, Candidate>,
    guesses: Guesses,
}

#[derive(Debug)]
enum First {
    UnderWay(FileNo),
    InPlace(RelPath),
}

/// Length in bytes of wrong guesses that are borne.
const WRONG_BYTES_BORNE: u64 = 256 << 20;

/// True where a file of `len` bytes may be guessed at. The first guess is free, however long the file is.
const fn have_room(guesses: &Guesses, len: u64) -> bool {
    guesses.are_free() || guesses.have_room(len, WRONG_BYTES_BORNE)
}

/// True where there is no room, and may be some when the guesses under way are over.
const fn may_get_room(guesses: &Guesses, len: u64) -> bool {
    !have_room(guesses, len) && guesses.are_open()
}

impl Repeats {
    /// The lowest number that waits.
    pub(super) fn first(&self) -> Option<FileNo> {
        self.waiting.keys().next().copied()
    }

    /// A file that need not wait any more.
    fn take_free(&mut self) -> Option<Candidate> {
        let waits = |candidate: &Candidate| match self.firsts.get(&candidate.meta.len) {
            Some(First::UnderWay(_)) => true,
            Some(First::InPlace(_)) => may_get_room(&self.guesses, candidate.meta.len),
            None => false,
        };
        let file = *self.waiting.iter().find(|(_, candidate)| !waits(candidate))?.0;
        self.waiting.remove(&file)
    }
}

impl Repeats {
    /// Hands a file on to the queue, unless it may be a repeat of one under way: then it waits.
    pub(super) fn admit(
        &mut self,
        options: &Options,
        mut candidate: Candidate,
    ) -> Option<Candidate> {
        let (file, len) = (candidate.file, candidate.meta.len);
        if !may_repeat(options, &candidate) {
            return Some(candidate);
        }
        let Self { firsts, waiting, guesses } = self;
        let has_room = firsts.len() < MAX_REPEATABLE;
        let waits = match firsts.get(&len) {
            None if has_room => {
                firsts.insert(len, First::UnderWay(file));
                false
            }
            Some(First::InPlace(path)) if have_room(guesses, len) => {
                guesses.begin(len);
                candidate.repeats = Some(path.clone());
                false
            }
            Some(First::UnderWay(_)) if have_room(guesses, len) => true,
            Some(_) => may_get_room(guesses, len),
            None => false,
        };
        if waits {
            waiting.insert(file, candidate);
            return None;
        }
        Some(candidate)
    }

    /// Ends an attempt at a file, or the file, which then may be at a path, and of which so much was matched. A guess
    /// about it is over as well, and what waits for it need not any more: the first of that is returned by
    /// [`next_free`](Self::next_free).
    pub(super) fn end(
        &mut self,
        (file, len): (FileNo, u64),
        guess: Option<RelPath>,
        done: Option<(&RelPath, u64)>,
    ) {
        let Self { firsts, guesses, .. } = self;
        if guess.is_some() {
            guesses.end(len, done.map_or(0, |(_, matched)| matched));
        }
        if matches!(firsts.get(&len), Some(First::UnderWay(first)) if *first == file) {
            match done {
                Some((path, _)) => drop(firsts.insert(len, First::InPlace(path.clone()))),
                None => drop(firsts.remove(&len)),
            }
        }
    }

    /// A file for the queue that need not wait any more.
    pub(super) fn next_free(&mut self, options: &Options) -> Option<Candidate> {
        loop {
            let candidate = self.take_free()?;
            if let Some(candidate) = self.admit(options, candidate) {
                return Some(candidate);
            }
        }
    }
}

/// True for a file that is new, longer than a block, and in its place once it is complete.
fn may_repeat(options: &Options, candidate: &Candidate) -> bool {
    candidate.old.is_none()
        && candidate.meta.len > u64::from(WHOLE_BLOCK_BYTES)
        && is_matched(options, candidate)
}

/// True for a file that may be matched against others of the run, which are in their places once they are complete.
fn is_matched(options: &Options, candidate: &Candidate) -> bool {
    candidate.beside.is_none()
        && !options.whole_file
        && !options.dry_run
        && !options.writing.delay
        && options.strategy.conversation == Conversation::Recipe
}

/// Length in bytes from which on a file may share parts, and a new one come by recipe: two round trips more are little
/// beside it.
const SHARED_FROM_BYTES: u64 = 1 << 20;

/// True for a file that may share parts with others of the run: a new one, or what one gained.
pub(super) fn may_share(options: &Options, candidate: &Candidate) -> bool {
    candidate.meta.len >= SHARED_FROM_BYTES && is_matched(options, candidate)
}
