//! The beginning of transfers, by a `Start` of the sender or by an offer.

use std::ops::Range;
use std::sync::Arc;

use deltic_core::DataMap;
use deltic_core::chunk::ChunkerSpec;
use deltic_core::strategy::Conversation;
use deltic_tree::{Kind, Meta};

use crate::error::PeerError;
use crate::limits::{LARGE_FILE_BYTES, Limits};
use crate::message::{BriefDigest, FileNo, Payload, ToReceiver, TransferKind};
use crate::receiver::context::Context;
use crate::receiver::transfer::indexing::ExpectedTransfer;
use crate::receiver::transfer::{IncomingTransfer, is_agreed, may_cut};
use crate::work::{ErrorAction, Handle, WorkError};

use super::WantedFiles;
use super::incoming::{AttemptStage, IncomingFile, UNFIT};

/// True if the metadata has only the fields that a sender sends with an opened file.
fn is_plain_file(meta: &Meta) -> bool {
    meta.user.is_none() && meta.group.is_none() && meta.more.is_none() && meta.is_file()
}

/// Returns the metadata of the opened version, with the fields that only the list has.
fn with_listed_fields(cx: &Context, listed: &Meta, opened: Meta) -> Meta {
    let Meta { user, group, more, .. } = listed.clone();
    let mode = cx.setting.options.metadata.chmod.apply_to(opened.mode, &opened.kind);
    Meta { mode, user, group, more, ..opened }
}

/// The sender's `Start` or `Offer` of a file.
#[derive(Debug)]
pub(crate) struct FileStart {
    /// Metadata of the file as opened.
    pub(crate) meta: Meta,
    pub(crate) how: TransferKind,
    pub(crate) spec: ChunkerSpec,
}

/// The content of a file that comes in a single frame.
pub(super) struct SingleBlock {
    pub(super) digest: BriefDigest,
    pub(super) payload: Payload,
}

/// Returns the request that a start answers. Errors: `Unexpected` if the start does not answer a request.
fn check_start<'a>(
    cx: &Context,
    incoming: &'a IncomingFile,
    start: &FileStart,
) -> Result<&'a ExpectedTransfer, PeerError> {
    let FileStart { meta, how, spec } = start;
    let (how, spec) = (*how, *spec);
    let limits = &cx.setting.limits;
    let in_blocks = matches!(how, TransferKind::Whole | TransferKind::Tail);
    let AttemptStage::Asked(expected) = &incoming.stage else {
        return Err(PeerError::Unexpected("a Start frame that does not fit the request"));
    };
    let by_changes = how == TransferKind::Changes && expected.base.is_some();
    let fits =
        by_changes || how == incoming.how && (!in_blocks || spec == limits.whole_file_chunker());
    if !fits || !is_plain_file(meta) {
        return Err(PeerError::Unexpected("a Start frame that does not fit the request"));
    }
    let agreed = match how {
        TransferKind::Recipe | TransferKind::Whole | TransferKind::Tail => {
            is_agreed(&spec) && limits.admits_chunker(&spec)
        }
        TransferKind::Strategy | TransferKind::Stronger => may_cut(&cx.strategy(), meta.len, spec),
        TransferKind::Changes => spec == Limits::changed_file_chunker(),
    };
    let asked = expected.spec.filter(|_| how != TransferKind::Changes);
    if !agreed || asked.is_some_and(|asked| asked != spec) {
        return Err(PeerError::Unexpected("a chunker that was not agreed"));
    }
    Ok(expected)
}

/// Returns the data map of a file, if the sender sent a map. Only a file sent by recipe, or whole in several
/// blocks, can have a map.
fn data_map_to_expect(
    cx: &Context,
    expected: &ExpectedTransfer,
    meta: &Meta,
    how: TransferKind,
) -> Result<Option<Arc<DataMap>>, PeerError> {
    let Some(runs) = &expected.data else { return Ok(None) };
    let may_have = match how {
        TransferKind::Recipe => true,
        TransferKind::Whole => meta.len > u64::from(cx.setting.limits.block_bytes()),
        TransferKind::Strategy
        | TransferKind::Stronger
        | TransferKind::Tail
        | TransferKind::Changes => false,
    };
    let map = DataMap::new(runs.clone(), meta.len).filter(|_| may_have);
    map.map(|map| Some(Arc::new(map))).ok_or(UNFIT)
}

