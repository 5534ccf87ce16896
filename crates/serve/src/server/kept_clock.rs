//! The clock for the age of old versions, kept across starts of the server.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deltic_store::VERSIONS_NAME;
use deltic_store_local::{AgeClock, Clocks, History, Jump, KeepVersions};

use super::config::Config;
use super::keep::Keep;
use crate::private;

/// The clock that measures the age of old versions, and the file that stores its last trusted time.
#[derive(Debug)]
pub(super) struct KeptClock {
    clock: Arc<AgeClock>,
    file: PathBuf,
    /// True if a volume keeps versions by age.
    has_ages: bool,
}

impl KeptClock {
    /// Starts the clock. If the state directory holds no time, the time of the last change on the disks is used.
    pub(super) fn start(config: &Config) -> Self {
        let file = config.state.join("clock");
        let known = read(&file).or_else(|| {
            let known = last_work(config)?;
            // Stored, so that the next start also starts from this time, and not from times that a wrong clock gives
            // to files now.
            let _ = keep_at(&file, known);
            Some(known)
        });
        let is_age = |keep: &Keep| matches!(keep, Keep(KeepVersions::For(_)));
        let mut kept = config.volumes.values().filter_map(|volume| volume.versions.as_ref());
        let clock = Arc::new(AgeClock::start(Clocks::now(), known));
        Self { clock, file, has_ages: kept.any(is_age) }
    }

    /// Returns the policy for old versions `keep` with this clock.
    pub(super) fn history(&self, Keep(keep): Keep) -> History {
        History { keep, clock: Arc::clone(&self.clock) }
    }

    /// Returns the last jump of the clock, if a volume keeps versions by age. Each jump is returned once.
    pub(super) fn news(&self) -> Option<Jump> {
        self.clock.take_jump().filter(|_| self.has_ages)
    }

    /// Stores the present time for the next start, if the clock does not suspect a jump of the time.
    pub(super) fn keep(&self) -> io::Result<()> {
        let Some(now) = self.clock.trusted_time(Clocks::now()) else { return Ok(()) };
        keep_at(&self.file, now)
    }
}

fn keep_at(file: &Path, time: Duration) -> io::Result<()> {
    private::replace(file, format!("{}\n", time.as_secs()).as_bytes())
}

fn read(file: &Path) -> Option<Duration> {
    let bytes = private::read_regular(file).ok()?;
    Some(Duration::from_secs(str::from_utf8(&bytes).ok()?.trim().parse().ok()?))
}

/// Returns the time of the last change of the state directory or of a volume.
fn last_work(config: &Config) -> Option<Duration> {
    let own = ["tokens.json", "key.pem", "acme.json"].map(|name| config.state.join(name));
    let volumes = config.volumes.values().map(|volume| volume.path.clone());
    let versions = volumes.clone().map(|volume| volume.join(OsStr::from_bytes(VERSIONS_NAME)));
    let changed = |path: PathBuf| {
        let secs = std::fs::symlink_metadata(path).ok()?.ctime();
        Some(Duration::from_secs(u64::try_from(secs).ok()?))
    };
    own.into_iter().chain(volumes).chain(versions).filter_map(changed).max()
}
