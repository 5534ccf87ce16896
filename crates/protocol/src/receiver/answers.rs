//! Answers that travel together, if the sender supports this: each answer joins the last frame that waits, and the frame
//! waits while other events are certain to come.

use deltic_tree::RelPath;

use crate::limits::MAX_ANSWERS;
use crate::message::{Answers, Done, FileNo, Outcome, ToSender, TransferKind};
use crate::report::Change;

use super::Receiver;
use super::context::Context;

/// Most waiting frames while answers join a frame. This bounds the memory of a receiver whose frames are not read.
const MAX_WAITING: usize = 64;
/// Longest change that joins other answers, in bytes of its names.
const MAX_CHANGE_BYTES: usize = 512;
/// Pieces of work under way that make further answers certain and near.
const BUSY: usize = 32;

impl Answers {
    fn count(&self) -> usize {
        self.outcomes.len() + self.wanted.len()
    }
}

impl Receiver {
    /// Returns the next waiting frame. Answers wait for further answers that are near.
    pub(super) fn next_frame(&mut self) -> Option<ToSender> {
        let is_awaited = self.last_wanted.is_some_and(|file| self.files.is_awaited(file));
        if self.files.are_short() && self.cx.holds_answers(is_awaited) {
            return None;
        }
        let frame = self.cx.frames.pop_front()?;
        if let ToSender::Answers(Answers { wanted, .. }) = &frame {
            self.last_wanted = wanted.last().copied().or(self.last_wanted);
        }
        Some(frame)
    }
}

impl Context {
    /// Requests a file, for the first time in this session if `is_first`.
    pub(super) fn send_request(&mut self, file: FileNo, how: TransferKind, is_first: bool) {
        let joins = is_first && how == TransferKind::Whole;
        match self.joined_answers(joins) {
            Some(answers) => answers.wanted.push(file),
            None => self.frames.push_back(ToSender::Want { file, how }),
        }
    }

    /// Tells the sender the outcome of a file of this listed length.
    pub(super) fn send_outcome(&mut self, file: FileNo, done: Done, listed: u64) {
        match self.joined_answers(done == Done::created(listed)) {
            Some(answers) => answers.outcomes.push(Outcome::Created(file)),
            None => self.frames.push_back(ToSender::Done { file, done }),
        }
    }

    /// Tells the sender a change.
    pub(super) fn send_change(&mut self, change: Change) {
        match self.joined_answers(name_bytes(&change) <= MAX_CHANGE_BYTES) {
            Some(answers) => answers.outcomes.push(Outcome::Changed(change)),
            None => self.frames.push_back(ToSender::Changed(change)),
        }
    }

    /// Tells the sender the number below which no further file is wanted.
    pub(super) fn send_settled_number(&mut self, upto: FileNo) {
        match self.joined_answers(true) {
            Some(answers) => answers.upto = Some(upto),
            None => self.frames.push_back(ToSender::Settled { upto }),
        }
    }

    /// Returns the last waiting frame of answers, or a new frame. `None` if the answer travels alone.
    fn joined_answers(&mut self, joins: bool) -> Option<&mut Answers> {
        if !joins || !self.setting.joins_answers || self.frames.len() >= MAX_WAITING {
            return None;
        }
        let has_room = |frame: &ToSender| matches!(frame, ToSender::Answers(answers) if answers.count() < MAX_ANSWERS);
        if !self.frames.back().is_some_and(has_room) {
            self.frames.push_back(ToSender::Answers(Answers::default()));
        }
        match self.frames.back_mut() {
            Some(ToSender::Answers(answers)) => Some(answers),
            _ => None,
        }
    }

    /// True if the only waiting frame has answers and room for more, and further answers are certain: the sender has
    /// not sent the file that was requested last, or work is under way.
    fn holds_answers(&self, is_file_awaited: bool) -> bool {
        let Some(ToSender::Answers(answers)) = self.frames.front() else { return false };
        let has_room = self.frames.len() == 1 && answers.count() < MAX_ANSWERS;
        has_room && (is_file_awaited || self.jobs.asked_count() >= BUSY)
    }
}

fn name_bytes(Change { path, facts, .. }: &Change) -> usize {
    let linked = facts.linked.as_ref().map_or(0, |linked: &RelPath| linked.as_bytes().len());
    path.as_bytes().len() + linked + facts.target.as_ref().map_or(0, |target| target.len())
}