impl WantedFiles {
    /// Begins the transfer of a requested file. A start of an attempt that has ended here is ignored.
    pub(super) fn receive_start(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        start: FileStart,
    ) -> Result<(), PeerError> {
        let Some(incoming) = self.under_way.get_mut(&file) else { return Ok(()) };
        let handle = incoming.handle;
        if matches!(incoming.stage, AttemptStage::Over { .. }) {
            return Ok(());
        }
        let expected = check_start(cx, incoming, &start)?;
        let FileStart { meta, how, spec } = start;
        let map = data_map_to_expect(cx, expected, &meta, how)?;
        let candidate = &incoming.candidate;
        if has_outgrown(incoming, meta.len) {
            self.fail_outgrown(cx, handle);
            return Ok(());
        }
        let listed = &candidate.meta;
        let has_changed = (meta.len, meta.modified) != (listed.len, listed.modified);
        let meta_len = meta.len;
        let meta = with_listed_fields(cx, listed, meta);
        let mut transfer = Box::new(match expected.base {
            Some(base) if how == TransferKind::Changes => {
                IncomingTransfer::from_base(meta, base, incoming.old.len_in_place().unwrap_or(0))
            }
            _ => IncomingTransfer::new(meta, how, spec, map.clone(), cx),
        });
        if how == TransferKind::Tail && !transfer.keep_start(candidate.tail_start()) {
            return Err(PeerError::Unexpected("a tail that begins behind the end of the file"));
        }
        // A file sent in a single piece is put in place without a handle: a base opened under a handle would stay
        // open.
        let is_single =
            how == TransferKind::Whole && meta_len <= u64::from(cx.setting.limits.block_bytes());
        let holds = expected.kept.is_some() || is_single && expected.base.is_some();
        let has_other_holes = expected.kept.as_ref().is_some_and(|kept| kept.map != map);
        if holds && has_changed || has_other_holes {
            let words = |path: &str| format!("cannot read {path}: it has changed");
            let trouble = cx.changed_at_sender_trouble(&candidate.path, words);
            self.fail_attempt(cx, handle, WorkError { trouble, then: ErrorAction::Retry });
            return Ok(());
        }
        let old = &incoming.old;
        if map.is_some() {
            // A file with a data map shares no parts with other files of the run (docs/decisions/0066).
            cx.sources.end_attempt(file, None);
        }
        if how == TransferKind::Recipe && !old.lens.is_empty() && (map.is_some() || old.has_holes) {
            transfer.hold_back_reads();
            self.request_data_order(
                cx,
                file,
                map.unwrap_or_else(|| Arc::new(DataMap::whole(meta_len))),
            );
        }
        self.run_transfer(cx, handle, transfer);
        Ok(())
    }

    /// Takes a file that comes in a single frame. Without `meta`, the file is as listed; that is not allowed if the
    /// options change modes, since the listed mode is not kept.
    pub(super) fn receive_single(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        meta: Option<Meta>,
        SingleBlock { digest, payload }: SingleBlock,
    ) -> Result<(), PeerError> {
        if meta.is_none() && !cx.setting.options.metadata.chmod.is_empty() {
            return Err(PeerError::Unexpected("a file without a mode"));
        }
        let Some(incoming) = self.under_way.get(&file) else { return Ok(()) };
        let Meta { len, modified, mode, .. } = incoming.candidate.meta;
        let meta = meta.unwrap_or_else(|| Meta::without_owner(Kind::File, len, modified, mode));
        let (how, spec) = (TransferKind::Whole, cx.setting.limits.whole_file_chunker());
        let is_empty = meta.len == 0;
        if is_empty && payload != Payload::Plain(Vec::new()) {
            return Err(PeerError::Unexpected("literals of an empty file"));
        }
        self.receive_start(cx, file, FileStart { meta, how, spec })?;
        if !is_empty {
            let chunks = std::iter::once(0..1).collect();
            self.handle(cx, ToReceiver::Fill { file, chunks, payload })?;
        }
        self.receive_end(cx, file, digest.padded())
    }

