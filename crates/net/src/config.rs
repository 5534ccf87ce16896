//! How an end goes about a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::strategy::LinkModel as Figures;
use deltic_protocol::limits::LARGE_FILE_BYTES;
use deltic_store::FactStore;
use deltic_store_local::UnderWay;
use deltic_store_local::cache::{LONGEST_UNKEPT_BYTES, LocalFacts};

use crate::batch::{Batch, Tap};
use crate::executor::{Budget, Executor};
use crate::host::AnyHost;
use crate::host::user::User;
use crate::monitor::Monitor;
use crate::moved_sources::MovedSources;
use crate::old_sums::OldSums;
use crate::plan;
use crate::reasons::Reasons;
use crate::transport::{Counters, Shell};

// Both are the length of a file from which notes of earlier sessions are worth their place on disk.
const _: () = assert!(LONGEST_UNKEPT_BYTES == LARGE_FILE_BYTES);

/// Facts about files that earlier sessions kept; by default none. Clones share the same facts.
#[derive(Clone, Debug)]
pub struct Facts(Arc<dyn FactStore>);

impl Facts {
    /// Facts that are kept in `store`.
    #[must_use]
    pub fn new(store: impl FactStore) -> Self {
        Self(Arc::new(store))
    }

    /// The facts as workers take them.
    pub(crate) fn store(&self) -> Arc<dyn FactStore> {
        Arc::clone(&self.0)
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self::new(LocalFacts::default())
    }
}

impl From<PathBuf> for Facts {
    /// Facts in a directory of the user's own.
    fn from(dir: PathBuf) -> Self {
        Self::new(LocalFacts::in_dir(dir))
    }
}

/// Configuration of an end, whatever it is asked to do.
#[derive(Clone, Default)]
pub(crate) struct SessionConfig {
    pub(crate) counters: Arc<Counters>,
    /// Most bytes a second to put on the wire or take from it.
    pub(crate) bwlimit: Option<u64>,
    /// The link between the ends, where somebody knows it.
    pub(crate) between: Option<Figures>,
    pub(crate) monitor: Monitor,
    pub(crate) further: Further,
    /// Facts that earlier sessions kept.
    pub(crate) facts: Facts,
    /// Sums old versions as the other end, which is in this process too, sums what it has.
    pub(crate) old_sums: Option<Arc<dyn OldSums>>,
    pub(crate) user: User,
    /// Told which files are changing where they are.
    pub(crate) under_way: UnderWay,
    /// Ends with a run that failed.
    pub(crate) shell: Shell,
    /// The destination, where it lies in what is sent.
    pub(crate) inside: Option<PathBuf>,
    /// The destination, where both ends are here.
    pub(crate) beside: Option<PathBuf>,
    /// Keeps what is told of the list.
    pub(crate) tap: Option<Arc<Tap>>,
    /// Takes reasons for which files are read.
    pub(crate) reasons: Option<Reasons>,
    /// Keeps the sources that the run removed.
    pub(crate) moved: Option<MovedSources>,
    /// A batch that stands for the sources.
    pub(crate) batch: Option<Batch>,
    /// The threads that do the work, and the share of them.
    pub(crate) executor: Executor,
    pub(crate) budget: Budget,
    /// Says what names mean here, and what may be asked for.
    pub(crate) host: AnyHost,
}

impl SessionConfig {
    /// The link to the other end as far as this one knows it: what it is told, and never more than it may use.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let limit = self.bwlimit.map(|bytes| bytes.saturating_mul(8).max(1));
        let Some(between) = self.between else {
            let only = |bits_per_second| Figures { bits_per_second, round_trip: Duration::ZERO };
            return limit.map(only);
        };
        let bits_per_second = between.bits_per_second.min(limit.unwrap_or(u64::MAX));
        Some(Figures { bits_per_second, ..between })
    }
}

/// Ways to get more streams than one.
#[derive(Clone, Debug, Default)]
pub(crate) enum Further {
    /// None: nothing is between the ends.
    #[default]
    Never,
    /// By starting more remote shells.
    Dial { remote: plan::Remote, host: String },
    /// By a socket in one of these directories, the best first.
    Answer { dirs: Vec<PathBuf> },
}
