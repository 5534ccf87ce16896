//! Rates of links that earlier runs measured, a note for each machine.
//!
//! ```text
//! note   rate in bits a second, and time in seconds since 1970; a u64 each, little-endian
//! key    the first bytes of BLAKE3 of the machine's name
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use deltic_store::Moment;
use deltic_tree::Name;

use super::notes::Notes;
use crate::handles::dir::Dir;

/// Rates of the links to other machines, as any process of this user measured them. A note counts for a week.
#[derive(Debug)]
pub struct LinkRates {
    dir: PathBuf,
}

impl LinkRates {
    /// Returns the rates in the user's own directory `dir`. The first note creates the directory. A directory that
    /// cannot keep notes has no rates.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn notes(&self) -> Option<Notes<KEY_BYTES>> {
        Notes::open(&self.dir, DIR_NAME, MAX_BYTES, ROOM_EVERY)
    }

    /// Returns the noted rate of the link to `host` in bits a second, if the note counts at the time `now`.
    #[must_use]
    pub fn find(&self, host: &str, now: Moment) -> Option<u64> {
        let (name, key) = place_of(host)?;
        // A run that notes nothing leaves no directory behind.
        let notes = Dir::is_dir_there(&self.dir.join(DIR_NAME)).then(|| self.notes()).flatten()?;
        let note: [u8; NOTE_BYTES] = notes.find(&name, &key)?.try_into().ok()?;
        let [rate, seconds] =
            [&note[..8], &note[8..]].map(|half| half.try_into().map(u64::from_le_bytes));
        let (rate, seconds) = (rate.ok()?, seconds.ok()?);
        let counts = now.elapsed().as_secs().abs_diff(seconds) <= LIFETIME.as_secs();
        counts.then_some(rate).filter(|rate| *rate > 0)
    }

    /// Notes the rate of the link to `host` in bits a second, measured at the time `now`.
    pub fn note_rate(&self, host: &str, rate: u64, now: Moment) {
        let Some(((name, key), notes)) = place_of(host).zip(self.notes()) else { return };
        let note = [rate, now.elapsed().as_secs()].map(u64::to_le_bytes).concat();
        notes.write_note(&name, &key, std::iter::once(note));
    }
}

/// Returns the name and the key of the note about `host`.
fn place_of(host: &str) -> Option<(Name, [u8; KEY_BYTES])> {
    let hash = blake3::hash(host.as_bytes());
    let key = *hash.as_bytes().first_chunk()?;
    Some((Name::new(hash.to_hex().get(..2 * KEY_BYTES)?.as_bytes()).ok()?, key))
}

const DIR_NAME: &str = "links-1";
const KEY_BYTES: usize = 16;
const NOTE_BYTES: usize = 16;
/// Most bytes of all notes: 640 machines.
const MAX_BYTES: u64 = 640 * (Notes::<KEY_BYTES>::HEAD_BYTES + NOTE_BYTES) as u64;
/// Number of new notes between two scans that remove old notes.
const ROOM_EVERY: u32 = 16;
/// Time for which a rate counts.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_machine_has_the_rate_of_its_last_run_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let on_day = |day: u32| Moment::since_1970(DAY * day);
        let now = on_day(20_000);
        let rates = LinkRates::in_dir(dir.path());
        assert_eq!(rates.find("user@nas", now), None);
        assert!(!Dir::is_dir_there(&dir.path().join(DIR_NAME)), "a look leaves nothing behind");
        rates.note_rate("user@nas", 9_000_000, now);
        rates.note_rate("https://other:8420/a b/", 1_000_000_000, now);
        rates.note_rate("user@nas", 8_000_000, on_day(20_001));
        rates.note_rate("stopped", 0, now);
        for (host, days, rate) in [
            ("user@nas", 0, Some(8_000_000)),
            ("user@nas", 8, Some(8_000_000)),
            ("user@nas", 9, None),
            ("https://other:8420/a b/", 7, Some(1_000_000_000)),
            ("https://other:8420/a b/", 8, None),
            ("stopped", 0, None),
            ("nas", 0, None),
        ] {
            assert_eq!(rates.find(host, on_day(20_000 + days)), rate, "{host} {days}");
        }
        assert_eq!(rates.find("user@nas", on_day(20_000 - 7)), None, "a clock that was wrong");
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test damages notes, which no other function does"
    )]
    fn damaged_notes_and_missing_directories_give_no_rate() {
        let dir = tempfile::tempdir().unwrap();
        let start = Moment::since_1970(Duration::ZERO);
        let rates = LinkRates::in_dir(dir.path());
        rates.note_rate("nas", 7, start);
        assert_eq!(rates.find("nas", start), Some(7));
        for entry in std::fs::read_dir(dir.path().join(DIR_NAME)).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(rates.find("nas", start), None);
        std::fs::write(dir.path().join("file"), "").unwrap();
        let rates = LinkRates::in_dir(&dir.path().join("file"));
        rates.note_rate("nas", 7, start);
        assert_eq!(rates.find("nas", start), None);
    }
}
