//! A file that is sent before anybody has asked for it: where the answer is long in coming, the question can be
//! guessed.
//!
//! A run of a single file is mostly about one that changed. Its recipe as far as groups tell it costs a fraction of a
//! thousandth of its length, so it is on its way while the list is. The receiver that comes to want it by recipe has
//! that round trip behind it; another lets it lie.

use deltic_core::strategy::Conversation;

use crate::limits::WHOLE_BELOW_BYTES;
use crate::message::{FileNo, How, ToReceiver};
use crate::options::{Append, Options};
use crate::report::Trouble;

use super::ask::{Bears, Work};
use super::context::Context;
use super::files::Files;
use super::listed_file::{Inquiry, ListedFile};
use super::pending::Pending;
use super::transfer::Beginning;

impl Files {
    /// Offers a file that the receiver has not answered about, if there is but one.
    pub(super) fn offer(&mut self, cx: &mut Context) {
        let mut entries = cx.entries.iter();
        let (Some((&file, listed)), None) = (entries.next(), entries.next()) else { return };
        let Offer::Possible { most } = self.offer else { return };
        if listed.len > most || !may_offer(&cx.options, listed) {
            return;
        }
        let (path, how, key, bears) = (listed.path.clone(), How::Recipe, None, Bears::default());
        let handle = self.start(cx, file, how, Beginning::Anew);
        self.offer = Offer::Sent(file);
        let work = Work::Open { handle, path, how, zstd: false, key, bears, base: None };
        cx.jobs.ask(work, Pending::Open(handle));
    }

    /// Drops an offer that is void by the terms of the session.
    pub(super) fn greeted(&mut self, cx: &mut Context, offers: bool) {
        let fits = match &self.offer {
            Offer::Sent(file) => self.has_fitting(*file, &cx.limits),
            Offer::Possible { .. } | Offer::Spoilt(..) | Offer::Over => true,
        };
        if offers && fits {
            return;
        }
        if let Offer::Sent(file) = std::mem::replace(&mut self.offer, Offer::Over) {
            self.drop_attempt(cx, file);
        }
    }

    /// Takes the first question for a file, `as_offered` if by recipe from its first byte. Returns whether the offer
    /// answers it.
    pub(super) fn take_offer(&mut self, cx: &mut Context, file: FileNo, as_offered: bool) -> bool {
        match std::mem::replace(&mut self.offer, Offer::Over) {
            Offer::Sent(sent) if sent == file && as_offered => {
                self.accept(file);
                true
            }
            Offer::Spoilt(spoilt, trouble) if spoilt == file && as_offered => {
                cx.send(ToReceiver::Failed { file, attempt: 1, trouble });
                true
            }
            _ => false,
        }
    }

    /// Drops the offer of a file that nobody will want any more.
    pub(super) fn withdraw(&mut self, cx: &mut Context, file: FileNo) {
        if self.offer.is_of(file) {
            self.drop_attempt(cx, file);
            self.offer = Offer::Over;
        }
    }

    /// Keeps the trouble that ended an offer until the file is wanted. Returns that of an attempt, which is sent now.
    pub(super) fn spoil_offer(&mut self, file: FileNo, trouble: Trouble) -> Option<Trouble> {
        if !self.offer.is_of(file) {
            return Some(trouble);
        }
        self.offer = Offer::Spoilt(file, trouble);
        None
    }
}

/// Checks that a file is most likely wanted by recipe, and is worth an offer.
fn may_offer(options: &Options, listed: &ListedFile) -> bool {
    let by_recipe = options.strategy.conversation == Conversation::Recipe
        && options.writing.append == Append::Never;
    // The sender does not know yet if the file's holes may be told.
    let may_have_holes = options.writing.sparse;
    let by_content = options.checksum || options.whole_file || options.select.list_only;
    let is_untouched = listed.attempts == 0 && listed.inquiry == Inquiry::Unasked;
    by_recipe && !may_have_holes && !by_content && is_untouched && listed.len > WHOLE_BELOW_BYTES
}

/// The state of the offer.
#[derive(Debug)]
pub(super) enum Offer {
    /// An offer may come, of a file of so many bytes at most.
    Possible {
        most: u64,
    },
    /// The file is being sent, and was not wanted.
    Sent(FileNo),
    /// The file could not be sent: so is an attempt at it, if it is wanted in that way.
    Spoilt(FileNo, Trouble),
    Over,
}

impl Default for Offer {
    fn default() -> Self {
        Self::Possible { most: u64::MAX }
    }
}

impl Offer {
    /// Returns true where an attempt at this file is under way that nobody has asked for.
    pub(super) fn is_of(&self, file: FileNo) -> bool {
        matches!(self, Self::Sent(sent) if *sent == file)
    }
}
