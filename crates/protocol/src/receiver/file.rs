//! A file that is wanted, from its first attempt to its end.

use deltic_core::strategy::Conversation;
use deltic_core::{ChunkerSpec, Chunks, Key, Strategy};
use deltic_tree::{Meta, RelPath};

use crate::error::PeerError;
use crate::limits::{
    LARGE_FILE_BYTES, MAX_ATTEMPTS, MAX_SUMS, WHOLE_BELOW_BYTES, WHOLE_BLOCK_BYTES,
};
use crate::message::{Done, FileNo, How, ToSender};
use crate::options::{Append, Fuzzy, Options, Writing};
use crate::report::{
    Action, Change, Differs, EntryType, Facts, Notice, Side, Trouble, TroubleKind,
};
use crate::work::{Handle, Setback, Then};

use super::attempt::{Attempt, Old};
use super::beside::Beside;
use super::{Elsewhere, Kept, Kinship, OldLens, Place, Receiver, Similar, Work};

/// A file that is to be brought up to date.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) file: FileNo,
    pub(super) path: RelPath,
    /// As listed; the attempt has it fresh.
    pub(super) meta: Meta,
    /// The old version's, if there is one.
    pub(super) old: Option<Meta>,
    /// What stood in its place, whatever it was.
    pub(super) seen: Option<Meta>,
    pub(super) differs: Differs,
    /// Whether the contents are known to differ.
    pub(super) compared: bool,
    /// What an alternate has to match against; only where there is no old version.
    pub(super) beside: Option<Beside>,
    /// Whether it is to be looked for in the chart.
    pub(super) may_have_moved: bool,
    /// A file that came in this run and may be the same.
    pub(super) repeats: Option<RelPath>,
}

impl Candidate {
    /// The longer of its versions, in bytes: what an attempt may have to hold an index of.
    pub(super) fn weight(&self) -> u64 {
        let beside = self.beside.as_ref().map_or(0, |beside| beside.is.len);
        self.old.as_ref().map_or(beside, |old| old.len).max(self.meta.len)
    }

    /// Whether what an alternate has may be the new version itself.
    pub(super) fn is_beside(&self, checksum: bool) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.may_be_it(checksum, &self.meta))
    }

    /// What is done when its new version is in place. One of which an alternate has another version is not new.
    pub(super) fn action(&self) -> Action {
        let is_new = self.old.is_none() && self.beside.is_none();
        if is_new { Action::Created } else { Action::Updated }
    }

    /// Where what is to be added begins: behind what is there.
    pub(super) fn tail_from(&self) -> u64 {
        self.old.as_ref().map_or(0, |old| old.len)
    }

    pub(super) fn is_large(&self) -> bool {
        self.weight() > LARGE_FILE_BYTES
    }
}

/// A file under way.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) candidate: Candidate,
    pub(super) handle: Handle,
    pub(super) how: How,
    tries: u32,
    /// Whether it was put off because there was no room for it: once.
    found_no_room: bool,
    /// Whether it was looked for what an interrupted transfer left: once, for what failed is not gone on with.
    sought: bool,
    /// How often the sender was asked for it, and whether it was for the present attempt.
    wants: u32,
    pub(super) asked: bool,
    /// Lengths in bytes of the old versions that are open.
    pub(super) parts: Vec<u64>,
    /// Where what killed runs left begins in them.
    left_at: u64,
    /// Whether the first of them is the one in place, or an alternate's that may do as well.
    pub(super) in_place: bool,
    /// Whether the one in place is to be replaced even if it has the content of the new version: it would get the attributes
    /// of that under other names as well, while this name is a file of its own at the sender.
    leaves_names: bool,
    /// Whether it is an alternate's.
    pub(super) is_beside: bool,
    /// Another file that it is matched against.
    pub(super) similar: Option<Similar>,
    /// What the sender was asked to cut by, as in an earlier session, until `Start`.
    pub(super) asked_spec: Option<ChunkerSpec>,
    /// What an interrupted transfer left that goes on, until `Start`.
    pub(super) kept: Option<Chunks>,
    /// What is known of old, from a `Want` by recipe until `Start`: it most likely says what the list lets expect.
    pub(super) ahead: Option<Old>,
    /// Present from `Start` until the attempt ends.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Why the attempt is being abandoned.
    failure: Option<Setback>,
    /// Bytes reported as settled, by any attempt.
    reported: u64,
}

