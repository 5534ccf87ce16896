//! An offer: the sender expects a request for a file, and sends the recipe of the file before the request arrives.
//!
//! A run of a single file is mostly about a file that changed. The groups of its recipe take a fraction of a
//! thousandth of its length, so the groups are sent together with the list. A receiver that wants the file by recipe
//! saves a round trip; any other receiver ignores the offer.

use deltic_core::strategy::Conversation;

use crate::limits::WHOLE_BELOW_BYTES;
use crate::message::{FileNo, ToReceiver, TransferKind};
use crate::options::{Append, Options};
use crate::report::Trouble;

use super::ask::{SenderWork, ToleratedChanges};
use super::context::Context;
use super::files::FileTransfers;
use super::listed_file::{DigestInquiry, ListedFile};
use super::pending::SenderPending;
use super::transfer::AttemptStart;

impl FileTransfers {
    /// Offers the only listed file, if there is exactly one and the receiver has not answered.
    pub(super) fn offer(&mut self, cx: &mut Context) {
        let mut entries = cx.entries.iter();
        let (Some((&file, listed)), None) = (entries.next(), entries.next()) else { return };
        let OfferState::Possible { most } = self.offer else { return };
        if listed.len > most || !may_offer(&cx.options, listed) {
            return;
        }
        let (path, how, key, bears) =
            (listed.path.clone(), TransferKind::Recipe, None, ToleratedChanges::default());
        let handle = self.register_attempt(cx, file, how, AttemptStart::Anew);
        self.offer = OfferState::Sent(file);
        let work = SenderWork::Open { handle, path, how, key, bears, base: None };
        cx.jobs.request(work, SenderPending::Open(handle));
    }

    /// Drops an offer that the terms of the session make invalid.
    pub(super) fn check_offer(&mut self, cx: &mut Context, offers: bool) {
        let fits = match &self.offer {
            OfferState::Sent(file) => self.fits_frames(*file, &cx.limits),
            OfferState::Possible { .. } | OfferState::Spoilt(..) | OfferState::Over => true,
        };
        if offers && fits {
            return;
        }
        if let OfferState::Sent(file) = std::mem::replace(&mut self.offer, OfferState::Over) {
            self.drop_attempt(cx, file);
        }
    }

    /// Takes the first request for a file. `as_offered` is true if the request is by recipe from the first byte.
    /// Returns true if the offer already answers the request.
    pub(super) fn take_offer(&mut self, cx: &mut Context, file: FileNo, as_offered: bool) -> bool {
        match std::mem::replace(&mut self.offer, OfferState::Over) {
            OfferState::Sent(sent) if sent == file && as_offered => {
                self.accept_offer(cx, file);
                true
            }
            OfferState::Spoilt(spoilt, trouble) if spoilt == file && as_offered => {
                cx.send(ToReceiver::Failed { file, attempt: 1, trouble });
                true
            }
            _ => false,
        }
    }

    /// Drops the offer of a file that the receiver will not want.
    pub(super) fn withdraw(&mut self, cx: &mut Context, file: FileNo) {
        if self.offer.has_sent(file) {
            self.drop_attempt(cx, file);
            self.offer = OfferState::Over;
        }
    }

    /// Takes the trouble of a failed attempt. If the attempt was the offer, keeps the trouble until the receiver
    /// requests the file. Otherwise returns the trouble, to be sent now.
    pub(super) fn cancel_offer(&mut self, file: FileNo, trouble: Trouble) -> Option<Trouble> {
        if !self.offer.has_sent(file) {
            return Some(trouble);
        }
        self.offer = OfferState::Spoilt(file, trouble);
        None
    }
}

/// True if the receiver will probably request the file by recipe, so that an offer saves a round trip.
fn may_offer(options: &Options, listed: &ListedFile) -> bool {
    let by_recipe = options.strategy.conversation == Conversation::Recipe
        && options.writing.append == Append::Never;
    // The sender does not know yet whether the file's holes may be sent as positions.
    let may_have_holes = options.writing.sparse;
    let by_content = options.checksum || options.whole_file || options.select.list_only;
    let is_untouched = listed.attempts == 0 && listed.inquiry == DigestInquiry::Unasked;
    by_recipe && !may_have_holes && !by_content && is_untouched && listed.len > WHOLE_BELOW_BYTES
}

/// State of the offer.
#[derive(Debug)]
pub(super) enum OfferState {
    /// A file of at most `most` bytes may be offered.
    Possible {
        most: u64,
    },
    /// The file is being sent. The receiver has not requested the file yet.
    Sent(FileNo),
    /// The file could not be sent. A request by recipe will fail with this trouble.
    Spoilt(FileNo, Trouble),
    Over,
}

impl Default for OfferState {
    fn default() -> Self {
        Self::Possible { most: u64::MAX }
    }
}

impl OfferState {
    /// True if an unrequested attempt at this file is under way.
    pub(super) fn has_sent(&self, file: FileNo) -> bool {
        matches!(self, Self::Sent(sent) if *sent == file)
    }
}
