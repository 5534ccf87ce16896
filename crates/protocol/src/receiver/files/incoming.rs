//! A file under way: its attempts, and the stage of the present one.

use deltic_core::strategy::Conversation;
use deltic_core::{ChunkerSpec, Strategy};
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::{LARGE_FILE_BYTES, MAX_SUMS};
use crate::message::{FileNo, How};
use crate::options::Fuzzy;
use crate::receiver::ask::{Elsewhere, Kinship, Similar};
use crate::receiver::context::Context;
use crate::receiver::transfer::Transfer;
use crate::receiver::transfer::file_context::FileContext;
use crate::receiver::transfer::indexing::Expected;
use crate::receiver::transfer::old::OldVersions;
use crate::report::Differs;
use crate::work::{Handle, Setback};

use super::candidate::Candidate;

/// A file under way.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) candidate: Candidate,
    pub(super) handle: Handle,
    pub(super) how: How,
    pub(super) tries: Tries,
    /// The old versions that are open.
    pub(super) old: OldVersions,
    /// Another file that it is matched against.
    pub(super) similar: Option<Similar>,
    pub(super) stage: Stage,
    /// Bytes reported as settled, by any attempt.
    reported: u64,
}

/// The attempts at a file so far.
#[derive(Debug)]
pub(super) struct Tries {
    pub(super) count: u32,
    /// True once it was put off because there was no room for it: once.
    pub(super) found_no_room: bool,
    /// True once it was looked for what an interrupted transfer left: once, for what failed is not gone on with.
    pub(super) sought: bool,
    /// Number of times that the sender was asked for it.
    pub(super) wants: u32,
}

/// The stage of an attempt.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its old versions are being opened.
    Opening,
    /// The sender was asked for it.
    Asked(Expected),
    /// Its content comes.
    Running(Box<Transfer>),
    /// The attempt is over, and its work is being undone.
    Over {
        /// True where the sender was asked for it.
        was_asked: bool,
        why: Option<Setback>,
    },
}

/// Refuses runs of data that cannot be runs of the file.
pub(super) const UNFIT: PeerError = PeerError::Unexpected("holes");

/// Length in bytes up to which what a killed run left may be of use. A longer one was of another file, or is an empty
/// claim of a hostile sender, and would take its time to read.
pub(super) fn most_leftover(candidate: &Candidate) -> u64 {
    candidate.weight().saturating_mul(2).saturating_add(LARGE_FILE_BYTES)
}

/// True where the sums of so many bytes of old may be told, if they are to be.
pub(super) fn can_tell(strategy: &Strategy, bytes: u64) -> bool {
    let block = u64::from(strategy.chunker(bytes, None).min_len());
    strategy.conversation != Conversation::Signature || bytes.div_ceil(block) <= MAX_SUMS as u64
}

impl Incoming {
    /// A file before its first attempt.
    pub(super) fn new(candidate: Candidate, handle: Handle, how: How) -> Self {
        let tries = Tries { count: 1, found_no_room: false, sought: false, wants: 0 };
        let (old, stage) = (OldVersions::default(), Stage::Opening);
        Self { candidate, handle, how, tries, old, similar: None, stage, reported: 0 }
    }

    /// Bytes reported as settled, by any attempt.
    pub(super) const fn reported(&self) -> u64 {
        self.reported
    }

    /// Counts one more attempt, with no old version yet.
    pub(super) fn try_again(&mut self) {
        self.old.lens.clear();
        self.tries.count += 1;
    }

    /// True where the sender was asked for it in the present attempt.
    pub(super) const fn is_asked(&self) -> bool {
        match self.stage {
            Stage::Opening => false,
            Stage::Asked(_) | Stage::Running(_) => true,
            Stage::Over { was_asked, .. } => was_asked,
        }
    }