/// Length in bytes up to which what a killed run left may be of use. A longer one was of another file, or is an empty
/// claim of a hostile sender, and would take its time to read.
fn candidate_leftover(candidate: &Candidate) -> u64 {
    candidate.weight().saturating_mul(2).saturating_add(LARGE_FILE_BYTES)
}

/// Whether the sums of so many bytes of old may be told, if they are to be.
fn can_tell(strategy: &Strategy, bytes: u64) -> bool {
    let block = u64::from(strategy.chunker(bytes, None).min_len());
    strategy.conversation != Conversation::Signature || bytes.div_ceil(block) <= MAX_SUMS as u64
}

impl Incoming {
    /// Whether an attempt is over, the present one, or still to come.
    pub(super) fn is_at(&self, attempt: u32) -> std::cmp::Ordering {
        attempt.cmp(&self.wants)
    }

    /// Whether it was asked for once, by recipe and from its first byte, and nothing has come of it.
    pub(super) fn waits_for_first_start(&self) -> bool {
        let is_first = self.wants == 1 && self.asked && self.attempt.is_none();
        is_first && self.how == How::Recipe && self.asked_spec.is_none()
    }

    /// Whether it is on its way in order.
    pub(super) fn comes_in_order(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.comes_in_order())
    }

    /// The version whose interrupted transfer may go on. A file that would come whole in any case is asked about only if it
    /// is large; one whose content alone may differ is compared.
    fn may_go_on(&self) -> Option<Meta> {
        let Candidate { meta, old, differs, compared, beside, .. } = &self.candidate;
        let may_be_same = (old.is_some() || beside.is_some()) && *differs == Differs::default();
        let is_comparison = may_be_same && !compared;
        let worthwhile = self.how == How::Recipe || meta.len > LARGE_FILE_BYTES;
        (!self.sought && worthwhile && !is_comparison).then(|| meta.clone())
    }

    /// What the sender will most likely cut it by.
    fn expected_spec(&self, strategy: &Strategy) -> ChunkerSpec {
        strategy.chunker(self.candidate.meta.len, None)
    }

    /// Where else an old version may be, unless one is in place or nothing is to be matched against.
    fn elsewhere(&self, fuzzy: Fuzzy, most: Option<Kinship>) -> Elsewhere {
        let Candidate { meta, old, beside, may_have_moved, repeats, .. } = &self.candidate;
        if old.is_some() || self.how == How::Whole {
            return Elsewhere::default();
        }
        let alternate = beside.as_ref().map(|beside| beside.alternate);
        let moved = most.filter(|_| *may_have_moved);
        let (repeated, new) = (repeats.clone(), (meta.len, meta.modified));
        Elsewhere { repeated, alternate, fuzzy, moved, new }
    }

    /// The first old version that holds anything: one that begins where all do, laid end to end.
    pub(super) fn first_part(&self) -> usize {
        self.parts.iter().position(|len| *len > 0).unwrap_or(0)
    }

    /// What is known of the old versions that are being indexed, and their lengths in bytes.
    pub(super) fn old(&mut self) -> Option<(&mut Old, &[u64])> {
        let begun = self.attempt.as_mut().map(|attempt| attempt.old());
        Some((begun.or(self.ahead.as_mut())?, &self.parts))
    }

    /// Begins an attempt, with what is known of old by now if it is cut in the same way.
    pub(super) fn begin(&mut self, mut attempt: Box<Attempt>) {
        if let Some(ahead) = self.ahead.take() {
            attempt.go_on_from(ahead);
        }
        attempt.matched.left_at = self.left_at;
        self.attempt = Some(attempt);
    }

    /// Length in bytes of the version in place.
    pub(super) fn len_in_place(&self) -> Option<u64> {
        self.parts.first().copied().filter(|_| self.in_place)
    }

    /// Length in bytes of the version in place, if that may be the new one already.
    pub(super) fn len_that_stays(&self) -> Option<u64> {
        self.len_in_place().filter(|_| !self.leaves_names)
    }
}

/// What is said of a file of which only the beginning is in place.
fn restless_told(path: &RelPath) -> Trouble {
    let words = |path: &str| {
        format!("{path} grew while it was read: what was there at first is in place; run again")
    };
    Trouble::at(TroubleKind::Vanished, path, words).on(Side::Sender)
}

