//! What the two machines have in common for those that drive them, and what does their work.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use deltic_protocol::receiver::{self, Receiver};
use deltic_protocol::report::{Counts, Notice, Side, Trouble};
use deltic_protocol::sender::{self, Sender};
use deltic_protocol::streams::Aside;
use deltic_protocol::work::UnknownAnswer;
use deltic_protocol::{PeerError, Purpose, Terms, ToReceiver, ToSender, WorkId};
use deltic_tree::RelPath;

use crate::executor::Cost;
use crate::monitor::Stage;
use crate::outlets::Lane;
use crate::streams::Role;

/// Literals received and not yet written beyond which no frame is taken. With the frames that are read ahead this is what
/// a kill can cost, which docs/promises.md bounds.
const MAX_BACKLOG_BYTES: usize = 2 << 20;
/// Copies found and not made beyond which no frame is taken.
const MAX_COPIES_WAITING: usize = 1 << 17;
/// Frames to be sent beyond which a receiver takes none in.
const MAX_FRAMES_WAITING: usize = 4096;

/// Makes a trouble ready for the other end.
pub(crate) type Tell<'a> = &'a (dyn Fn(&mut Trouble) + Sync);

/// What the two machines have in common.
pub(crate) trait Machine {
    /// Its end of the literals.
    const ROLE: Role;
    /// What it asks for.
    type Work: Send + 'static;
    /// What it gets for it.
    type Answer: Send + 'static;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError>;
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer>;
    /// Puts the next frame behind what `to` holds; what it is sent for, and what it may travel on where there are `several`
    /// streams.
    /// `tell` sees its troubles first.
    fn poll_frame(
        &mut self,
        several: bool,
        tell: Tell<'_>,
        to: &mut Vec<u8>,
    ) -> Option<(Lane, Purpose)>;
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)>;
    fn poll_notice(&mut self) -> Option<Notice>;
    /// How often sums were compared.
    fn counts(&self) -> Counts;
    fn is_finished(&self) -> bool;
    /// Whether it should be given no frame now.
    fn is_full(&self) -> bool;
    /// The greeting is over.
    fn greeted(&mut self, _: &Terms) {}
    /// The other end has said nothing for a while, from the beginning on.
    fn unanswered(&mut self) {}
}

/// Whoever does a machine's work, from any thread.
pub(crate) trait Worker<M: Machine>: Send + Sync + 'static {
    fn cost(&self, work: &M::Work) -> Cost;
    /// What its processor time counts as, but for the parts that say otherwise.
    fn stage(work: &M::Work) -> Stage;
    fn perform(&self, work: M::Work) -> M::Answer;

    /// Where `path` is on this machine, for whoever is told of trouble with it.
    fn full_path(&self, _path: &RelPath) -> Option<PathBuf> {
        None
    }

    /// What the ends agreed on, as far as they have.
    fn terms(&self) -> Option<Terms> {
        None
    }

    /// Says of a trouble at this end where it happened.
    fn locate(&self, trouble: &mut Trouble) {
        let side = match M::ROLE {
            Role::Sends => Side::Sender,
            Role::Receives => Side::Receiver,
        };
        trouble.locate(side, |path| Some(self.full_path(path)?.into_os_string().into_vec().into()));
    }

    /// The same for the other end, which may not hear of places.
    fn locate_there(&self, trouble: &mut Trouble) {
        self.locate(trouble);
        if !self.terms().is_some_and(Terms::troubles) {
            trouble.spot = None;
        }
    }

    /// Whether such a piece and the one behind it are cheaper if they are done together.
    fn may_join(_work: &M::Work, _next: &M::Work) -> bool {
        false
    }

    /// Does pieces that may be done together; the answers are in the same order.
    fn perform_together(&self, works: Vec<M::Work>) -> Vec<M::Answer> {
        works.into_iter().map(|work| self.perform(work)).collect()
    }
}

