//! What moves an attempt on: frames and answers in, frames and work out.

use std::ops::Range;

use deltic_core::chunk::{Algorithm, ChunkerSpec, FixedLen, SegmentChunks};
use deltic_core::delta::Op;
use deltic_core::recipe::{Chunk, Digest};
use deltic_core::{Fingerprint, Span, Strategy};
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::{LARGE_FILE_BYTES, MAX_FRAME_BYTES, WHOLE_BLOCK_BYTES};
use crate::message::{ChunkLine, Done, FileNo, GroupLine, How, Payload, ToSender};
use crate::receiver::{Place, Receiver, Small, Work};
use crate::report::{Action, Differs, Side, Trouble, TroubleKind};
use crate::work::{Handle, Setback, Then, Turn};

use super::facing::Parts;
use super::{Attempt, By, Copies, IndexPart, batches, copy_runs, runs};

impl Receiver {
    pub(in crate::receiver) fn start(
        &mut self,
        file: FileNo,
        meta: Meta,
        (how, spec): (How, ChunkerSpec),
    ) -> Result<(), PeerError> {
        let (strategy, streams) = (self.cx.setting.options.way(), self.cx.setting.options.streams);
        // An attempt may have ended here while its beginning was on the way.
        let open = self.files.get(&file).filter(|incoming| self.files.is_open(incoming.handle));
        let Some(incoming) = open else { return Ok(()) };
        let blocks = FixedLen::new(WHOLE_BLOCK_BYTES).map(ChunkerSpec::Fixed);
        let is_plain = meta.user.is_none() && meta.group.is_none() && meta.more.is_none();
        let in_blocks = matches!(how, How::Whole | How::Tail);
        let fits = is_plain && how == incoming.how && (!in_blocks || Ok(spec) == blocks);
        if !incoming.asked || incoming.attempt.is_some() || !fits || !meta.is_file() {
            return Err(PeerError::Unexpected("start"));
        }
        let agreed = match how {
            How::Recipe | How::Whole | How::Tail => is_agreed(&spec),
            How::Strategy | How::Stronger => may_cut(&strategy, meta.len, spec),
        };
        if !agreed {
            return Err(PeerError::Unexpected("chunker"));
        }
        let handle = incoming.handle;
        if self.has_outgrown(handle, meta.len) {
            return Ok(());
        }
        let meta = self.renewed(&self.files[&file].candidate.meta, meta);
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let mut attempt = Box::new(Attempt::new(meta, (how, spec), strategy));
        if how == How::Tail {
            let from = incoming.candidate.tail_from();
            if attempt.meta.len < from {
                return Err(PeerError::Unexpected("a tail of less than nothing"));
            }
            attempt.begin_at(from);
        }
        if incoming.asked_spec.take().is_some_and(|asked| asked != spec) {
            return Err(PeerError::Unexpected("chunker"));
        }
        if let Some(kept) = incoming.kept.take() {
            let (meta, listed) = (&attempt.meta, &incoming.candidate.meta);
            if (meta.len, meta.modified) != (listed.len, listed.modified) {
                let words = |path: &str| format!("cannot read {path}: it has changed");
                let trouble = Trouble::at(TroubleKind::Vanished, &incoming.candidate.path, words);
                let trouble = trouble.on(Side::Sender);
                self.fail(handle, Setback { trouble, then: Then::Retry });
                return Ok(());
            }
            attempt.go_on_with(kept);
            if incoming.parts.is_empty() {
                attempt.knows_all();
            }
            incoming.begin(attempt);
            return Ok(());
        }
        let blocks = if streams > 1 { attempt.ask_for_blocks() } else { None };
        incoming.begin(attempt);
        if let Some(blocks) = blocks {
            self.cx.frames.push_back(ToSender::Need { file, chunks: vec![blocks] });
        }
        if how == How::Recipe {
            self.index_more(handle);
        }
        self.begin_talk(handle);
        Ok(())
    }

