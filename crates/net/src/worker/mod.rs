//! The work of the machines: reads from a store, has the engine compute, writes to a store. Calls block, on threads of
//! the executor.

pub(crate) mod alternates;
mod base_sums;
mod bases;
mod buffers;
pub(crate) mod destination;
mod digests;
pub(crate) mod kept;
mod moves;
pub(crate) mod owners;
mod packing;
mod recipes;
pub(crate) mod rest;
pub(crate) mod source;
mod sparse;
mod steps;
mod trusted;
mod weight;

use std::path::PathBuf;

use deltic_core::strategy::LinkModel;
use deltic_core::{Fingerprinter, Strategy, SumKey};
use deltic_engine::machine::Machine;
use deltic_protocol::Terms;
use deltic_protocol::report::{Change, Trouble, TroubleKind};
use deltic_protocol::work::{Setback, Then};
use deltic_store::StoreError;
use deltic_tree::RelPath;

use crate::executor::Cost;
use crate::monitor::Stage;

use buffers::Buffers;

/// Does a machine's work, from any thread.
pub(crate) trait Worker<M: Machine>: Send + Sync + 'static {
    /// The kind of thread that it needs.
    fn cost(&self, work: &M::Work) -> Cost;
    /// The bytes that it reads, brings or makes, nearly all of which it holds while it is under way.
    fn bytes(work: &M::Work) -> usize;
    /// The stage that its processor time counts as, but for the parts that say otherwise.
    fn stage(work: &M::Work) -> Stage;
    /// Does it: reads, has the engine compute, writes.
    fn perform(&self, work: M::Work) -> M::Answer;

    /// The place of `path` on this machine, for those who read of trouble with it.
    fn full_path(&self, _path: &RelPath) -> Option<PathBuf> {
        None
    }

    /// The terms that the ends agreed on, as far as they have.
    fn terms(&self) -> Option<Terms> {
        None
    }

    /// Takes the link to the other end as it is now; choices from now on go by this link.
    fn set_link(&self, _link: LinkModel) {}

    /// Says of a trouble at this end where it happened.
    fn locate(&self, trouble: &mut Trouble) {
        trouble.locate(M::SIDE, |path| {
            Some(self.full_path(path)?.as_os_str().as_encoded_bytes().into())
        });
    }

    /// The same for the other end, which may not hear of places.
    fn locate_there(&self, trouble: &mut Trouble) {
        self.locate(trouble);
        if !self.terms().is_some_and(|terms| terms.reports.troubles) {
            trouble.spot = None;
        }
    }

    /// Says of a change what this end knows of the file's content.
    fn describe(&self, _change: &mut Change) {}

    /// Writes what is kept for later runs: the session has ended.
    fn ended(&self) {}

    /// True if such a piece and the one behind it are cheaper if they are done together.
    fn may_join(_work: &M::Work, _next: &M::Work) -> bool {
        false
    }

    /// Does pieces that may be done together; the answers are in the same order.
    fn perform_together(&self, works: Vec<M::Work>) -> Vec<M::Answer> {
        works.into_iter().map(|work| self.perform(work)).collect()
    }
}

/// The terms, and the keys that they give.
pub(super) struct Agreed {
    pub(super) terms: Terms,
    /// Names chunks in this session.
    pub(super) names: Fingerprinter,
    pub(super) gap_seed: u64,
    /// The key of strong sums.
    pub(super) key: SumKey,
}

impl Agreed {
    pub(super) fn new(terms: Terms, strategy: &Strategy) -> Self {
        Self {
            terms,
            names: terms.fingerprinter(strategy),
            gap_seed: terms.gap_seed(),
            key: terms.sum_key(),
        }
    }
}

/// The trouble that a store error is for a run.
pub(crate) fn trouble(error: &StoreError) -> Trouble {
    let kind = match error {
        StoreError::Changed { .. } | StoreError::InUse { .. } | StoreError::NotFound { .. } => {
            TroubleKind::Vanished
        }
        _ => TroubleKind::Failed,
    };
    told(kind, error, |path| match error {
        StoreError::NotFound { action: "list", .. } => {
            format!("directory has vanished: \"{path}\"")
        }
        StoreError::NotFound { .. } => format!("file has vanished: \"{path}\""),
        error => error.words(path),
    })
}

/// A trouble with the name that `error` is about, in these `words` of its path.
pub(super) fn told(
    kind: TroubleKind,
    error: &StoreError,
    words: impl FnOnce(&str) -> String,
) -> Trouble {
    let trouble = match (error.path(), error) {
        (Some(path), _) => Trouble::at(kind, path, words),
        (None, StoreError::Argument { argument, .. }) => {
            let full_path = argument.as_os_str().as_encoded_bytes().into();
            Trouble::new(kind, error.to_string()).with_full_path(full_path)
        }
        (None, _) => return Trouble::new(kind, error.to_string()),
    };
    trouble.with_errno(error.errno().and_then(|errno| errno.try_into().ok()))
}

/// The same at the destination, where nothing that is missing has vanished.
pub(super) fn failed(error: &StoreError) -> Trouble {
    told(TroubleKind::Failed, error, |path| error.words(path))
}

/// A warning, which keeps nothing from going on.
pub(super) fn warned(message: &str) -> Trouble {
    Trouble::new(TroubleKind::Warned, message)
}

/// The setback that a store error at the destination is for an attempt.
pub(super) fn setback(error: &StoreError) -> Setback {
    let then = match error {
        StoreError::Changed { .. } | StoreError::InUse { .. } | StoreError::Short { .. } => {
            Then::Retry
        }
        StoreError::Unset { .. } => Then::GoOn,
        error if error.wants_room() => Then::WaitForRoom,
        _ => Then::GiveUp,
    };
    Setback { trouble: failed(error), then }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::Key;
    use deltic_protocol::receiver::{self, Receiver};
    use deltic_protocol::report::TroubleKind;
    use deltic_protocol::{Hello, negotiate};

    /// A receiver below `/srv`.
    struct Below(Option<Terms>);

    impl Worker<Receiver> for Below {
        fn cost(&self, _: &receiver::Work) -> Cost {
            Cost::Light
        }
        fn bytes(_: &receiver::Work) -> usize {
            0
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