impl Machine for Sender {
    const ROLE: Role = Role::Sends;
    type Work = sender::Work;
    type Answer = sender::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        Self::handle(self, ToSender::decode(kind, payload)?)
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(
        &mut self,
        several: bool,
        tell: Tell<'_>,
        to: &mut Vec<u8>,
    ) -> Option<(Lane, Purpose)> {
        let (mut frame, attempt) = self.poll_for_streams()?;
        frame.troubles_mut().iter_mut().for_each(tell);
        let purpose = frame.purpose();
        let Some(attempt) = attempt.filter(|_| several) else {
            frame.encode_behind(to);
            return Some((Lane::First, purpose));
        };
        let aside = Aside { attempt, frame };
        match aside.encode() {
            Some(bytes) => {
                to.extend_from_slice(&bytes);
                Some((Lane::Any, purpose))
            }
            None => {
                aside.frame.encode_behind(to);
                Some((Lane::First, purpose))
            }
        }
    }
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)> {
        Self::poll_work(self)
    }
    fn poll_notice(&mut self) -> Option<Notice> {
        Self::poll_notice(self)
    }
    fn counts(&self) -> Counts {
        Self::counts(self)
    }
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        // A receiver counts on being heard.
        false
    }
    fn greeted(&mut self, terms: &Terms) {
        Self::greeted(self, terms.offers(), terms.limits());
    }
    fn unanswered(&mut self) {
        Self::unanswered(self);
    }
}

impl Machine for Receiver {
    const ROLE: Role = Role::Receives;
    type Work = receiver::Work;
    type Answer = receiver::Answer;

    fn handle(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerError> {
        match Aside::decode(kind, payload)? {
            Some(aside) => self.handle_aside(aside),
            None => Self::handle(self, ToReceiver::decode(kind, payload)?),
        }
    }
    fn answer(&mut self, id: WorkId, answer: Self::Answer) -> Result<(), UnknownAnswer> {
        Self::answer(self, id, answer)
    }
    fn poll_frame(&mut self, _: bool, tell: Tell<'_>, to: &mut Vec<u8>) -> Option<(Lane, Purpose)> {
        let mut frame = Self::poll_frame(self)?;
        frame.troubles_mut().iter_mut().for_each(tell);
        frame.encode_behind(to);
        Some((Lane::First, frame.purpose()))
    }
    fn poll_work(&mut self) -> Option<(WorkId, Self::Work)> {
        Self::poll_work(self)
    }
    fn poll_notice(&mut self) -> Option<Notice> {
        Self::poll_notice(self)
    }
    fn counts(&self) -> Counts {
        Self::counts(self)
    }
    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }
    fn is_full(&self) -> bool {
        self.backlog_bytes() > MAX_BACKLOG_BYTES
            || self.copies_waiting() > MAX_COPIES_WAITING
            || self.frames_waiting() > MAX_FRAMES_WAITING
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::Key;
    use deltic_protocol::report::TroubleKind;
    use deltic_protocol::{Hello, negotiate};

    /// A receiver below `/srv`.
    struct Below(Option<Terms>);

    impl Worker<Receiver> for Below {
        fn cost(&self, _: &receiver::Work) -> Cost {
            Cost::Light
        }
        fn stage(_: &receiver::Work) -> Stage {
            Stage::Other
        }
        fn perform(&self, work: receiver::Work) -> receiver::Answer {
            unreachable!("nothing asks for {work:?}")
        }
        fn full_path(&self, path: &RelPath) -> Option<PathBuf> {
            Some(format!("/srv/{path}").into())
        }
        fn terms(&self) -> Option<Terms> {
            self.0
        }
    }

    #[test]
    fn an_end_that_knows_no_places_is_told_the_full_path_alone() {
        let hello = Hello::ours(Key::from_bytes([1; 32]));
        let mut older = hello.clone();
        older.capabilities.remove("troubles:located");
        let terms = |theirs| negotiate(&hello, theirs).ok();
        for (terms, located) in [(None, false), (terms(&older), false), (terms(&hello), true)] {
            let path = RelPath::parse(b"a").unwrap();
            let words = |path: &str| format!("cannot read {path}");
            let mut trouble = Trouble::at(TroubleKind::Failed, &path, words);
            Below(terms).locate_there(&mut trouble);
            assert_eq!(
                (trouble.message.as_str(), trouble.spot.is_some()),
                ("cannot read /srv/a", located)
            );
        }
    }
}