    /// Goes on with what was told before it was wanted.
    pub(in crate::receiver) fn begin_offered(&mut self, file: FileNo, mut attempt: Box<Attempt>) {
        let handle = self.files[&file].handle;
        if self.has_outgrown(handle, attempt.meta.len) {
            return;
        }
        attempt.meta = self.renewed(&self.files[&file].candidate.meta, attempt.meta);
        self.cx.load.begin(&attempt);
        self.files.get_mut(&file).expect("the caller has the file").begin(attempt);
    }

    /// Fails an attempt at a file that was opened so long though it was listed as small: it is under way among many small
    /// ones, and would hold what only a few may.
    fn has_outgrown(&mut self, handle: Handle, len: u64) -> bool {
        let Some((_, incoming)) = self.incoming(handle) else { return true };
        if len <= LARGE_FILE_BYTES || incoming.candidate.is_large() {
            return false;
        }
        let words = |path: &str| format!("cannot read {path}: it has grown too much meanwhile");
        let trouble = Trouble::at(TroubleKind::Vanished, &incoming.candidate.path, words);
        let trouble = trouble.on(Side::Sender);
        self.fail(handle, Setback { trouble, then: Then::GiveUp });
        true
    }

    /// The file's attempt; `None` where it has ended here and the sender cannot know yet.
    pub(super) fn attempt(&mut self, file: FileNo) -> Option<(Handle, &mut Attempt)> {
        let incoming = self.files.get_mut(&file)?;
        Some((incoming.handle, incoming.attempt.as_mut()?))
    }

    pub(super) fn attempt_of(&mut self, handle: Handle) -> Option<(FileNo, &mut Attempt)> {
        let (file, incoming) = self.incoming(handle)?;
        Some((file, incoming.attempt.as_mut()?))
    }

    /// Goes on indexing the old versions, one after the other; before `Start` by what it most likely says.
    pub(in crate::receiver) fn index_more(&mut self, handle: Handle) {
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let Some((old, lens)) = incoming.old() else { return };
        for (part, segment) in old.next_segments(lens) {
            let work = Work::Index { handle, part: part.version, segment, spec: part.spec };
            self.cx.jobs.ask(work, Place::Index(handle, part));
        }
        self.resolve(file);
    }

    pub(in crate::receiver) fn indexed(
        &mut self,
        handle: Handle,
        part: IndexPart,
        run: Result<SegmentChunks<Chunk>, Setback>,
    ) {
        let Some((_, incoming)) = self.incoming(handle) else { return };
        let Some((old, lens)) = incoming.old() else { return };
        old.take(part, run, lens);
        self.index_more(handle);
    }

    pub(in crate::receiver) fn groups(
        &mut self,
        file: FileNo,
        lines: &[GroupLine],
    ) -> Result<(), PeerError> {
        if let Some(offer) = self.offer_of(file) {
            offer.tell_groups(lines)?;
            return offer.check_offer();
        }
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        attempt.tell_groups(lines)?;
        let needs_old = attempt.needs_old();
        self.cx.load.take_groups(lines.len() as u64)?;
        if self.cx.load.is_crowded() {
            let message = "receive: more groups under way than can be held";
            let trouble = Trouble::new(TroubleKind::Failed, message);
            self.fail(handle, Setback { trouble, then: Then::Retry });
        }
        if needs_old {
            self.index_more(handle);
        }
        self.resolve(file);
        Ok(())
    }

    /// Matches what can be matched by now; answers what it can.
    fn resolve(&mut self, file: FileNo) {
        let Some((handle, attempt)) = self.attempt(file) else { return };
        let mut copies = Copies::default();
        let missed = attempt.resolve(&mut copies);
        let compared = attempt.take_compared();
        for (told, groups) in attempt.lacks() {
            self.cx.load.answer_groups(u64::from(told.end - told.start));
            self.cx.frames.push_back(ToSender::Lack { file, groups });
        }
        self.cx.counts.add(0, compared);
        self.advance(file);
        self.copy(handle, copies.finish(), missed);
        while let Some(groups) =
            self.attempt(file).and_then(|(_, attempt)| attempt.next_unmatched())
        {
            self.match_chunks(file, &[groups]);
        }
        self.try_settle(handle);
    }

