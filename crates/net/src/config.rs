//! The configuration of an end for a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deltic_core::Strategy;
use deltic_core::strategy::LinkModel as Figures;
use deltic_protocol::limits::LARGE_FILE_BYTES;
use deltic_store::FactStore;
use deltic_store_local::UnderWay;
use deltic_store_local::cache::{LONGEST_UNKEPT_BYTES, LocalFacts};

use crate::batch::{Batch, Tap};
use crate::executor::{Budget, Executor};
use crate::host::AnyHost;
use crate::monitor::Monitor;
use crate::plan;
use crate::rates::RateLimits;
use crate::transport::{Counters, Shell};
use deltic_worker::moved_sources::MovedSources;
use deltic_worker::old_sums::OldSums;
use deltic_worker::packing::PackingReport;
use deltic_worker::sum_report::SumReport;
use deltic_worker::user::User;

// Both constants are the length from which notes about a file are worth their disk space.
const _: () = assert!(LONGEST_UNKEPT_BYTES == LARGE_FILE_BYTES);

/// Facts about files that earlier sessions kept. By default there are none. Clones share the same facts.
#[derive(Clone, Debug)]
pub struct Facts(Arc<dyn FactStore>);

impl Facts {
    /// Returns facts that are kept in `store`.
    #[must_use]
    pub fn new(store: impl FactStore) -> Self {
        Self(Arc::new(store))
    }

    /// Returns the facts in the form that workers use.
    pub(crate) fn shared_store(&self) -> Arc<dyn FactStore> {
        Arc::clone(&self.0)
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self::new(LocalFacts::default())
    }
}

impl From<PathBuf> for Facts {
    /// Returns the facts that are stored in the directory `dir`.
    fn from(dir: PathBuf) -> Self {
        Self::new(LocalFacts::in_dir(dir))
    }
}

/// Configuration of an end, for any request.
#[derive(Clone, Default)]
pub(crate) struct SessionConfig {
    pub(crate) counters: Arc<Counters>,
    /// Limits of the rate.
    pub(crate) limits: RateLimits,
    /// The link between the ends, if known.
    pub(crate) between: Option<Figures>,
    /// Rate of the link in an earlier run, in bits a second: noted by this end, or told by a receiver.
    pub(crate) learned: Option<u64>,
    /// Strategy that replaces the requested strategy of the same name, in a rehearsal. `None` takes the request.
    pub(crate) strategy: Option<Strategy>,
    /// True if the other end is in this process, behind a byte stream.
    pub(crate) is_near: bool,
    /// Counts the literals of this end by their compression.
    pub(crate) packing: PackingReport,
    /// Counts the sums of this end by their source.
    pub(crate) sums: SumReport,
    pub(crate) monitor: Monitor,
    pub(crate) further: Further,
    /// Facts that earlier sessions kept.
    pub(crate) facts: Facts,
    /// Supplies sums of old versions, if both ends are in this process.
    pub(crate) old_sums: Option<Arc<dyn OldSums>>,
    pub(crate) user: User,
    /// Records the files that are changing in place.
    pub(crate) under_way: UnderWay,
    /// The remote shell, which is terminated if the run fails.
    pub(crate) shell: Shell,
    /// The destination, if it lies in a source directory.
    pub(crate) inside: Option<PathBuf>,
    /// The destination, if both ends are on this machine.
    pub(crate) beside: Option<PathBuf>,
    /// Records the sender's list for a batch.
    pub(crate) tap: Option<Arc<Tap>>,
    /// True if this end asks the sender why it reads large files whole or in part.
    pub(crate) asks_reasons: bool,
    /// Records the sources that the run removed.
    pub(crate) moved: Option<MovedSources>,
    /// A batch to send instead of sources.
    pub(crate) batch: Option<Batch>,
    /// The threads that do the work.
    pub(crate) executor: Executor,
    pub(crate) budget: Budget,
    /// Resolves paths of requests on this machine, and refuses forbidden requests.
    pub(crate) host: AnyHost,
}

impl SessionConfig {
    /// Returns the known model of the link to the other end. Its rate does not exceed the limit for this end.
    pub(crate) fn known_link_model(&self) -> Option<Figures> {
        let limit = self.bits_limit();
        let Some(between) = self.between else {
            let only = |bits_per_second| Figures { bits_per_second, round_trip: Duration::ZERO };
            return limit.map(only);
        };
        let bits_per_second = between.bits_per_second.min(limit.unwrap_or(u64::MAX));
        Some(Figures { bits_per_second, ..between })
    }

    /// Returns the present limit of the rate in bits a second, for sending and for receiving each.
    pub(crate) fn bits_limit(&self) -> Option<u64> {
        self.limits.table.as_ref()?.now().map(|bytes| bytes.saturating_mul(8).max(1))
    }
}

/// Ways in which further streams are opened.
#[derive(Clone, Debug, Default)]
pub(crate) enum Further {
    /// No further streams, since no network is between the ends.
    #[default]
    Never,
    /// Further remote shells, started by this end.
    Dial { remote: plan::Remote, host: String },
    /// The other end connects to a socket in one of these directories, the best first.
    Answer { dirs: Vec<PathBuf> },
}
