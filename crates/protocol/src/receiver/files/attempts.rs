//! Attempts at files: from the queue to the sender's answer, and from a failure to the next attempt or the end.

use deltic_core::strategy::Conversation;
use deltic_core::{ChunkerSpec, Key};
use deltic_tree::RelPath;

use crate::limits::{LARGE_FILE_BYTES, MAX_ATTEMPTS, WHOLE_BELOW_BYTES};
use crate::message::{Done, FileNo, ToSender, TransferKind};
use crate::options::{Append, Fuzzy, Options, Writing};
use crate::receiver::ask::{KnownChunks, OldLens, OldVersionWork, ReceiverWork, SettleWork};
use crate::receiver::context::Context;
use crate::receiver::pending::{FilePending, ReceiverPending};
use crate::receiver::transfer::IncomingTransfer;
use crate::receiver::transfer::indexing::ExpectedTransfer;
use crate::receiver::transfer::old::OldIndex;
use crate::report::{Action, Change, Differs, EntryType, Facts, Notice, Trouble, TroubleKind};
use crate::work::{ErrorAction, Handle, WorkError};

use super::WantedFiles;
use super::candidate::{FileCandidate, FileOutcome, SettledFile};
use super::incoming::{AttemptStage, IncomingFile, can_send_sums, max_leftover_bytes};
use super::sharing::begin_sharing;

/// The warning about a file that was read although a program may have been writing to the file.
fn in_use_warning(cx: &Context, path: &RelPath) -> Trouble {
    cx.changed_at_sender_trouble(path, |path| {
        format!("{path} was open for writing while it was read, and may be half changed; run again")
    })
}

/// The key and chunker of a recipe from an earlier session.
struct RecipeCut {
    key: Key,
    spec: ChunkerSpec,
}

/// Takes the known recipe of the version in place, if the transfer may continue with that recipe; also returns the
/// index of the version.
fn known_recipe(
    cx: &Context,
    how: TransferKind,
    lens: &mut OldLens,
) -> Option<(RecipeCut, OldIndex)> {
    let KnownChunks { key, spec, chunks, .. } = lens.recipe.take()?;
    let fits = how == TransferKind::Recipe && cx.setting.limits.admits_chunker(&spec);
    let index = OldIndex::from_recipe(spec, chunks, lens.in_place.filter(|_| fits)?)?;
    Some((RecipeCut { key, spec }, index))
}

/// Chooses the blocks with stored sums, if the storage of this end keeps the sums of the old version: both ends learn
/// what changed without a read. Only the first attempt at a file asks for blocks.
fn summed_blocks(
    cx: &Context,
    incoming: &mut IncomingFile,
    lens: &OldLens,
) -> Option<(RecipeCut, OldIndex)> {
    let blocks = cx.setting.summed_blocks?;
    let is_first = incoming.how == TransferKind::Recipe && incoming.tries.count == 1;
    let is_kept = lens.keeps == Some(blocks.spec) && !lens.has_holes && lens.kept.is_none();
    incoming.tries.uses_stored_sums =
        is_first && is_kept && blocks.may_cut(incoming.candidate.longer_len());
    let cut = RecipeCut { key: blocks.key, spec: blocks.chunker };
    incoming.tries.uses_stored_sums.then(|| (cut, OldIndex::new(blocks.chunker)))
}

impl WantedFiles {
    /// Starts as many files as may be under way at once.
    pub(crate) fn start_waiting_files(&mut self, cx: &mut Context) {
        while let Some(candidate) = self.queue.pop() {
            let (file, how) = (candidate.file, self.first_transfer_kind(cx, &candidate));
            let incoming = IncomingFile::new(candidate, self.under_way.next_handle(), how);
            self.under_way.insert(file, incoming);
            self.begin_attempt(cx, file);
        }
        for file in self.queue.take_with_room() {
            self.begin_attempt(cx, file);
        }
    }