    /// Copies what was found, or holds it back while it may turn out that nothing changed.
    pub(super) fn copy(&mut self, handle: Handle, found: Vec<Op>, differs: bool) {
        let dry_run = self.cx.setting.options.dry_run;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let in_place = incoming.len_in_place().unwrap_or(0);
        let path = incoming.candidate.path.clone();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let stays = |op: &Op| matches!(op, Op::Copy { old, new_start } if old.start == *new_start && old.end() <= in_place);
        let mut ops = found;
        if let Some(held) = &mut attempt.held {
            let identical = !differs && ops.iter().all(stays);
            held.append(&mut ops);
            if identical {
                return;
            }
            ops = attempt.held.take().unwrap_or_default();
        }
        if dry_run {
            return self.differs(file, handle);
        }
        let (new, turn) = (attempt.new_version(), attempt.turn());
        let batches: Vec<_> =
            batches(&ops).into_iter().map(|runs| (attempt.chunks_of(&runs), runs)).collect();
        attempt.jobs += batches.len();
        for (chunks, runs) in batches {
            let spans = runs.iter().map(|run| Span::new(run.new_start, run.old.len)).collect();
            let work = Work::Copy { handle, path: path.clone(), new, runs, chunks };
            self.cx.ask_to_write(turn, work, Place::Copy(handle, spans));
        }
    }

    pub(in crate::receiver) fn chunks(
        &mut self,
        file: FileNo,
        groups: &[Range<u32>],
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else {
            return Ok(());
        };
        if groups.is_empty() {
            return Err(PeerError::Unexpected("chunks of no group"));
        }
        let mut lines = lines;
        for no in groups.iter().cloned().flatten() {
            if attempt.lacked.pop_front() != Some(no) {
                return Err(PeerError::Unexpected("chunks of a group that was not asked for"));
            }
            let count = attempt.groups[no as usize].chunks as usize;
            let own = lines.split_off(..count);
            let own = own.ok_or(PeerError::Unexpected("fewer chunks than their groups have"))?;
            attempt.spell(no, own)?;
        }
        if !lines.is_empty() {
            return Err(PeerError::Unexpected("more chunks than their groups have"));
        }
        self.match_chunks(file, groups);
        self.try_settle(handle);
        Ok(())
    }

    pub(in crate::receiver) fn recipe(
        &mut self,
        file: FileNo,
        lines: &[ChunkLine],
    ) -> Result<(), PeerError> {
        if let Some(offer) = self.offer_of(file) {
            return offer.tell_recipe(lines);
        }
        let Some((_, attempt)) = self.attempt(file) else { return Ok(()) };
        let before = attempt.groups_held();
        attempt.tell_recipe(lines)?;
        let told = attempt.groups_held() - before;
        self.cx.load.hold_groups(told);
        self.resolve(file);
        Ok(())
    }

    /// Looks for the chunks that were told of these groups, and answers with those that old lacks.
    fn match_chunks(&mut self, file: FileNo, groups: &[Range<u32>]) {
        let Some(incoming) = self.files.get_mut(&file) else { return };
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else { return };
        let (mut copies, mut needed) = (Copies::default(), Vec::new());
        for no in groups.iter().cloned().flatten() {
            needed.extend(attempt.find_chunks(no, &mut copies));
        }
        self.cx.counts.add(0, attempt.take_compared());
        // Where a group was lacked that is known already: nothing is held back any more.
        let differs = !needed.is_empty();
        let parts = Parts { lens: &incoming.parts, in_place: incoming.in_place };
        let told_from = attempt.groups[groups[0].start as usize].first_chunk;
        let needed = attempt.find_gaps(runs(needed.into_iter()), told_from, parts);
        self.cx.frames.push_back(ToSender::Need { file, chunks: needed });
        self.cx.load.queue_gaps(handle);
        self.advance(file);
        self.copy(handle, copies.finish(), differs);
    }

