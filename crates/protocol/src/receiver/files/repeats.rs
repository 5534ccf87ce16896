//! Files that repeat in a run: a new file of the same length as an earlier new file may have the same content.
//!
//! ```text
//! the first new file of a length ──► the queue ──► it is in place
//!     another of that length ──────────────────────────► waits until then, and is matched against it by recipe
//! ```
//!
//! A guess is never trusted: content that the first file lacks is sent, and all content is proven. A wrong guess
//! costs the bytes of a recipe, so the lengths of wrongly guessed files are bounded in sum (docs/decisions/0036).

use std::collections::{BTreeMap, HashMap};

use deltic_core::strategy::Conversation;
use deltic_tree::RelPath;

use crate::limits::{MAX_REPEATABLE, WHOLE_BLOCK_BYTES};
use crate::message::FileNo;
use crate::options::Options;
use crate::receiver::guesses::GuessedBytes;

use super::candidate::FileCandidate;

/// The first new file of each length in this run, and the files that wait for these first files.
#[derive(Debug, Default)]
pub(super) struct RepeatedFiles {
    /// The first files, by length in bytes.
    firsts: HashMap<u64, FirstFile>,
    waiting: BTreeMap<FileNo, FileCandidate>,
    guesses: GuessedBytes,
}

#[derive(Debug)]
enum FirstFile {
    UnderWay(FileNo),
    InPlace(RelPath),
}

/// Total length of wrongly guessed files that is allowed in any case, in bytes.
const WRONG_BYTES_BORNE: u64 = 256 << 20;

/// True if a guess about a file of `len` bytes may be made. The first guess is free, however long the file is.
const fn has_room(guesses: &GuessedBytes, len: u64) -> bool {
    guesses.is_unused() || guesses.has_room(len, WRONG_BYTES_BORNE)
}

/// True if there is no room for a guess now, but may be once the guesses under way are over.
const fn may_get_room(guesses: &GuessedBytes, len: u64) -> bool {
    !has_room(guesses, len) && guesses.has_open_guesses()
}

impl RepeatedFiles {
    /// Returns the lowest number of a waiting file.
    pub(super) fn first_waiting(&self) -> Option<FileNo> {
        self.waiting.keys().next().copied()
    }

    /// Returns a file that no longer needs to wait.
    fn take_ready(&mut self) -> Option<FileCandidate> {
        let waits = |candidate: &FileCandidate| match self.firsts.get(&candidate.meta.len) {
            Some(FirstFile::UnderWay(_)) => true,
            Some(FirstFile::InPlace(_)) => may_get_room(&self.guesses, candidate.meta.len),
            None => false,
        };
        let file = *self.waiting.iter().find(|(_, candidate)| !waits(candidate))?.0;
        self.waiting.remove(&file)
    }
}

impl RepeatedFiles {
    /// Returns a file for the queue. A file that may repeat a file under way has to wait instead.
    pub(super) fn admit_or_hold(
        &mut self,
        options: &Options,
        mut candidate: FileCandidate,
    ) -> Option<FileCandidate> {
        let (file, len) = (candidate.file, candidate.meta.len);
        if !may_repeat(options, &candidate) {
            return Some(candidate);
        }
        let Self { firsts, waiting, guesses } = self;
        let has_slot = firsts.len() < MAX_REPEATABLE;
        let waits = match firsts.get(&len) {
            None if has_slot => {
                firsts.insert(len, FirstFile::UnderWay(file));
                false
            }
            Some(FirstFile::InPlace(path)) if has_room(guesses, len) => {
                guesses.begin_guess(len);
                candidate.repeats = Some(path.clone());
                false
            }
            Some(FirstFile::UnderWay(_)) if has_room(guesses, len) => true,
            Some(_) => may_get_room(guesses, len),
            None => false,
        };
        if waits {
            waiting.insert(file, candidate);
            return None;
        }
        Some(candidate)
    }

    /// Ends an attempt at a file, or the file; `done` is the path of the finished file and the number of matched
    /// bytes. A guess about the file ends too. Files that waited for this file are then returned by
    /// [`next_ready`](Self::next_ready).
    pub(super) fn end_attempt(
        &mut self,
        file: FileNo,
        len: u64,
        guess: Option<RelPath>,
        done: Option<(&RelPath, u64)>,
    ) {
        let Self { firsts, guesses, .. } = self;
        if guess.is_some() {
            guesses.end_guess(len, done.map_or(0, |(_, matched)| matched));
        }
        if matches!(firsts.get(&len), Some(FirstFile::UnderWay(first)) if *first == file) {
            match done {
                Some((path, _)) => drop(firsts.insert(len, FirstFile::InPlace(path.clone()))),
                None => drop(firsts.remove(&len)),
            }
        }
    }

    /// Returns a file for the queue that no longer needs to wait.
    pub(super) fn next_ready(&mut self, options: &Options) -> Option<FileCandidate> {
        loop {
            let candidate = self.take_ready()?;
            if let Some(candidate) = self.admit_or_hold(options, candidate) {
                return Some(candidate);
            }
        }
    }
}

/// True if a file is new, longer than a block, and put in place as soon as it is complete.
fn may_repeat(options: &Options, candidate: &FileCandidate) -> bool {
    candidate.old.is_none()
        && candidate.meta.len > u64::from(WHOLE_BLOCK_BYTES)
        && is_matched(options, candidate)
}

/// True if a file may be matched against other files of the run, which are put in place as soon as they are complete.
fn is_matched(options: &Options, candidate: &FileCandidate) -> bool {
    candidate.beside.is_none()
        && !options.whole_file
        && !options.dry_run
        && !options.writing.delay
        && options.strategy.conversation == Conversation::Recipe
}

/// Least length in bytes of a file that may share parts, and of a new file sent by recipe. At this length two more
/// round trips cost little.
const SHARED_FROM_BYTES: u64 = 1 << 20;

/// True if a file may share parts with other files of the run: a new file, or the added part of a changed file.
pub(super) fn may_share(options: &Options, candidate: &FileCandidate) -> bool {
    candidate.meta.len >= SHARED_FROM_BYTES && is_matched(options, candidate)
}