    /// Chooses how the first attempt transfers a file.
    fn first_transfer_kind(&self, cx: &Context, candidate: &FileCandidate) -> TransferKind {
        let options = &cx.setting.options;
        if options.writing.append == Append::Blindly && candidate.old.is_some() {
            return TransferKind::Tail;
        }
        let beside = candidate.is_alternate_candidate(options.checksum);
        let compare = options.checksum && candidate.old.is_some() && !candidate.compared || beside;
        let tiny = candidate.meta.len <= WHOLE_BELOW_BYTES;
        let whole = options.whole_file || tiny || self.is_lone_block(cx, candidate);
        match options.strategy.conversation {
            _ if whole && !compare => TransferKind::Whole,
            Conversation::Recipe => TransferKind::Recipe,
            _ => TransferKind::Strategy,
        }
    }

    /// True if a file of at most one block has no old version, and none is to be searched for. False if partial files
    /// are shown or commits are delayed: an interrupted transfer then leaves a file behind.
    fn is_lone_block(&self, cx: &Context, candidate: &FileCandidate) -> bool {
        let Options { strategy, compare, writing, .. } = &cx.setting.options;
        let FileCandidate { meta, old, beside, may_have_moved, .. } = candidate;
        let is_sought = compare.fuzzy != Fuzzy::Never
            || *may_have_moved && self.moved.weakest_relation().is_some();
        let alone = old.is_none() && beside.is_none() && !is_sought;
        let leaves = writing.partial_dir.is_some() || writing.delay;
        strategy.conversation == Conversation::Recipe
            && !leaves
            && alone
            && meta.len <= u64::from(cx.setting.limits.block_bytes())
    }

    /// Begins an attempt, and opens the old versions if the file is to be matched against them.
    fn begin_attempt(&mut self, cx: &mut Context, file: FileNo) {
        let (dry_run, strategy) = (cx.setting.options.dry_run, cx.strategy());
        // Strategies from papers keep no notes.
        let by_recipe = strategy.conversation == Conversation::Recipe;
        let (handle, incoming) = self.under_way.begin_attempt(file);
        incoming.stage = AttemptStage::Opening;
        let goes_on = if dry_run || !by_recipe { None } else { incoming.resumable_meta() };
        if incoming.how == TransferKind::Tail {
            let from = incoming.candidate.tail_start();
            self.requested_file(file, ExpectedTransfer::default());
            self.take_offer(file);
            return cx.frames.push_back(ToSender::Append { file, from });
        }
        // A file sent in a single block is not copied from an old version.
        let least = match cx.setting.sums_old {
            true => u64::from(cx.setting.limits.block_bytes()),
            false => LARGE_FILE_BYTES,
        };
        let base = by_recipe && cx.setting.uses_bases() && incoming.may_hold_base(least);
        if incoming.how == TransferKind::Whole && goes_on.is_none() && !base {
            return self.request_content(cx, file, ExpectedTransfer::default());
        }
        let path = incoming.candidate.path.clone();
        let elsewhere = incoming
            .other_old_places(cx.setting.options.compare.fuzzy, self.moved.weakest_relation());
        let most = match incoming.how {
            TransferKind::Recipe | TransferKind::Strategy | TransferKind::Stronger => {
                max_leftover_bytes(&incoming.candidate)
            }
            TransferKind::Whole | TransferKind::Tail | TransferKind::Changes => 0,
        };
        let known = incoming.how == TransferKind::Recipe && cx.setting.uses_recipes();
        let recipe = known.then(|| incoming.expected_chunker(&strategy));
        let work = ReceiverWork::Old(OldVersionWork::OpenOld {
            handle,
            path,
            most,
            goes_on,
            recipe,
            base,
            elsewhere,
        });
        cx.request_work(work, FilePending::OpenOld(handle));
    }