    pub(in crate::receiver) fn fill(
        &mut self,
        file: FileNo,
        ranges: &[Range<u32>],
        payload: Payload,
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.files.get_mut(&file) else { return Ok(()) };
        let path = incoming.candidate.path.clone();
        let (handle, Some(attempt)) = (incoming.handle, incoming.attempt.as_mut()) else {
            return Ok(());
        };
        let (mut chunks, mut pieces, mut bytes) = (Vec::new(), Vec::new(), 0);
        for chunk in ranges.iter().cloned().flatten() {
            let piece = attempt.receive(chunk, By::Itself)?;
            bytes += piece.span.len as usize;
            if bytes > MAX_FRAME_BYTES {
                return Err(PeerError::Limit("literal bytes in a frame"));
            }
            chunks.push(chunk);
            pieces.push(piece);
        }
        if !payload.may_hold(bytes) {
            return Err(PeerError::Unexpected("literals of another length than their chunks"));
        }
        let (new, turn) = (attempt.new_version(), attempt.turn());
        if attempt.is_single_block() {
            attempt.literal = new.len;
            attempt.body = Some(payload);
            self.advance(file);
            return Ok(());
        }
        let (mut earlier, mut between) = (Vec::new(), Vec::new());
        if let (Some(talk), [first, .., last] | [first @ last]) = (&mut attempt.talk, &pieces[..]) {
            earlier = talk.take_before(first.span.start);
            between = copy_runs(&talk.take_before(last.span.start));
        }
        attempt.jobs += 1;
        if !earlier.is_empty() {
            self.copy(handle, earlier, true);
        }
        let copied = between.iter().map(|run| Span::new(run.new_start, run.old.len));
        let spans = pieces.iter().map(|piece| piece.span).chain(copied).collect();
        self.cx.ask_to_write(
            turn,
            Work::Write { handle, path, new, pieces, payload, between },
            Place::Write { handle, chunks, spans, payload_bytes: bytes },
        );
        Ok(())
    }

    pub(in crate::receiver) fn written(
        &mut self,
        handle: Handle,
        (chunks, spans): (&[u32], &[Span]),
        written: Result<Vec<Fingerprint>, Setback>,
    ) {
        let fingerprints = match written {
            Ok(fingerprints) => fingerprints,
            Err(setback) => return self.fail(handle, setback),
        };
        let Some((file, attempt)) = self.attempt_of(handle) else { return };
        attempt.jobs -= 1;
        for ((chunk, fingerprint), span) in chunks.iter().zip(fingerprints).zip(spans) {
            attempt.wrote(*chunk, fingerprint);
            attempt.literal += u64::from(span.len);
        }
        for span in spans {
            let covered = attempt.cover.add(span.start, u64::from(span.len));
            covered.expect("a chunk is received or matched once, in its own place");
        }
        self.advance(file);
    }

    pub(in crate::receiver) fn copied(
        &mut self,
        handle: Handle,
        new: &[Span],
        copied: Result<(), Setback>,
    ) {
        if let Err(setback) = copied {
            return self.fail(handle, setback);
        }
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        attempt.jobs -= 1;
        for span in new {
            let covered = attempt.cover.add(span.start, u64::from(span.len));
            covered.expect("a group or chunk is matched once, in its own place");
        }
    }

    /// The source grew while it was read.
    pub(in crate::receiver) fn restless(&mut self, file: FileNo) -> Result<(), PeerError> {
        if self.offer_of(file).is_some() {
            return Err(PeerError::Unexpected("restless"));
        }
        match self.attempt(file) {
            Some((_, attempt)) => attempt.tell_restless(),
            None => Ok(()),
        }
    }

    pub(in crate::receiver) fn end(
        &mut self,
        file: FileNo,
        digest: Digest,
    ) -> Result<(), PeerError> {
        if let Some(offer) = self.offer_of(file) {
            return offer.tell_end(digest);
        }
        let Some((handle, attempt)) = self.attempt(file) else { return Ok(()) };
        attempt.tell_end(digest)?;
        self.try_settle(handle);
        Ok(())
    }

