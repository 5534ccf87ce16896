//! Rates of links that earlier runs measured, in a file of the cache directory. A run starts with the rate of the last
//! run to the same machine, until the run has measured its link.
//!
//! ```text
//! FILE   links in the cache directory: a line for each machine, the latest last
//! line   RATE SECONDS HOST: bits a second, seconds since 1970, and the machine as the user named it
//! ```

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::plan::{Plan, remote_host};
use crate::transport::Counters;

/// Name of the file.
const FILE: &str = "links";
/// Time for which a rate counts.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Most machines in the file.
const MOST_HOSTS: usize = 64;
/// Longest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 10;
/// Bytes that a run must send for a rate that limited the run to be noted, and for a guess to be noted: fewer bytes may
/// all lie in buffers.
const LIMITED_BYTES: u64 = 1 << 20;
const GUESSED_BYTES: u64 = 4 << 20;

/// The note about the link to one machine.
#[derive(Debug)]
pub(crate) struct LinkNote {
    dir: PathBuf,
    host: String,
}

impl LinkNote {
    /// Returns the note about the other machine of a plan. `None` without another machine, or without a cache.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let host = remote_host(&plan.sources, &plan.destination)?;
        let dir = plan.cache.clone().filter(|_| plan.options.compare.cached)?;
        let fits = host.len() <= 256 && !host.contains(['\n', '\r']);
        fits.then(|| Self { dir, host: host.to_owned() })
    }

    /// Returns the noted rate in bits a second, if the note is not too old at the time `now`.
    pub(crate) fn rate(&self, now: SystemTime) -> Option<u64> {
        let found = self.lines(now).into_iter().rev().find(|line| line.host == self.host)?;
        Some(found.rate)
    }

    /// Notes the rate of a run, if the run sent enough bytes. A note that cannot be written is no error.
    pub(crate) fn note_run(&self, counters: &Counters, now: SystemTime) {
        let sent = counters.traffic().sent;
        let limit = counters.bandwidth_limit().filter(|_| sent >= LIMITED_BYTES);
        if let Some(rate) = limit.or_else(|| counters.rate().filter(|_| sent >= GUESSED_BYTES)) {
            self.update(rate, now);
        }
    }

    fn update(&self, rate: u64, now: SystemTime) {
        let mut lines = self.lines(now);
        lines.retain(|line| line.host != self.host);
        lines.drain(..lines.len().saturating_sub(MOST_HOSTS - 1));
        lines.push(NoteLine { rate, seconds: since_1970(now), host: self.host.clone() });
        let text: String = lines.iter().map(NoteLine::text).collect();
        let (file, new) =
            (self.dir.join(FILE), self.dir.join(format!("{FILE}.{}", std::process::id())));
        let written = fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &file));
        if written.is_err() {
            fs::remove_file(&new).ok();
        }
    }

    /// Returns the lines of the file that are not too old. Lines that cannot be read are left out.
    fn lines(&self, now: SystemTime) -> Vec<NoteLine> {
        let file = self.dir.join(FILE);
        let is_short = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES);
        let text = is_short.then(|| fs::read_to_string(&file).ok()).flatten().unwrap_or_default();
        let now = since_1970(now);
        let is_new = |line: &NoteLine| now.abs_diff(line.seconds) <= LIFETIME.as_secs();
        text.lines().filter_map(NoteLine::parse).filter(is_new).collect()
    }
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NoteLine {
    rate: u64,
    seconds: u64,
    host: String,
}

impl NoteLine {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (rate, seconds) = (number()?, number()?);
        let host = words.next()?.to_owned();
        (rate > 0).then_some(Self { rate, seconds, host })
    }

    fn text(&self) -> String {
        let Self { rate, seconds, host } = self;
        format!("{rate} {seconds} {host}\n")
    }
}

/// Returns the seconds since 1970; 0 for a clock before 1970.
fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn note(dir: &std::path::Path, host: &str) -> LinkNote {
        LinkNote { dir: dir.to_owned(), host: host.into() }
    }

    #[test]
    fn a_machine_has_the_rate_of_its_last_run_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let now = UNIX_EPOCH + DAY * 20_000;
        let (nas, other) =
            (note(dir.path(), "user@nas"), note(dir.path(), "https://other:8420/a b/"));
        assert_eq!(nas.rate(now), None);
        nas.update(9_000_000, now);
        other.update(1_000_000_000, now);
        nas.update(8_000_000, now + DAY);
        assert_eq!([nas.rate(now), other.rate(now)], [Some(8_000_000), Some(1_000_000_000)]);
        assert_eq!([nas.rate(now + DAY * 8), other.rate(now + DAY * 8)], [Some(8_000_000), None]);
        assert_eq!(nas.rate(now - DAY * 7), None, "a clock that was wrong");
        assert_eq!(note(dir.path(), "nas").rate(now), None);
    }

    #[test]
    fn the_file_has_a_bound_and_forgets_the_oldest_machines() {
        let dir = tempfile::tempdir().unwrap();
        let now = UNIX_EPOCH + DAY * 20_000;
        for host in 0..MOST_HOSTS + 10 {
            note(dir.path(), &host.to_string()).update(1 + host as u64, now);
        }
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(text.lines().count(), MOST_HOSTS);
        assert_eq!(note(dir.path(), "9").rate(now), None);
        assert_eq!(note(dir.path(), "10").rate(now), Some(11));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn bad_files_and_directories_give_no_rate_and_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let now = UNIX_EPOCH + DAY * 20_000;
        let (nas, seconds) = (note(dir.path(), "nas"), since_1970(now));
        for text in [
            "",
            "nas",
            "1 nas",
            "x 1 nas",
            "0 1728000000 nas",
            "\u{0}",
            "18446744073709551616 1 nas",
        ] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert_eq!(nas.rate(now), None, "{text}");
        }
        fs::write(dir.path().join(FILE), format!("bad\n7 {seconds} nas\n")).unwrap();
        assert_eq!(nas.rate(now), Some(7));
        fs::write(dir.path().join(FILE), vec![b'1'; MOST_BYTES as usize + 1]).unwrap();
        assert_eq!(nas.rate(now), None);
        fs::remove_file(dir.path().join(FILE)).unwrap();
        fs::create_dir(dir.path().join(FILE)).unwrap();
        nas.update(7, now);
        assert_eq!(nas.rate(now), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }
}