    /// Takes the old versions, and asks the sender for the content to be matched against them.
    pub(super) fn take_old_versions(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        lens: Result<Box<OldLens>, WorkError>,
    ) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        incoming.similar = lens.as_ref().ok().and_then(|lens| lens.similar.clone());
        incoming.similar.iter().for_each(|similar| self.lent.lend_path(similar));
        incoming.tries.sought = true;
        let mut lens = match lens {
            Ok(lens) => *lens,
            // The file is sent whole, whatever old versions there are.
            Err(_) if incoming.how == TransferKind::Whole => OldLens::default(),
            Err(error) => return self.fail_attempt(cx, handle, error),
        };
        let how = incoming.how;
        let recipe = known_recipe(cx, how, &mut lens);
        let recipe = recipe.or_else(|| summed_blocks(cx, incoming, &lens));
        let kept = lens.kept.take();
        let base = lens.base.take().filter(|_| lens.in_place.is_some());
        if how != TransferKind::Whole || base.is_some() {
            incoming.note_old_lens(&cx.setting.options, lens);
        }
        let first = incoming.old.len_of(incoming.old.first_nonempty());
        let strategy = cx.strategy();
        // Chunks of an earlier session have names of their own.
        let is_cut_anew = kept.is_none() && recipe.is_none() && base.is_none();
        let shares = is_cut_anew && begin_sharing(cx, incoming, self.may_share);
        // The old version is cut in the order of the new data, once that order is known.
        let may_cut = !incoming.old.has_holes;
        if let Some(kept) = kept {
            incoming.how = TransferKind::Recipe;
            let cut = RecipeCut { key: kept.key, spec: kept.spec };
            let kept = Some(Box::new(kept));
            let expected = ExpectedTransfer { kept, ..ExpectedTransfer::default() };
            self.request_resumed(cx, file, cut, expected);
        } else if let Some((cut, known)) = recipe {
            let ahead = Some(Box::new(known));
            let expected = ExpectedTransfer { ahead, base, ..ExpectedTransfer::default() };
            self.request_resumed(cx, file, cut, expected);
            // Only leftovers of killed runs are still to be read.
            if may_cut {
                self.index_more(cx, handle);
            }
        } else if base.is_some() {
            let expected = ExpectedTransfer { base, ..ExpectedTransfer::default() };
            self.request_content(cx, file, expected);
        } else if first > 0 && can_send_sums(&strategy, first) {
            let ahead = (how == TransferKind::Recipe && may_cut)
                .then(|| Box::new(OldIndex::new(incoming.expected_chunker(&strategy))));
            let expected = ExpectedTransfer { ahead, ..ExpectedTransfer::default() };
            self.request_content(cx, file, expected);
            self.index_more(cx, handle);
        } else if cx.setting.options.dry_run {
            // An old version exists, or nothing would be compared.
            let words = |path: &str| format!("cannot compare {path}: what is there cannot be read");
            let trouble = Trouble::at(TroubleKind::Failed, &incoming.candidate.path, words);
            self.fail_attempt(cx, handle, WorkError { trouble, then: ErrorAction::GiveUp });
        } else if shares {
            self.request_content(cx, file, ExpectedTransfer::default());
        } else {
            self.restart_as_whole(cx, handle);
        }
    }

    /// Restarts an attempt as a transfer of the whole file. Closes the old versions, since none is matched.
    fn restart_as_whole(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        incoming.how = TransferKind::Whole;
        let similar = incoming.similar.take();
        self.under_way.end_attempt(handle);
        let release = FilePending::Release.into();
        cx.jobs.request_last(handle, ReceiverWork::Settle(SettleWork::Abandon { handle }), release);
        self.end_loan(cx, similar);
        self.begin_attempt(cx, file);
    }

    /// Continues to index the old versions before `Start` arrives.
    fn index_more(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        if let Some((expected, mut fx)) = incoming.expected_and_context(cx, file)
            && expected.base.is_none()
        {
            expected.index_more(&mut fx);
        }
    }

    fn requested_file(&mut self, file: FileNo, expected: ExpectedTransfer) -> &IncomingFile {
        let incoming = self.under_way.mark_requested(file);
        incoming.tries.wants += 1;
        incoming.stage = AttemptStage::Asked(expected);
        incoming
    }

    /// Asks for a file by recipe, with the chunker and key of an earlier session.
    fn request_resumed(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        cut: RecipeCut,
        expected: ExpectedTransfer,
    ) {
        let RecipeCut { key, spec } = cut;
        let base = expected.base;
        self.requested_file(file, ExpectedTransfer { spec: Some(spec), ..expected });
        self.take_offer(file);
        cx.frames.extend(base.map(|base| ToSender::Base { file, base }));
        cx.frames.push_back(ToSender::Resume { file, key, spec });
    }

    /// Asks the sender for a file; an offered file begins at once.
    fn request_content(&mut self, cx: &mut Context, file: FileNo, expected: ExpectedTransfer) {
        let base = expected.base;
        let incoming = self.requested_file(file, expected);
        let (how, handle) = (incoming.how, incoming.handle);
        let is_first = incoming.tries.wants == 1 && base.is_none();
        cx.frames.extend(base.map(|base| ToSender::Base { file, base }));
        cx.send_request(file, how, is_first);
        if let Some(offered) = self.take_offer(file)
            && how == TransferKind::Recipe
            && base.is_none()
        {
            self.begin_offered(cx, handle, offered);
        }
    }

    /// Fails an attempt. Another attempt may follow, once the work is undone.
    pub(super) fn fail_attempt(&mut self, cx: &mut Context, handle: Handle, error: WorkError) {
        self.abandon_attempt(cx, handle, Some(error));
    }

    /// Ends an attempt and undoes its work; `why` is `None` after a comparison that found a difference.
    pub(super) fn abandon_attempt(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        why: Option<WorkError>,
    ) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let similar = incoming.similar.take();
        let over = AttemptStage::Over { was_asked: incoming.is_requested(), why };
        let stage = std::mem::replace(&mut incoming.stage, over);
        self.under_way.end_attempt(handle);
        if let AttemptStage::Running(transfer) = stage {
            cx.load.subtract_share(transfer.load_share());
        }
        let last: ReceiverPending = FilePending::Abandon(file).into();
        for forgotten in
            cx.jobs.request_last(handle, ReceiverWork::Settle(SettleWork::Abandon { handle }), last)
        {
            cx.load.uncount_pending(&forgotten);
        }
        self.end_loan(cx, similar);
    }

    /// Starts the next attempt or settles the file, once the work of an attempt is undone.
    pub(super) fn take_abandoned(&mut self, cx: &mut Context, file: FileNo) {
        let Some(incoming) = self.under_way.get_mut(&file) else { return };
        let FileCandidate { meta, repeats, .. } = &mut incoming.candidate;
        let (len, guess) = (meta.len, repeats.take());
        self.repeats.end_attempt(file, len, guess, None);
        self.queue_repeats(cx);
        cx.sources.end_attempt(file, None);
        let Some(incoming) = self.under_way.get_mut(&file) else { return };
        let (was_asked, why) = match &mut incoming.stage {
            AttemptStage::Over { was_asked, why } => (*was_asked, why.take()),
            _ => (false, None),
        };
        let may_try = incoming.tries.count < MAX_ATTEMPTS;
        match why {
            Some(error) if error.then == ErrorAction::Retry && may_try => {
                incoming.choose_next_kind(&cx.setting.options, &error);
                incoming.count_attempt();
                self.begin_attempt(cx, file);
            }
            // Other files under way may take the room for a while: try once more without them.
            Some(error)
                if error.then == ErrorAction::WaitForRoom
                    && !incoming.tries.found_no_room
                    && may_try
                    && self.queue.wait_for_room(&incoming.candidate) =>
            {
                incoming.tries.found_no_room = true;
                incoming.count_attempt();
            }
            // Deletions at the end may make room.
            Some(error)
                if error.then == ErrorAction::WaitForRoom
                    && was_asked
                    && !cx.is_closing
                    && cx.setting.options.waits_for_deletions()
                    && self.queue.wait_for_deletions(&incoming.candidate) =>
            {
                incoming.stage = AttemptStage::Over { was_asked, why: Some(error) };
            }
            Some(error) => self.retry_or_give_up(cx, file, error),
            // A comparison that found a difference.
            None => {
                let action = Action::Updated;
                let differs = Differs { content: true, ..incoming.candidate.differs };
                let done = Done::Replaced { action, differs, literal: 0, matched: 0, from: None };
                self.settle_for_good(cx, file, done);
            }
        }
    }

    fn retry_or_give_up(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        WorkError { trouble, then }: WorkError,
    ) {
        cx.totals.failed += 1;
        // The file vanished here, or waits for the room of deleted names: deletions need not wait for the file.
        let is_excused = trouble.kind == TroubleKind::Vanished || then == ErrorAction::WaitForRoom;
        cx.notices.push_back(Notice::Trouble(trouble.clone()));
        self.settle_file(cx, file, Done::Failed(trouble), is_excused);
    }

    /// Retries files that did not fit on the disk before names were deleted. Returns true if there are such files. If
    /// no name was deleted, these files fail.
    pub(crate) fn retry_parked(&mut self, cx: &mut Context) -> bool {
        let parked = self.queue.take_parked();
        let has_more = cx.totals.deleted > 0;
        for file in &parked {
            let incoming = self.under_way.get_mut(file).expect("what is parked is not settled");
            self.queue.restart_parked(&incoming.candidate, has_more);
            if has_more {
                incoming.count_attempt();
            } else {
                self.take_abandoned(cx, *file);
            }
        }
        self.start_waiting_files(cx);
        !parked.is_empty()
    }

    /// Settles a file that was put in place.
    pub(super) fn take_committed(&mut self, cx: &mut Context, handle: Handle) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let Some(transfer) = incoming.running_transfer() else { return };
        let (literal, matched, _) = transfer.transferred_bytes();
        let similar = incoming.similar.as_ref().filter(|_| matched > 0);
        let action = incoming.candidate.action();
        let content = cx.setting.options.checksum && action == Action::Updated;
        let differs = Differs { content, ..incoming.candidate.differs };
        let from = similar.map(|similar| similar.path.clone());
        self.settle_for_good(cx, file, Done::Replaced { action, differs, literal, matched, from });
    }

    /// Settles a file for good.
    pub(super) fn settle_for_good(&mut self, cx: &mut Context, file: FileNo, done: Done) {
        self.settle_file(cx, file, done, false);
    }

    fn settle_file(&mut self, cx: &mut Context, file: FileNo, done: Done, is_excused: bool) {
        let Some(incoming) = self.under_way.remove(file) else { return };
        self.take_offer(file);
        let reported = incoming.reported_bytes();
        let IncomingFile { candidate, stage, similar, .. } = incoming;
        let transfer = match stage {
            AttemptStage::Running(transfer) => Some(transfer),
            _ => None,
        };
        let is_restless = transfer.as_deref().is_some_and(IncomingTransfer::is_restless);
        let resumed = transfer.as_deref().map_or(0, |transfer| transfer.transferred_bytes().2);
        transfer.iter().for_each(|transfer| cx.load.subtract_share(transfer.load_share()));
        self.queue.note_settled(&candidate);
        cx.report_settled(candidate.meta.len.saturating_sub(reported));
        let FileCandidate { path, meta, repeats, .. } = &candidate;
        let matched = done.matched_bytes().map(|matched| (path, matched));
        self.repeats.end_attempt(file, meta.len, repeats.clone(), matched);
        self.queue_repeats(cx);
        cx.sources.end_attempt(file, matched);
        if let Done::Replaced { literal, matched, .. } = &done {
            if let Some(relation) = similar.as_ref().and_then(|similar| similar.relation) {
                self.moved.count_guess(relation, *matched, meta.len);
            }
            cx.totals.literal += literal;
            cx.totals.matched += matched;
            cx.totals.resumed += resumed.min(*matched);
        }
        report_change(cx, &candidate, &done);
        let end = match &done {
            Done::Failed(_) => FileOutcome::Failed { is_excused },
            Done::Same { .. } => FileOutcome::Same,
            Done::Replaced { .. } => FileOutcome::Replaced,
        };
        cx.send_outcome(file, done, candidate.meta.len);
        if is_restless {
            cx.send_trouble(in_use_warning(cx, &candidate.path));
        }
        self.settled.push(SettledFile { candidate, end, is_restless });
        self.end_loan(cx, similar);
    }

    /// Queues files that no longer wait for a file of the same length.
    fn queue_repeats(&mut self, cx: &Context) {
        while let Some(candidate) = self.repeats.next_ready(&cx.setting.options) {
            self.queue.push(candidate);
        }
    }

    /// Ends the loan of a [lent path](super::under_way::LentPaths), and settles files that waited for the path.
    fn end_loan(&mut self, cx: &mut Context, similar: Option<crate::receiver::ask::SimilarFile>) {
        for held in self.lent.end_loan(similar) {
            self.commit_if_complete(cx, held);
        }
    }
}

