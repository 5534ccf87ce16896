//! A file that is told before anybody has asked for it: where the answer is long in coming, the question can be guessed.
//!
//! A run of a single file is mostly about one that changed. Its recipe as far as groups tell it costs a fraction of a
//! thousandth of its length, so it is on its way while the list is. The receiver that comes to want it by recipe has that
//! round trip behind it; another lets it lie.

use deltic_core::strategy::Conversation;

use crate::limits::WHOLE_BELOW_BYTES;
use crate::message::{FileNo, How, ToReceiver};
use crate::options::Append;
use crate::report::Trouble;

use super::file::Beginning;
use super::{Bears, Inquiry, Place, Sender, Work};

/// What has become of the one file that may be offered.
#[derive(Debug, Default)]
pub(super) enum Offering {
    /// Nothing yet.
    #[default]
    Possible,
    /// It is being told, and was not wanted.
    Told(FileNo),
    /// It could not be told: so is an attempt at it, if it is wanted in that way.
    Spoilt(FileNo, Trouble),
    Over,
}

impl Offering {
    /// Whether an attempt at this file is under way that nobody has asked for.
    pub(super) fn is_told(&self, file: FileNo) -> bool {
        matches!(self, Self::Told(told) if *told == file)
    }
}

impl Sender {
    /// The receiver has not answered yet, though it had some time: offers it the file, if there is but one.
    pub fn unanswered(&mut self) {
        let options = &self.options;
        let by_recipe = options.strategy.conversation == Conversation::Recipe
            && options.writing.append == Append::Never;
        let by_content = options.checksum || options.whole_file || options.select.list_only;
        let is_possible = matches!(self.offering, Offering::Possible) && self.lister.is_complete();
        let mut entries = self.entries.iter();
        let (Some((&file, listing)), None) = (entries.next(), entries.next()) else { return };
        let is_untouched = listing.attempts == 0 && listing.inquiry == Inquiry::Unasked;
        let is_worth_it = is_untouched && listing.len > WHOLE_BELOW_BYTES;
        if !is_possible || !by_recipe || by_content || !is_worth_it {
            return;
        }
        let (path, how) = (listing.path.clone(), How::Recipe);
        let handle = self.start_attempt(file, (how, Beginning::Anew), self.options.way());
        self.offering = Offering::Told(file);
        let bears = Bears::Nothing;
        let work = Work::Open { handle, path, how, zstd: false, key: None, bears };
        self.jobs.ask(work, Place::Open(handle));
    }

    /// The terms of the session are known by now: whether what was said before is good by them.
    pub fn greeted(&mut self, offers: bool) {
        if let (false, Offering::Told(file)) = (offers, &self.offering) {
            self.drop_attempt(*file);
        }
        if !offers {
            self.offering = Offering::Over;
        }
    }

    /// A file is wanted for the first time or again, `as_offered` if by recipe from its first byte: whether the offer is the
    /// answer.
    pub(super) fn take_offer(&mut self, file: FileNo, as_offered: bool) -> bool {
        match std::mem::replace(&mut self.offering, Offering::Over) {
            Offering::Told(told) if told == file && as_offered => true,
            Offering::Spoilt(spoilt, trouble) if spoilt == file && as_offered => {
                self.frames.push_back(ToReceiver::Failed { file, attempt: 1, trouble });
                true
            }
            _ => false,
        }
    }

    /// Nobody will want the file any more.
    pub(super) fn withdraw(&mut self, file: FileNo) {
        if self.offering.is_told(file) {
            self.drop_attempt(file);
            self.offering = Offering::Over;
        }
    }

    /// An attempt has ended with this: what is to be said of it now.
    pub(super) fn spoil_offer(&mut self, file: FileNo, trouble: Trouble) -> Option<Trouble> {
        if !self.offering.is_told(file) {
            return Some(trouble);
        }
        self.offering = Offering::Spoilt(file, trouble);
        None
    }
}