impl Receiver {
    /// Starts as many files as may be under way at once.
    pub(super) fn activate(&mut self) {
        while let Some(candidate) = self.queue.pop() {
            let file = candidate.file;
            let handle = self.files.next_handle();
            let incoming = Incoming {
                how: self.first_try(&candidate),
                candidate,
                handle,
                tries: 1,
                found_no_room: false,
                sought: false,
                wants: 0,
                asked: false,
                parts: Vec::new(),
                in_place: false,
                leaves_names: false,
                is_beside: false,
                similar: None,
                asked_spec: None,
                kept: None,
                ahead: None,
                attempt: None,
                failure: None,
                left_at: u64::MAX,
                reported: 0,
            };
            self.files.insert(file, incoming);
            self.begin(file);
        }
        self.queue.with_room().into_iter().for_each(|file| self.begin(file));
    }

    fn first_try(&self, candidate: &Candidate) -> How {
        let options = &self.cx.setting.options;
        if options.writing.append == Append::Blindly && candidate.old.is_some() {
            return How::Tail;
        }
        let beside = candidate.is_beside(options.checksum);
        let compare = options.checksum && candidate.old.is_some() && !candidate.compared || beside;
        let tiny = candidate.meta.len <= WHOLE_BELOW_BYTES;
        let whole = options.whole_file || tiny || self.is_lone_block(candidate);
        if whole && !compare { How::Whole } else { self.not_whole() }
    }

    /// Whether there is nothing to match a short file against, and no need to look for it: what comes whole in one block
    /// leaves nothing behind when it is interrupted, but where it is shown, or waits for its name.
    fn is_lone_block(&self, candidate: &Candidate) -> bool {
        let Options { strategy, compare, writing, .. } = &self.cx.setting.options;
        let Candidate { meta, old, beside, may_have_moved, .. } = candidate;
        let is_sought =
            compare.fuzzy != Fuzzy::Never || *may_have_moved && self.moved.most().is_some();
        let alone = old.is_none() && beside.is_none() && !is_sought;
        let leaves = writing.partial_dir.is_some() || writing.delay;
        strategy.conversation == Conversation::Recipe
            && !leaves
            && alone
            && meta.len <= u64::from(WHOLE_BLOCK_BYTES)
    }

    /// How files go that do not go whole.
    pub(super) fn not_whole(&self) -> How {
        match self.cx.setting.options.strategy.conversation {
            Conversation::Recipe => How::Recipe,
            _ => How::Strategy,
        }
    }

    /// Begins an attempt: with the old version, if it is to be matched against.
    fn begin(&mut self, file: FileNo) {
        let (dry_run, strategy) = (self.cx.setting.options.dry_run, self.cx.setting.options.way());
        // Strategies of the papers keep no notes.
        let by_recipe = strategy.conversation == Conversation::Recipe;
        let (handle, incoming) = self.files.begin(file);
        incoming.asked = false;
        (incoming.asked_spec, incoming.kept, incoming.ahead) = (None, None, None);
        let goes_on = if dry_run || !by_recipe { None } else { incoming.may_go_on() };
        if incoming.how == How::Tail {
            let from = incoming.candidate.tail_from();
            self.asked_for(file);
            self.take_offer(file);
            return self.cx.frames.push_back(ToSender::Append { file, from });
        }
        if incoming.how == How::Whole && goes_on.is_none() {
            return self.want(file, How::Whole);
        }
        let path = incoming.candidate.path.clone();
        let fuzzy = self.cx.setting.options.compare.fuzzy;
        let elsewhere = incoming.elsewhere(fuzzy, self.moved.most());
        let most = match incoming.how {
            How::Recipe | How::Strategy | How::Stronger => candidate_leftover(&incoming.candidate),
            How::Whole | How::Tail => 0,
        };
        let recipe = (incoming.how == How::Recipe).then(|| incoming.expected_spec(&strategy));
        let work = Work::OpenOld { handle, path, most, goes_on, recipe, elsewhere };
        self.cx.jobs.ask(work, Place::OpenOld(handle));
    }