/// Counts the change of a settled file, and reports the change to this end's user.
fn report_change(cx: &mut Context, FileCandidate { path, meta, .. }: &FileCandidate, done: &Done) {
    let mut facts = Facts::state_at_sender(meta);
    let (action, differs) = match done {
        Done::Same { touched: true, differs } => (Action::Touched, *differs),
        Done::Replaced { action, differs, literal, matched, from } => {
            let bytes = if cx.setting.options.dry_run { meta.len } else { literal + matched };
            cx.totals.transferred += 1;
            cx.totals.transferred_bytes = cx.totals.transferred_bytes.saturating_add(bytes);
            cx.totals.created += u64::from(*action == Action::Created);
            facts.literal = *literal;
            facts.from.clone_from(from);
            (*action, *differs)
        }
        Done::Same { touched: false, differs } if cx.setting.options.tells_unchanged => {
            (Action::Unchanged, *differs)
        }
        Done::Same { .. } | Done::Failed(_) => return,
    };
    let (path, item) = (path.clone(), EntryType::File);
    let change = cx.with_path_at_sender(Change { path, item, action, differs, facts });
    cx.notices.push_back(Notice::Changed(change));
}

impl IncomingFile {
    /// Takes the lengths of the old versions.
    fn note_old_lens(&mut self, options: &Options, lens: OldLens) {
        let Options { dry_run, checksum, writing: Writing { inplace, .. }, .. } = options;
        let is_here = lens.in_place.is_some();
        let may_be_it = self.candidate.is_alternate_candidate(*checksum) && lens.beside.is_some();
        let FileCandidate { meta, differs, .. } = &self.candidate;
        let is_touched = *differs != Differs::default() && !dry_run && !inplace;
        let leaves_names = lens.has_other_names && is_touched && meta.hard_link().is_none();
        let similar = lens.similar.as_ref().map(|similar| similar.len);
        let others = lens.beside.into_iter().chain(similar);
        let old = &mut self.old;
        old.is_beside = !is_here && may_be_it;
        old.keeps = lens.keeps;
        (old.has_holes, old.is_viewed) = (lens.has_holes, false);
        old.in_place = is_here || may_be_it;
        old.leaves_names = leaves_names;
        old.lens = lens.in_place.into_iter().chain(others).collect();
        old.left_at = old.lens.iter().sum();
        old.lens.extend(lens.leftovers);
    }

    /// Chooses how the next attempt transfers the file. After a failure, the next attempt uses the stronger sums of
    /// the strategy, if there are any, or else transfers the whole file (law 9). If the source changed, the method
    /// stays the same until the last attempt. A dry run only compares. After an attempt by stored sums the file is cut
    /// by content.
    fn choose_next_kind(&mut self, options: &Options, error: &WorkError) {
        if std::mem::take(&mut self.tries.uses_stored_sums) {
            return;
        }
        let changed = error.trouble.kind == TroubleKind::Vanished;
        let again = changed && self.tries.count + 1 < MAX_ATTEMPTS;
        if !options.dry_run && !again {
            let doubted = self.how == TransferKind::Strategy && !changed;
            let stronger = options.strategy.stronger.filter(|_| doubted);
            self.how = stronger.map_or(TransferKind::Whole, |_| TransferKind::Stronger);
        }
    }
}
