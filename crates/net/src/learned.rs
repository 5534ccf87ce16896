//! Notes of a run for the next runs to the same machine: the rate of the link, and the place of the program there.

use std::path::Path;

use deltic_store_local::cache::{HostNotes, now};

use crate::plan::{Plan, remote_host};
use crate::transport::Counters;

/// Bytes that a run must send for a rate that limited the run to be noted, and for a guess to be noted: fewer bytes may
/// all lie in buffers.
const LIMITED_BYTES: u64 = 1 << 20;
const GUESSED_BYTES: u64 = 4 << 20;

/// Notes the rate of the link to `host`, in bits a second, in the cache directory `cache`.
pub fn note_link_rate(cache: &Path, host: &str, rate: u64) {
    HostNotes::link_rates(cache).note(host, rate, now());
}

/// The note about the link to one machine.
#[derive(Debug)]
pub(crate) struct LinkNote {
    rates: HostNotes,
    host: String,
}

impl LinkNote {
    /// Returns the note about the other machine of a plan. `None` without another machine, without a cache, and for a
    /// run whose rate the user limits, which neither needs nor measures the rate of the link.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let host = remote_host(&plan.sources, &plan.destination)?.to_owned();
        let may_note = plan.options.compare.cached && plan.limits.are_none();
        let dir = plan.cache.as_deref().filter(|_| may_note)?;
        Some(Self { rates: HostNotes::link_rates(dir), host })
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
            self.rates.note(&self.host, rate, now());
        }
    }
}

/// The note that the other machine has the program where `deltic install` copies the program, and not in `PATH`.
pub(crate) struct InstalledNote {
    notes: HostNotes,
    host: String,
}

impl InstalledNote {
    /// Returns the note about the other machine of a plan. `None` without another machine and without a cache.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let host = remote_host(&plan.sources, &plan.destination)?.to_owned();
        let dir = plan.cache.as_deref().filter(|_| plan.options.compare.cached)?;
        Some(Self { notes: HostNotes::installed_programs(dir), host })
    }

    /// True if an earlier run found the program there.
    pub(crate) fn is_set(&self) -> bool {
        self.notes.find(&self.host, now()).is_some()
    }

    /// Notes whether the program is there.
    pub(crate) fn set(&self, is_there: bool) {
        self.notes.note(&self.host, is_there.into(), now());
    }
}
