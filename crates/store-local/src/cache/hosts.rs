//! Numbers that earlier runs noted for other machines, such as the rate of the link.
//!
//! ```text
//! note   number, and time in seconds since 1970; a u64 each, little-endian
//! key    the first bytes of BLAKE3 of the machine's name
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use deltic_store::Moment;
use deltic_tree::Name;

use super::notes::Notes;
use crate::handles::dir::Dir;

/// Numbers of one kind for other machines, as any process of this user noted them. A note counts for a week.
#[derive(Debug)]
pub struct HostNotes {
    dir: PathBuf,
    kind: &'static str,
}

impl HostNotes {
    /// Returns the rates of links, in bits a second, in the user's own directory `dir`. The first note creates the
    /// directory. A directory that cannot keep notes has no rates.
    #[must_use]
    pub fn link_rates(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), kind: "links-1" }
    }

    /// Returns the machines on which the program was found where `deltic install` copies the program, and not in
    /// `PATH`. Each has the number 1.
    #[must_use]
    pub fn installed_programs(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), kind: "installed-1" }
    }

    fn notes(&self) -> Option<Notes<KEY_BYTES>> {
        Notes::open(&self.dir, self.kind, MAX_BYTES, ROOM_EVERY)
    }

    /// Returns the number of `host`, if the number is not 0 and the note counts at the time `now`.
    #[must_use]
    pub fn find(&self, host: &str, now: Moment) -> Option<u64> {
        let (name, key) = place_of(host)?;
        // A run that notes nothing leaves no directory behind.
        let notes = Dir::is_dir_there(&self.dir.join(self.kind)).then(|| self.notes()).flatten()?;
        let note: [u8; NOTE_BYTES] = notes.find(&name, &key)?.try_into().ok()?;
        let [number, seconds] =
            [&note[..8], &note[8..]].map(|half| half.try_into().map(u64::from_le_bytes));
        let (number, seconds) = (number.ok()?, seconds.ok()?);
        let counts = now.elapsed().as_secs().abs_diff(seconds) <= LIFETIME.as_secs();
        counts.then_some(number).filter(|number| *number > 0)
    }

    /// Notes the number of `host` at the time `now`. 0 removes the number.
    pub fn note(&self, host: &str, number: u64, now: Moment) {
        let Some(((name, key), notes)) = place_of(host).zip(self.notes()) else { return };
        let note = [number, now.elapsed().as_secs()].map(u64::to_le_bytes).concat();
        notes.write_note(&name, &key, std::iter::once(note));
    }
}

/// Returns the name and the key of the note about `host`.
fn place_of(host: &str) -> Option<(Name, [u8; KEY_BYTES])> {
    let hash = blake3::hash(host.as_bytes());
    let key = *hash.as_bytes().first_chunk()?;
    Some((Name::new(hash.to_hex().get(..2 * KEY_BYTES)?.as_bytes()).ok()?, key))
}

const KEY_BYTES: usize = 16;
const NOTE_BYTES: usize = 16;
/// Most bytes of all notes: 640 machines.
const MAX_BYTES: u64 = 640 * (Notes::<KEY_BYTES>::HEAD_BYTES + NOTE_BYTES) as u64;
/// Number of new notes between two scans that remove old notes.
const ROOM_EVERY: u32 = 16;
/// Time for which a note counts.
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
        let rates = HostNotes::link_rates(dir.path());
        assert_eq!(rates.find("user@nas", now), None);
        assert!(!Dir::is_dir_there(&dir.path().join("links-1")), "a look leaves nothing behind");
        rates.note("user@nas", 9_000_000, now);
        rates.note("https://other:8420/a b/", 1_000_000_000, now);
        rates.note("user@nas", 8_000_000, on_day(20_001));
        rates.note("stopped", 0, now);
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
        assert_eq!(HostNotes::installed_programs(dir.path()).find("user@nas", now), None);
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
        let rates = HostNotes::link_rates(dir.path());
        rates.note("nas", 7, start);
        assert_eq!(rates.find("nas", start), Some(7));
        for entry in std::fs::read_dir(dir.path().join("links-1")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&path, &bytes).unwrap();
        }
        assert_eq!(rates.find("nas", start), None);
        std::fs::write(dir.path().join("file"), "").unwrap();
        let rates = HostNotes::link_rates(&dir.path().join("file"));
        rates.note("nas", 7, start);
        assert_eq!(rates.find("nas", start), None);
    }
}