    pub(super) fn opened_old(&mut self, handle: Handle, lens: Result<Box<OldLens>, Setback>) {
        let Options { dry_run, checksum, writing: Writing { inplace, .. }, .. } =
            self.cx.setting.options;
        let strategy = self.cx.setting.options.way();
        self.borrow(handle, lens.as_ref().ok().and_then(|lens| lens.similar.as_ref()));
        let Some((file, incoming)) = self.incoming(handle) else { return };
        incoming.sought = true;
        let how = incoming.how;
        let lens = match lens {
            Ok(lens) => *lens,
            // It comes whole whatever there is of it.
            Err(_) if how == How::Whole => OldLens::default(),
            Err(setback) => return self.fail(handle, setback),
        };
        if how != How::Whole {
            let is_here = lens.in_place.is_some();
            let may_be_it = incoming.candidate.is_beside(checksum) && lens.beside.is_some();
            incoming.is_beside = !is_here && may_be_it;
            incoming.in_place = is_here || may_be_it;
            let Candidate { meta, differs, .. } = &incoming.candidate;
            let is_touched = *differs != Differs::default() && !dry_run && !inplace;
            incoming.leaves_names = lens.has_other_names && is_touched && meta.linked().is_none();
            let similar = lens.similar.as_ref().map(|similar| similar.len);
            let others = lens.beside.into_iter().chain(similar);
            incoming.parts = lens.in_place.into_iter().chain(others).collect();
            incoming.left_at = incoming.parts.iter().sum();
            incoming.parts.extend(lens.leftovers);
        }
        let first = incoming.parts.get(incoming.first_part()).copied().unwrap_or(0);
        let recipe = lens.recipe.filter(|_| how == How::Recipe).and_then(|recipe| {
            let known = Old::of(recipe.spec, recipe.chunks, lens.in_place?)?;
            Some((recipe.key, recipe.spec, known))
        });
        if let Some(Kept { key, spec, chunks }) = lens.kept {
            incoming.how = How::Recipe;
            incoming.kept = Some(chunks);
            self.resume(file, key, spec);
        } else if let Some((key, spec, known)) = recipe {
            incoming.ahead = Some(known);
            self.resume(file, key, spec);
            // What killed runs left is read.
            self.index_more(handle);
        } else if first > 0 && can_tell(&strategy, first) {
            if how == How::Recipe {
                incoming.ahead = Some(Old::new(incoming.expected_spec(&strategy)));
            }
            self.want(file, how);
            self.index_more(handle);
        } else if dry_run {
            // There is something, or nothing would be compared.
            let words = |path: &str| format!("cannot compare {path}: what is there cannot be read");
            let trouble = Trouble::at(TroubleKind::Failed, &incoming.candidate.path, words);
            self.fail(handle, Setback { trouble, then: Then::GiveUp });
        } else {
            // Nothing to match against, so nothing to hold open.
            incoming.how = How::Whole;
            let similar = incoming.similar.take();
            self.files.close(handle);
            self.cx.jobs.ask_last(handle, Work::Abandon { handle }, Place::Release);
            self.give_back(similar);
            self.begin(file);
        }
    }

    fn asked_for(&mut self, file: FileNo) {
        let incoming = self.files.asked(file);
        incoming.wants += 1;
        incoming.asked = true;
    }

    /// Wants it by recipe, cut and named as in an earlier session.
    fn resume(&mut self, file: FileNo, key: Key, spec: ChunkerSpec) {
        self.asked_for(file);
        self.take_offer(file);
        self.files.asked(file).asked_spec = Some(spec);
        self.cx.frames.push_back(ToSender::Resume { file, key, spec });
    }

    fn want(&mut self, file: FileNo, how: How) {
        self.asked_for(file);
        self.cx.frames.push_back(ToSender::Want { file, how });
        if let Some(offered) = self.take_offer(file)
            && how == How::Recipe
        {
            self.begin_offered(file, offered);
        }
    }

    /// The file that this one takes the place of, unless it is nobody's to wait for: one that is matched against another
    /// file's place never waits for its own, or two could wait for each other.
    pub(super) fn waits_for(&self, handle: Handle) -> Option<&RelPath> {
        let incoming = self.files.of(handle)?;
        let is_guest = incoming.similar.as_ref().is_some_and(|similar| similar.kinship.is_some());
        (!is_guest).then_some(&incoming.candidate.path)
    }

    /// The file that holds this handle, unless that attempt has ended.
    pub(super) fn incoming(&mut self, handle: Handle) -> Option<(FileNo, &mut Incoming)> {
        self.files.of_mut(handle)
    }