    /// Commits the file, or finds that there is nothing to commit, once nothing more is to come. Work that nobody waits for,
    /// as that on the rest of an old version of which some cannot be read, must have ended: with this the hands let go of
    /// all versions.
    pub(in crate::receiver) fn try_settle(&mut self, handle: Handle) {
        if self.cx.jobs.is_busy(handle) {
            return;
        }
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let in_place = incoming.len_that_stays();
        let Some(attempt) = incoming.attempt.as_mut() else { return };
        let Some(digest) = attempt.end.filter(|_| attempt.is_quiet()) else { return };
        let path = incoming.candidate.path.clone();
        let seen = incoming.candidate.seen.clone();
        if let Some(late) = attempt.talk.as_mut().and_then(|talk| talk.take_late()) {
            let differs = attempt.literal > 0;
            self.copy(handle, late, differs);
            return self.try_settle(handle);
        }
        if !attempt.is_identical(in_place) && self.holds(handle) {
            return;
        }
        let Some((_, attempt)) = self.attempt_of(handle) else { return };
        if attempt.is_single_block() {
            attempt.settling = true;
            let meta = attempt.meta.clone();
            let payload = attempt.body.take().unwrap_or(Payload::Plain(Vec::new()));
            let payload_bytes = meta.len as usize;
            let small = Small { path, meta, seen, payload, digest };
            let place = Place::Replace { handle, payload_bytes };
            self.cx.ask_to_write(Turn::Any, Work::Replace(small), place);
        } else if attempt.is_identical(in_place) {
            attempt.settling = true;
            let proof = attempt.proof(digest);
            self.cx.jobs.ask(Work::Confirm { handle, proof }, Place::Confirm(handle));
        } else if attempt.held.is_some() && !attempt.comes_in_blocks() {
            // A prefix of the one in place: what was held back is needed after all.
            self.copy(handle, Vec::new(), true);
            self.try_settle(handle);
        } else if attempt.cover.is_complete() {
            attempt.settling = true;
            let (meta, proof) = (attempt.meta.clone(), attempt.proof(digest));
            self.cx
                .jobs
                .ask(Work::Commit { handle, path, meta, seen, proof }, Place::Commit(handle));
        } else {
            debug_assert!(false, "file {} is quiet and not covered", file.0);
        }
    }

    pub(in crate::receiver) fn committed(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let checksum = self.cx.setting.options.checksum;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let Some(attempt) = &incoming.attempt else { return };
        let similar = incoming.similar.as_ref().filter(|_| attempt.matched.bytes > 0);
        let action = incoming.candidate.action();
        let content = checksum && action == Action::Updated;
        let done = Done::Replaced {
            action,
            differs: Differs { content, ..incoming.candidate.differs },
            literal: attempt.literal,
            matched: attempt.matched.bytes,
            from: similar.map(|similar| similar.path.clone()),
        };
        self.done(file, done);
    }

    /// The one in place is the new version; its attributes may still differ.
    pub(in crate::receiver) fn confirmed(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let dry_run = self.cx.setting.options.dry_run;
        let Some((file, incoming)) = self.incoming(handle) else { return };
        if incoming.is_beside {
            return self.proved_beside(file, handle);
        }
        let differs = incoming.candidate.differs;
        let path = incoming.candidate.path.clone();
        let Some(attempt) = &incoming.attempt else { return };
        let meta = attempt.meta.clone();
        if differs == Differs::default() || dry_run {
            self.done(file, Done::Same { touched: differs != Differs::default(), differs });
        } else {
            self.cx.jobs.ask(Work::SetMeta { path, meta }, Place::TouchFile(handle));
        }
    }

    pub(in crate::receiver) fn touched(&mut self, handle: Handle, done: Result<(), Setback>) {
        if let Err(setback) = done {
            return self.fail(handle, setback);
        }
        let Some((file, incoming)) = self.incoming(handle) else { return };
        let differs = incoming.candidate.differs;
        self.done(file, Done::Same { touched: true, differs });
    }
}

/// Whether a sender may cut with it: every session agrees on these two. Others cost the receiver more time for each byte.
pub(in crate::receiver) const fn is_agreed(spec: &ChunkerSpec) -> bool {
    matches!(spec, ChunkerSpec::Fixed(_) | ChunkerSpec::ByContent(Algorithm::Sieve, _))
}

/// Whether a sender may cut with it by a strategy of the papers: how fast its link is, it alone knows.
fn may_cut(strategy: &Strategy, len: u64, spec: ChunkerSpec) -> bool {
    let rates = [None, Some(1), Some(20_000_000), Some(u64::MAX)];
    rates.into_iter().any(|rate| strategy.chunker(len, rate) == spec)
}