    /// Makes a transfer the running transfer of an attempt, and starts all steps that are possible by now.
    fn run_transfer(&mut self, cx: &mut Context, handle: Handle, transfer: Box<IncomingTransfer>) {
        let Some((file, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let stage = std::mem::replace(&mut incoming.stage, AttemptStage::Running(transfer));
        let expected = match stage {
            AttemptStage::Asked(expected) => expected,
            _ => Default::default(),
        };
        let Some((transfer, mut fx)) = incoming.transfer_and_context(cx, file) else { return };
        transfer.begin_matching(&mut fx, expected);
        let outcome = fx.take_outcome();
        self.apply_outcome(cx, handle, outcome);
    }

    /// Begins a transfer from content that was offered before the request.
    pub(super) fn begin_offered(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        mut transfer: Box<IncomingTransfer>,
    ) {
        let Some((_, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        if has_outgrown(incoming, transfer.meta().len) {
            return self.fail_outgrown(cx, handle);
        }
        let meta = with_listed_fields(cx, &incoming.candidate.meta, transfer.meta().clone());
        transfer.set_meta(meta);
        cx.load.begin(transfer.load_share());
        self.run_transfer(cx, handle, transfer);
    }

    /// Fails an attempt at a file that has grown too long for a small file.
    pub(super) fn fail_outgrown(&mut self, cx: &mut Context, handle: Handle) {
        let Some((_, incoming)) = self.under_way.by_handle_mut(handle) else { return };
        let words =
            |path: &str| format!("cannot read {path}: the file grew too much since it was listed");
        let trouble = cx.changed_at_sender_trouble(&incoming.candidate.path, words);
        self.fail_attempt(cx, handle, WorkError { trouble, then: ErrorAction::GiveUp });
    }

    /// Takes the offer of a file. Entries below `listed.end` are listed, and entries below `listed.start` are
    /// settled.
    pub(crate) fn receive_offer(
        &mut self,
        cx: &mut Context,
        file: FileNo,
        offer: FileStart,
        listed: Range<u64>,
    ) -> Result<(), PeerError> {
        let FileStart { meta, how, spec } = &offer;
        let (how, spec) = (*how, *spec);
        let strategy = cx.setting.options.strategy;
        let fits = is_plain_file(meta) && file.0 < listed.end && is_agreed(&spec);
        if self.offer.is_some() || strategy.conversation != Conversation::Recipe || !fits {
            return Err(PeerError::Unexpected("an Offer frame in this state"));
        }
        // An offer that was cut before the sender knew the limits is sent again.
        let takes_offers = cx.setting.takes_offers && cx.setting.limits.admits_chunker(&spec);
        let incoming = self.under_way.get(&file);
        let is_late = incoming.is_none() && file.0 < listed.start;
        let asked = incoming.filter(|incoming| incoming.is_requested());
        let is_answer = asked.is_some_and(IncomingFile::waits_for_first_start);
        let transfer = (takes_offers && !is_late && asked.is_none())
            .then(|| Box::new(IncomingTransfer::new(meta.clone(), how, spec, None, cx)));
        self.offer = Some(FileOffer { file, transfer });
        if is_answer && takes_offers {
            // The sender had not received the request, and takes the offer for the answer.
            self.receive_start(cx, file, offer)?;
        }
        Ok(())
    }
}

/// True if a file listed as small is `len` bytes long when opened. Such a file counts as a small file of many under
/// way, but would take the memory of a large file.
fn has_outgrown(incoming: &IncomingFile, len: u64) -> bool {
    len > LARGE_FILE_BYTES && !incoming.candidate.is_large()
}

/// The single offered file of a session.
#[derive(Debug)]
pub(super) struct FileOffer {
    pub(super) file: FileNo,
    /// The transfer from the offer, until the transfer is used or dropped.
    pub(super) transfer: Option<Box<IncomingTransfer>>,
}
