//! Bases: versions that both ends call by one digest (docs/decisions/0037).
//!
//! A receiver knows which base a file in place is: a table as that of digests. A sender knows of a base where its bytes
//! lay, as [notes](super::notes), whose name and key are the digest: what has changed since is found in any file that
//! shares bytes with it.

use std::path::Path;

use deltic_core::Digest;
use deltic_store::Version;
use deltic_tree::Name;

use super::notes::Notes;
use super::{Cache, Moment};

/// Bases of this run or of one before, by any process of this user.
#[derive(Debug)]
pub struct Bases {
    held: Cache,
    extents: Notes<32>,
}

/// The notes of a sender about a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The extents, as the store encodes them.
    pub extents: Vec<u8>,
    /// The base that it was made of, if that is so.
    pub before: Option<Digest>,
}

impl Bases {
    /// Opens those in the directory `dir` of the user's own, which is made if it is not there. `None` where there can
    /// be none: then nothing is known, and nothing is noted.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        let held = Cache::open_table(dir, TABLE_NAME)?;
        Some(Self { held, extents: Notes::open(dir, DIR_NAME, (MAX_BYTES, ROOM_EVERY))? })
    }

    /// The base that this version is.
    #[must_use]
    pub fn held(&self, version: &Version) -> Option<Digest> {
        self.held.find(version)
    }

    /// Notes which base a file became when it was put in place as this version, which began at `begun`
    /// ([`Cache::note_written`]).
    pub fn hold(&self, version: &Version, begun: Moment, base: &Digest) {
        self.held.note_written(version, begun, base);
    }

    /// The notes of this base.
    #[must_use]
    pub fn noted(&self, base: &Digest) -> Option<Noted> {
        let mut notes = self.extents.find(&name_of(base)?, base.as_bytes())?;
        let before = Digest::from_bytes(*notes.first_chunk()?);
        notes.drain(..32);
        Some(Noted { extents: notes, before: Some(before).filter(|before| *before != NONE) })
    }

    /// Notes a base. That is true for ever, whatever becomes of the file.
    pub fn note(&self, base: &Digest, Noted { extents, before }: &Noted) {
        let parts = [before.unwrap_or(NONE).as_bytes().to_vec(), extents.clone()];
        if let Some(name) = name_of(base) {
            self.extents.note(&name, base.as_bytes(), parts.into_iter());
        }
    }

    /// Forgets a base that nobody holds any more.
    pub fn forget(&self, base: &Digest) {
        name_of(base).inspect(|name| self.extents.forget(name));
    }
}

fn name_of(base: &Digest) -> Option<Name> {
    Name::new(base.to_string().as_bytes()).ok()
}

/// Stands for no base.
const NONE: Digest = Digest::from_bytes([0; 32]);
/// Other formats have other names: older programs find nothing, and spoil nothing.
const TABLE_NAME: &[u8] = b"bases-1";
const DIR_NAME: &str = "extents-1";
/// Room for the extents of some ten thousand disk images, or of hundreds in many pieces.
const MAX_BYTES: u64 = 256 << 20;
/// Notes between two looks at all of them: they are short, and may be many.
const ROOM_EVERY: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::{others, version};

    #[test]
    fn a_base_is_found_by_its_version_and_its_extents_by_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let bases = Bases::open(dir.path()).unwrap();
        let (base, other) = (Digest::from_bytes([7; 32]), Digest::from_bytes([8; 32]));
        let is = version(7);
        bases.hold(&is, Moment::now(), &base);
        let noted = Noted { extents: b"extents".to_vec(), before: None };
        bases.note(&base, &noted);
        let again = Bases::open(dir.path()).unwrap();
        assert_eq!(again.held(&is), Some(base));
        assert!(others(is).into_iter().all(|other| again.held(&other).is_none()));
        assert_eq!(again.noted(&base), Some(noted.clone()));
        assert_eq!(again.noted(&other), None);
        let next = Noted { before: Some(base), ..noted };
        bases.note(&other, &next);
        assert_eq!(again.noted(&other), Some(next));
        bases.forget(&base);
        assert_eq!(again.noted(&base), None);
    }
}