    /// Ends an attempt; once its work is undone there may be another.
    pub(super) fn fail(&mut self, handle: Handle, setback: Setback) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        incoming.failure = Some(setback);
        self.abandon(file, handle);
    }

    fn abandon(&mut self, file: FileNo, handle: Handle) {
        self.files.close(handle);
        let incoming = self.files.get_mut(&file).expect("the caller has the file");
        let similar = incoming.similar.take();
        if let Some(attempt) = incoming.attempt.take() {
            self.cx.load.end(&attempt);
        }
        let last = Place::Abandon(file);
        for forgotten in self.cx.jobs.ask_last(handle, Work::Abandon { handle }, last) {
            self.cx.load.lift(&forgotten);
        }
        self.give_back(similar);
    }

    /// The sender gave up on its side; stale where this side gave up on the same attempt before it knew.
    pub(super) fn sender_failed(
        &mut self,
        file: FileNo,
        attempt: u32,
        trouble: Trouble,
    ) -> Result<(), PeerError> {
        let meant = |file: &&Incoming| file.asked && file.wants == attempt;
        let Some(incoming) = self.files.get(&file).filter(meant) else { return Ok(()) };
        if incoming.attempt.as_ref().is_some_and(|attempt| attempt.is_settling()) {
            return Err(PeerError::Unexpected("the failure of a complete file"));
        }
        let vanished = trouble.kind == TroubleKind::Vanished;
        let then = if vanished { Then::Retry } else { Then::GiveUp };
        let handle = incoming.handle;
        self.fail(handle, Setback { trouble, then });
        Ok(())
    }

    pub(super) fn abandoned(&mut self, file: FileNo) {
        let (dry_run, strategy) =
            (self.cx.setting.options.dry_run, self.cx.setting.options.strategy);
        let Some(incoming) = self.files.get_mut(&file) else { return };
        let Candidate { meta, repeats, .. } = &mut incoming.candidate;
        let (len, guess) = (meta.len, repeats.take());
        self.end_repeat((file, len), guess, None);
        let Some(incoming) = self.files.get_mut(&file) else { return };
        match incoming.failure.take() {
            Some(setback) if setback.then == Then::Retry && incoming.tries < MAX_ATTEMPTS => {
                // What went wrong may lie in what was matched: go without it (law 9). But a source that changed is matched
                // again, until the last try, and a comparison stays one.
                let changed = setback.trouble.kind == TroubleKind::Vanished;
                let again = changed && incoming.tries + 1 < MAX_ATTEMPTS;
                if !dry_run && !again {
                    let doubted = incoming.how == How::Strategy && !changed;
                    let stronger = strategy.stronger.filter(|_| doubted);
                    incoming.how = stronger.map_or(How::Whole, |_| How::Stronger);
                }
                incoming.parts.clear();
                incoming.tries += 1;
                self.begin(file);
            }
            // What the others take for a while may be what it lacks: it is tried once more without them.
            Some(setback)
                if setback.then == Then::WaitForRoom
                    && !incoming.found_no_room
                    && incoming.tries < MAX_ATTEMPTS
                    && self.queue.wait_for_room(&incoming.candidate) =>
            {
                incoming.found_no_room = true;
                incoming.parts.clear();
                incoming.tries += 1;
            }
            // What is deleted at the end may be what it lacks.
            Some(setback)
                if setback.then == Then::WaitForRoom
                    && incoming.asked
                    && self.closing.is_none()
                    && self.cx.setting.options.deletes_for_room()
                    && self.queue.park(&incoming.candidate) =>
            {
                incoming.failure = Some(setback);
            }
            Some(setback) => {
                self.cx.totals.failed += 1;
                // It is not here anew, or waits for the room of what goes: deletions need not wait for it.
                let is_excused = setback.trouble.kind == TroubleKind::Vanished
                    || setback.then == Then::WaitForRoom;
                self.deleting.excused += u64::from(is_excused);
                self.cx.notices.push_back(Notice::Trouble(setback.trouble.clone()));
                self.done(file, Done::Failed(setback.trouble));
            }
            // A comparison that found its difference.
            None => {
                let incoming = &self.files[&file];
                let done = Done::Replaced {
                    action: Action::Updated,
                    differs: Differs { content: true, ..incoming.candidate.differs },
                    literal: 0,
                    matched: 0,
                    from: None,
                };
                self.done(file, done);
            }
        }
    }

    /// Tries again what found no room before names were deleted; whether there is such. Where none were, it has failed.
    pub(super) fn try_parked(&mut self) -> bool {
        let parked = self.queue.take_parked();
        let has_more = self.cx.totals.deleted > 0;
        for file in &parked {
            let incoming = self.files.get_mut(file).expect("what is parked is not settled");
            self.queue.unpark(&incoming.candidate, has_more);
            if has_more {
                incoming.failure = None;
                incoming.parts.clear();
                incoming.tries += 1;
            } else {
                self.abandoned(*file);
            }
        }
        self.activate();
        !parked.is_empty()
    }

    /// A comparison found a difference: nothing more is needed.
    pub(super) fn differs(&mut self, file: FileNo, handle: Handle) {
        self.abandon(file, handle);
    }

    /// Settles a file for good.
    pub(super) fn done(&mut self, file: FileNo, done: Done) {
        let Some(incoming) = self.files.remove(file) else { return };
        self.take_offer(file);
        let Incoming { candidate, reported, attempt, similar, .. } = incoming;
        let restless = attempt.as_ref().is_some_and(|attempt| attempt.restless);
        let resumed = attempt.as_ref().map_or(0, |attempt| attempt.matched.resumed);
        attempt.into_iter().for_each(|attempt| self.cx.load.end(&attempt));
        self.queue.settled(&candidate);
        self.cx.report_settled(candidate.meta.len.saturating_sub(reported));
        let Candidate { path, meta, repeats, .. } = &candidate;
        let matched = done.matched().map(|matched| (path, matched));
        self.end_repeat((file, meta.len), repeats.clone(), matched);
        if let (Done::Same { .. }, Some(old)) = (&done, &candidate.old) {
            self.stays(file, old);
        }
        match done {
            Done::Failed(_) => self.miss(file),
            // Its source stays; other names of it are linked to what came.
            Done::Same { .. } | Done::Replaced { .. } if restless => {
                self.stays_there(file);
                self.came(file);
            }
            Done::Same { .. } | Done::Replaced { .. } => {
                self.arrive(file);
                self.waits(file, &candidate.path);
            }
        }
        if matches!(done, Done::Replaced { .. }) {
            self.note_new(&candidate);
        }
        let change_told = restless.then(|| restless_told(&candidate.path));
        let (path, item) = (candidate.path, EntryType::File);
        let mut facts = Facts::of(&candidate.meta);
        let change = match &done {
            Done::Same { touched: true, differs } => Some((Action::Touched, *differs)),
            Done::Replaced { action, differs, literal, matched, from } => {
                let bytes = if self.cx.setting.options.dry_run {
                    candidate.meta.len
                } else {
                    literal + matched
                };
                self.cx.totals.transferred += 1;
                self.cx.totals.transferred_bytes =
                    self.cx.totals.transferred_bytes.saturating_add(bytes);
                facts.literal = *literal;
                facts.from.clone_from(from);
                let kinship = similar.as_ref().and_then(|similar| similar.kinship);
                if let Some(kinship) = kinship {
                    self.moved.learn(kinship, *matched, candidate.meta.len);
                }
                self.cx.totals.literal += literal;
                self.cx.totals.matched += matched;
                self.cx.totals.resumed += resumed.min(*matched);
                self.cx.totals.created += u64::from(*action == Action::Created);
                Some((*action, *differs))
            }
            Done::Same { touched: false, differs } if self.cx.setting.options.tells_unchanged => {
                Some((Action::Unchanged, *differs))
            }
            Done::Same { .. } | Done::Failed(_) => None,
        };
        if let Some((action, differs)) = change {
            let change = self.cx.as_listed(Change { path, item, action, differs, facts });
            self.cx.notices.push_back(Notice::Changed(change));
        }
        self.cx.frames.push_back(ToSender::Done { file, done });
        change_told.into_iter().for_each(|trouble| self.cx.tell_trouble(trouble));
        self.give_back(similar);
    }

    /// Tells progress, counting no byte of a file twice however often it is tried.
    pub(super) fn advance(&mut self, file: FileNo) {
        let Some(incoming) = self.files.get_mut(&file) else { return };
        let Some(attempt) = &incoming.attempt else { return };
        let settled = attempt.settled().min(incoming.candidate.meta.len);
        let fresh = settled.saturating_sub(incoming.reported);
        incoming.reported += fresh;
        self.cx.report_settled(fresh);
    }
}