    /// The transfer, while content comes.
    pub(super) const fn transfer(&self) -> Option<&Transfer> {
        match &self.stage {
            Stage::Running(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// The transfer, and all that its steps may touch.
    pub(super) fn running<'a>(
        &'a mut self,
        cx: &'a mut Context,
        file: FileNo,
    ) -> Option<(&'a mut Transfer, FileContext<'a>)> {
        let Stage::Running(transfer) = &mut self.stage else { return None };
        let Candidate { path, seen, meta, .. } = &self.candidate;
        let place = (file, self.handle, path, seen.as_ref());
        let fx = FileContext::new(cx, place, &self.old, (&mut self.reported, meta.len));
        Some((transfer, fx))
    }

    /// The same before `Start`.
    pub(super) fn expected<'a>(
        &'a mut self,
        cx: &'a mut Context,
        file: FileNo,
    ) -> Option<(&'a mut Expected, FileContext<'a>)> {
        let Stage::Asked(expected) = &mut self.stage else { return None };
        let Candidate { path, seen, meta, .. } = &self.candidate;
        let place = (file, self.handle, path, seen.as_ref());
        let fx = FileContext::new(cx, place, &self.old, (&mut self.reported, meta.len));
        Some((expected, fx))
    }

    /// Orders an attempt before the present one, at it, or behind it.
    pub(super) fn is_at(&self, attempt: u32) -> std::cmp::Ordering {
        attempt.cmp(&self.tries.wants)
    }

    /// True where it was asked for once, by recipe and from its first byte, and nothing has come of it.
    pub(super) fn waits_for_first_start(&self) -> bool {
        let is_special = |expected: &Expected| expected.spec.is_some() || expected.base.is_some();
        let is_special = matches!(&self.stage, Stage::Asked(expected) if is_special(expected));
        let has_begun = matches!(self.stage, Stage::Running(_));
        let is_first = self.tries.wants == 1 && self.is_asked() && !has_begun;
        is_first && self.how == How::Recipe && !is_special
    }

    /// True where it is on its way in order.
    pub(super) fn comes_in_order(&self) -> bool {
        self.transfer().is_some_and(Transfer::comes_in_order)
    }

    /// True where it is matched against another file's place: then it never waits for its own, or two could wait for
    /// each other.
    pub(super) fn is_guest(&self) -> bool {
        self.similar.as_ref().is_some_and(|similar| similar.kinship.is_some())
    }

    /// The version whose interrupted transfer may go on. A file that would come whole in any case is asked about only
    /// if it is large; one whose content alone may differ is compared.
    pub(super) fn may_go_on(&self) -> Option<Meta> {
        let Candidate { meta, old, differs, compared, beside, .. } = &self.candidate;
        let may_be_same = (old.is_some() || beside.is_some()) && *differs == Differs::default();
        let is_comparison = may_be_same && !compared;
        let worthwhile = self.how == How::Recipe || meta.len > LARGE_FILE_BYTES;
        (!self.tries.sought && worthwhile && !is_comparison).then(|| meta.clone())
    }

    /// True where it is worth asking which base the old version is: of files longer than `least` bytes. What was
    /// matched and is doubted has none.
    pub(super) fn may_hold_base(&self, least: u64) -> bool {
        let Candidate { meta, old, differs, compared, .. } = &self.candidate;
        let is_comparison = *differs == Differs::default() && !compared;
        let worthwhile = match self.how {
            How::Recipe => true,
            // Nothing else needs the old version.
            How::Whole => meta.len > least && !self.tries.sought,
            How::Strategy | How::Stronger | How::Tail | How::Changes => false,
        };
        old.is_some() && worthwhile && !is_comparison
    }

    /// The chunker that the sender will most likely use.
    pub(super) fn expected_spec(&self, strategy: &Strategy) -> ChunkerSpec {
        strategy.chunker(self.candidate.meta.len, None)
    }

    /// Other places where an old version may be, unless one is in place or nothing is to be matched against.
    pub(super) fn elsewhere(&self, fuzzy: Fuzzy, most: Option<Kinship>) -> Elsewhere {
        let Candidate { meta, old, beside, may_have_moved, repeats, .. } = &self.candidate;
        if old.is_some() || self.how == How::Whole {
            return Elsewhere::default();
        }
        let alternate = beside.as_ref().map(|beside| beside.alternate);
        let moved = most.filter(|_| *may_have_moved);
        let (repeated, new) = (repeats.clone(), (meta.len, meta.modified));
        Elsewhere { repeated, alternate, fuzzy, moved, new }
    }
}
