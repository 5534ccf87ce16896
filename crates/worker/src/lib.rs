//! Performs the work that the protocol's machines request: reads from a store, lets the engine compute, writes to a
//! store.
//!
//! Calls block while the store reads or writes. A worker has no thread, clock or source of random bytes: the caller
//! chooses the thread, and hands in functions for the rest (docs/decisions/0074).

mod alternates;
mod base_sums;
mod bases;
mod buffers;
pub mod destination;
pub mod dialling;
mod digests;
pub mod drops;
pub mod inline;
pub mod kept;
pub mod lock;
pub mod moved_sources;
mod moves;
pub mod old_sums;
pub mod owners;
pub mod packing;
pub mod receiving;
mod recipes;
pub mod rest;
pub mod source;
mod sparse;
pub mod stage;
mod steps;
pub mod sum_report;
mod summed;
mod trusted;
pub mod user;
mod weight;

use std::path::PathBuf;
use std::time::Duration;

use deltic_core::strategy::LinkModel;
use deltic_core::{ChunkerSpec, Digest, Fingerprinter, SumKey};
use deltic_engine::machine::Machine;
use deltic_protocol::Terms;
use deltic_protocol::hello::SummedBlocks;
use deltic_protocol::options::Options;
use deltic_protocol::report::{Change, Trouble, TroubleKind};
use deltic_protocol::work::{ErrorAction, WorkError};
use deltic_store::StoreError;
use deltic_tree::RelPath;

use buffers::Buffers;
use stage::Stage;

/// Returns the time since a fixed moment.
pub type Clock = fn() -> Duration;
/// Returns random bytes, or `None` if the system has none.
pub type RandomBytes = fn() -> Option<[u8; 32]>;

/// The main cost of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkCost {
    /// Processor time and a large buffer.
    Heavy,
    /// Moving bytes from file to file.
    Copy,
    /// A few system calls.
    Light,
    /// Waiting for a disk to flush.
    Flush,
    /// Waiting for a user's answer, which may never come.
    Ask,
}

/// Performs the work of a machine, on any thread.
pub trait Worker<M: Machine>: Send + Sync + 'static {
    /// Returns the kind of thread that `work` needs.
    fn cost(&self, work: &M::Work) -> WorkCost;
    /// Returns the number of bytes that `work` reads, carries or makes. Nearly all of these bytes are in memory while
    /// the work is under way.
    fn bytes(work: &M::Work) -> usize;
    /// Returns the stage to which the processor time of `work` is charged, except for parts that name another stage.
    fn stage(work: &M::Work) -> Stage;
    /// Performs `work`: reads, lets the engine compute, writes.
    fn perform(&self, work: M::Work) -> M::Answer;

    /// Returns the full path of `path` on this machine, for messages about troubles.
    fn full_path(&self, _path: &RelPath) -> Option<PathBuf> {
        None
    }

    /// Returns the terms, once both ends have agreed on them.
    fn terms(&self) -> Option<Terms> {
        None
    }

    /// Sets the present model of the link to the other end, for later choices of compression.
    fn set_link(&self, _link: LinkModel) {}

    /// Compresses a frame of literals with the history of the frames before, if both ends support that. Returns the
    /// compressed frame, or `None` if the frame is sent uncompressed. Frames are sent in the order of these calls.
    fn compress(&self, _frame: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Adds the location (this end, the full path) to a trouble of this end.
    fn locate(&self, trouble: &mut Trouble) {
        trouble.locate(M::SIDE, |path| {
            Some(self.full_path(path)?.as_os_str().as_encoded_bytes().into())
        });
    }

    /// Adds the location to a trouble that is sent to the other end, if the terms allow locations. Otherwise removes
    /// the location.
    fn locate_there(&self, trouble: &mut Trouble) {
        self.locate(trouble);
        if !self.terms().is_some_and(|terms| terms.reports.troubles) {
            trouble.spot = None;
        }
    }

    /// Adds to a change the facts about the file's content that this end knows.
    fn describe(&self, _change: &mut Change) {}

    /// Writes facts for later runs, at the end of the session.
    fn ended(&self) {}

    /// True if performing `work` and the following `next` together is cheaper.
    fn may_join(_work: &M::Work, _next: &M::Work) -> bool {
        false
    }

    /// Performs pieces of work that may be joined. Answers are in the order of the work.
    fn perform_together(&self, works: Vec<M::Work>) -> Vec<M::Answer> {
        works.into_iter().map(|work| self.perform(work)).collect()
    }
}

