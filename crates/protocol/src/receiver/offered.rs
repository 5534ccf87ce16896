//! What the sender tells of a file before it was asked: it lies here until it is decided how the file is wanted.

use deltic_core::chunk::ChunkerSpec;
use deltic_core::strategy::Conversation;
use deltic_tree::Meta;

use crate::error::PeerError;
use crate::limits::OFFERED_GROUPS;
use crate::message::{FileNo, How};

use super::Receiver;
use super::attempt::{Attempt, is_agreed};

/// The one file that was offered in this session.
#[derive(Debug)]
pub(super) struct Offer {
    file: FileNo,
    /// What it comes to, until that is taken or of no use any more.
    attempt: Option<Box<Attempt>>,
}

impl Receiver {
    pub(super) fn offered(
        &mut self,
        file: FileNo,
        meta: Meta,
        spec: ChunkerSpec,
    ) -> Result<(), PeerError> {
        let strategy = self.cx.setting.options.way();
        let is_plain = meta.user.is_none() && meta.group.is_none() && meta.more.is_none();
        let fits = is_plain && meta.is_file() && file.0 < self.list.told() && is_agreed(&spec);
        if self.offer.is_some() || strategy.conversation != Conversation::Recipe || !fits {
            return Err(PeerError::Unexpected("offer"));
        }
        let incoming = self.files.get(&file);
        let is_late = incoming.is_none() && file.0 < self.list.settled();
        let asked = incoming.filter(|incoming| incoming.asked);
        let is_answer = asked.is_some_and(|incoming| incoming.waits_for_first_start());
        let is_of_use = self.cx.setting.takes_offers && !is_late && asked.is_none();
        let kept = (meta.clone(), (How::Recipe, spec));
        let attempt = is_of_use.then(|| Box::new(Attempt::new(kept.0, kept.1, strategy)));
        self.offer = Some(Offer { file, attempt });
        if is_answer && self.cx.setting.takes_offers {
            // The sender had not heard the question, and takes this for the answer.
            self.start(file, meta, (How::Recipe, spec))?;
        }
        Ok(())
    }

    /// The attempt at a file that is offered, and neither taken nor of no use.
    pub(super) fn offer_of(&mut self, file: FileNo) -> Option<&mut Attempt> {
        let offer = self.offer.as_mut().filter(|offer| offer.file == file)?;
        offer.attempt.as_deref_mut()
    }

    /// Takes what is offered of a file; nothing more will be.
    pub(super) fn take_offer(&mut self, file: FileNo) -> Option<Box<Attempt>> {
        self.offer.as_mut().filter(|offer| offer.file == file)?.attempt.take()
    }
}

impl Attempt {
    /// Refuses more than may be told unasked.
    pub(super) fn check_offer(&self) -> Result<(), PeerError> {
        let fits = self.groups_held() <= OFFERED_GROUPS;
        if fits { Ok(()) } else { Err(PeerError::Limit("groups of an offer")) }
    }
}
