//! The rate of the link to the other machine, noted by a run for the next runs to the same machine.

use std::path::Path;

use deltic_store_local::cache::{LinkRates, now};

use crate::plan::{Plan, remote_host};
use crate::transport::Counters;

/// Bytes that a run must send for a rate that limited the run to be noted, and for a guess to be noted: fewer bytes may
/// all lie in buffers.
const LIMITED_BYTES: u64 = 1 << 20;
const GUESSED_BYTES: u64 = 4 << 20;

/// Notes the rate of the link to `host`, in bits a second, in the cache directory `cache`.
pub fn note_link_rate(cache: &Path, host: &str, rate: u64) {
    LinkRates::in_dir(cache).note_rate(host, rate, now());
}

/// The note about the link to one machine.
#[derive(Debug)]
pub(crate) struct LinkNote {
    rates: LinkRates,
    host: String,
}

impl LinkNote {
    /// Returns the note about the other machine of a plan. `None` without another machine, without a cache, and for a
    /// run whose rate the user limits, which neither needs nor measures the rate of the link.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let host = remote_host(&plan.sources, &plan.destination)?.to_owned();
        let may_note = plan.options.compare.cached && plan.limits.are_none();
        let dir = plan.cache.as_deref().filter(|_| may_note)?;
        Some(Self { rates: LinkRates::in_dir(dir), host })
    }

    /// Returns the noted rate in bits a second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rates.find(&self.host, now())
    }

    /// Notes the rate of a run, if the run sent enough bytes.
    pub(crate) fn note_run(&self, counters: &Counters) {
        let sent = counters.traffic().sent;
        let limit = counters.bandwidth_limit().filter(|_| sent >= LIMITED_BYTES);
        if let Some(rate) = limit.or_else(|| counters.rate().filter(|_| sent >= GUESSED_BYTES)) {
            self.rates.note_rate(&self.host, rate, now());
        }
    }
}