/// The agreed terms, and the keys derived from them.
pub(crate) struct Agreed {
    pub(crate) terms: Terms,
    /// Fingerprinter of the chunks of this session.
    pub(crate) names: Fingerprinter,
    /// Blocks that have fingerprints made of the sums that storage keeps.
    pub(crate) blocks: Option<SummedBlocks>,
    pub(crate) gap_seed: u64,
    /// The key of strong sums.
    pub(crate) key: SumKey,
}

impl Agreed {
    pub(crate) fn new(terms: Terms, options: &Options) -> Self {
        Self {
            terms,
            names: terms.fingerprinter(&options.strategy),
            blocks: terms.summed_blocks(options),
            gap_seed: terms.gap_seed(),
            key: terms.sum_key(),
        }
    }

    /// Returns the blocks that have fingerprints made of stored sums, if `spec` cuts these blocks.
    pub(crate) fn summed_blocks(&self, spec: &ChunkerSpec) -> Option<&SummedBlocks> {
        self.blocks.as_ref().filter(|blocks| blocks.chunker == *spec)
    }

    /// Converts digests of contents to the digests that both ends compare in this session.
    pub(crate) fn compared(&self, digests: Vec<Option<Digest>>) -> Vec<Option<Digest>> {
        let compared = |digest| self.terms.compared_digest(digest);
        digests.into_iter().map(|digest| digest.map(compared)).collect()
    }
}

/// Converts an error of a source's store into a trouble of the run.
pub fn trouble(error: &StoreError) -> Trouble {
    let kind = match error {
        StoreError::Changed { .. } | StoreError::InUse { .. } | StoreError::NotFound { .. } => {
            TroubleKind::Vanished
        }
        _ => TroubleKind::Failed,
    };
    trouble_with_text(kind, error, |path| match error {
        StoreError::NotFound { action: "list", .. } => {
            format!("directory has vanished: \"{path}\"")
        }
        StoreError::NotFound { .. } => format!("file has vanished: \"{path}\""),
        error => error.message_for(path),
    })
}

/// Returns a trouble for the path of `error`, with the text from `words`.
pub(crate) fn trouble_with_text(
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

/// Converts an error of a destination's store into a trouble. A missing file at the destination is not reported as
/// vanished.
pub(crate) fn to_failed_trouble(error: &StoreError) -> Trouble {
    trouble_with_text(TroubleKind::Failed, error, |path| error.message_for(path))
}

/// Returns a warning. The run continues, and no file fails.
pub(crate) fn warning(message: &str) -> Trouble {
    Trouble::new(TroubleKind::Warned, message)
}

/// Converts an error of a destination's store into an error of an attempt, with the next action.
pub(crate) fn work_error(error: &StoreError) -> WorkError {
    let then = match error {
        StoreError::Changed { .. } | StoreError::InUse { .. } | StoreError::Short { .. } => {
            ErrorAction::Retry
        }
        StoreError::AttributesNotSet { .. } => ErrorAction::GoOn,
        error if error.wants_room() => ErrorAction::WaitForRoom,
        _ => ErrorAction::GiveUp,
    };
    WorkError { trouble: to_failed_trouble(error), then }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_core::Key;
    use deltic_protocol::receiver::{self, Receiver};
    use deltic_protocol::report::TroubleKind;
    use deltic_protocol::{Hello, negotiate};

    /// A worker for a receiver below `/srv`.
    struct Below(Option<Terms>);

    impl Worker<Receiver> for Below {
        fn cost(&self, _: &receiver::ReceiverWork) -> WorkCost {
            WorkCost::Light
        }
        fn bytes(_: &receiver::ReceiverWork) -> usize {
            0
        }
        fn stage(_: &receiver::ReceiverWork) -> Stage {
            Stage::Other
        }
        fn perform(&self, work: receiver::ReceiverWork) -> receiver::ReceiverAnswer {
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
        let hello = Hello::of_this_version(Key::from_bytes([1; 32]));
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
