//! Notes of a run for the next runs to the same machine: the rate of the link in a direction, and the place of the
//! program there.

use std::path::Path;

use deltic_store_local::cache::{HostNotes, now};

use crate::plan::{Plan, Sources, Traffic, remote_host};
use crate::transport::Counters;

/// Bytes of a run for a rate that limited the run to be noted, and for a guess to be noted: fewer bytes may all lie in
/// buffers.
const LIMITED_BYTES: u64 = 1 << 20;
const GUESSED_BYTES: u64 = 4 << 20;

/// Direction of the data over a link, as seen from this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDirection {
    /// From this machine, as in a push.
    There,
    /// To this machine, as in a pull.
    Back,
}

/// Notes the rate of the link to `host`, in bits a second, in the cache directory `cache`.
pub fn note_link_rate(cache: &Path, host: &str, direction: LinkDirection, rate: u64) {
    HostNotes::link_rates(cache).note(&note_name(host, direction), rate, now());
}

/// Returns the name of the note about a link in one direction.
fn note_name(host: &str, direction: LinkDirection) -> String {
    match direction {
        LinkDirection::There => host.into(),
        LinkDirection::Back => format!("from {host}"),
    }
}

/// The note about the link to one machine.
#[derive(Debug)]
pub(crate) struct LinkNote {
    rates: HostNotes,
    name: String,
    direction: LinkDirection,
}

impl LinkNote {
    /// Returns the note about the other machine of a plan. `None` without another machine, without a cache, and for a
    /// run whose rate the user limits, which neither needs nor measures the rate of the link.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let host = remote_host(&plan.sources, &plan.destination)?;
        let may_note = plan.options.compare.cached && plan.limits.are_none();
        let dir = plan.cache.as_deref().filter(|_| may_note)?;
        let direction = match plan.sources {
            Sources::Local(_) => LinkDirection::There,
            Sources::Remote { .. } => LinkDirection::Back,
        };
        Some(Self {
            rates: HostNotes::link_rates(dir),
            name: note_name(host, direction),
            direction,
        })
    }

    /// Returns the noted rate in bits a second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rates.find(&self.name, now())
    }

    /// Notes the rate of a run that carried enough bytes. In a pull, the sender told the rate.
    pub(crate) fn note_run(&self, counters: &Counters) {
        let Traffic { sent, received } = counters.traffic();
        let bytes = match self.direction {
            LinkDirection::There => sent,
            LinkDirection::Back => received,
        };
        let limit = counters.bandwidth_limit().filter(|_| bytes >= LIMITED_BYTES);
        if let Some(rate) = limit.or_else(|| counters.rate().filter(|_| bytes >= GUESSED_BYTES)) {
            self.rates.note(&self.name, rate, now());
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
