//! Bases on disk: versions that both ends identify by the same digest (docs/decisions/0037).
//!
//! A receiver stores the base digest of each file, in a table like that of content digests. A sender keeps
//! [notes](super::notes) about a base, one note in each file. The file name and key of a note are the digest of the
//! base. The caller decides what the bytes of a note mean.
//!
//! Several parties (for example users of a server) may keep their bases in one directory. Each party finds only its own
//! bases.

use std::path::Path;
use std::sync::Arc;

use deltic_core::Digest;
use deltic_store::{BaseNote, SettledVersion, Version, VersionToken};
use deltic_tree::Name;

use super::Cache;
use super::notes::Notes;

/// Bases noted in this run or an earlier run, by any process of this user. Clones share the same bases.
#[derive(Clone, Debug)]
pub struct Bases {
    kept: Arc<Kept>,
    /// Key of the party that owns the bases; `None` if the bases have no owner.
    whose: Option<[u8; 32]>,
}

#[derive(Debug)]
struct Kept {
    held: Cache,
    extents: Notes<32>,
    /// Tables of sums, and for each base a note that names a table.
    sums: Notes<32>,
}

impl Bases {
    /// Opens the bases in the user's own directory `dir`, which is created if missing. `None` if the directory cannot
    /// keep bases: then no base is found or noted.
    #[must_use]
    pub fn open(dir: &Path) -> Option<Self> {
        let held = Cache::open_table(dir, TABLE_NAME, MAX_TABLE_BYTES)?;
        let extents = Notes::open(dir, DIR_NAME, MAX_BYTES, ROOM_EVERY)?;
        let sums = Notes::open(dir, SUMS_NAME, MAX_SUMS_BYTES, SUMS_ROOM_EVERY)?;
        Some(Self { kept: Arc::new(Kept { held, extents, sums }), whose: None })
    }

    /// Returns the bases of one party, in the same directory. The bases are sealed with the party's key, and no other
    /// key finds them.
    #[must_use]
    pub fn for_party(&self, party: [u8; 32]) -> Self {
        Self { kept: Arc::clone(&self.kept), whose: Some(party) }
    }

    /// Hashes a version's token or a base digest under the party's key, if there is a key.
    fn seal(&self, bytes: &[u8; 32]) -> [u8; 32] {
        self.whose.map_or(*bytes, |party| *blake3::keyed_hash(&party, bytes).as_bytes())
    }

    fn sealed_token(&self, version: &Version) -> VersionToken {
        VersionToken(self.seal(&version.token.0))
    }

    /// The file name and the key of the note about `name`.
    fn sealed_name(&self, name: &Digest) -> Option<(Name, [u8; 32])> {
        let key = self.seal(name.as_bytes());
        Some((Name::new(Digest::from_bytes(key).to_string().as_bytes()).ok()?, key))
    }

    fn notes_of(&self, kind: BaseNote) -> &Notes<32> {
        match kind {
            BaseNote::Extents => &self.kept.extents,
            BaseNote::Sums => &self.kept.sums,
        }
    }

    /// Returns the digest of the base that equals a version.
    pub(super) fn base(&self, version: &Version) -> Option<Digest> {
        self.kept.held.find(&Version { token: self.sealed_token(version), ..*version })
    }

    /// Stores that a version equals `base`.
    pub(super) fn note_base(&self, version: &SettledVersion, base: &Digest) {
        let token = self.sealed_token(version.version());
        self.kept.held.note_digest(&version.with_token(token), base);
    }

    /// Returns the bytes kept under this kind and name.
    pub(super) fn note(&self, kind: BaseNote, name: &Digest) -> Option<Vec<u8>> {
        let (name, key) = self.sealed_name(name)?;
        self.notes_of(kind).find(&name, &key)
    }

    /// Keeps bytes under a kind and a name.
    pub(super) fn keep(&self, kind: BaseNote, name: &Digest, bytes: Vec<u8>) {
        if let Some((name, key)) = self.sealed_name(name) {
            self.notes_of(kind).write_note(&name, &key, std::iter::once(bytes));
        }
    }

    /// Removes the note of this kind and name.
    pub(super) fn forget(&self, kind: BaseNote, name: &Digest) {
        self.sealed_name(name).inspect(|(name, _)| self.notes_of(kind).forget(name));
    }
}

/// A later format gets another name, so older programs neither find nor damage newer files.
const TABLE_NAME: &[u8] = b"bases-1";
const DIR_NAME: &str = "extents-1";
const SUMS_NAME: &str = "sums-1";
/// Most bytes of the table: room for 350,000 files. Only files of 32 MiB or more have bases.
const MAX_TABLE_BYTES: u64 = 32 << 20;
/// Most bytes of the notes of extents: room for some ten thousand disk images, or for hundreds of fragmented images.
const MAX_BYTES: u64 = 256 << 20;
/// Number of new notes of extents between two scans that remove old notes. These notes are short, and may be many.
const ROOM_EVERY: u32 = 32;
/// Most bytes of the notes of sums: room for the sums of at least 64 GiB of files.
const MAX_SUMS_BYTES: u64 = 256 << 20;
/// Number of new notes of sums between two scans that remove old notes. Some of these notes are long.
const SUMS_ROOM_EVERY: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::now;
    use crate::cache::tests::{others, version};

    fn settled(version: Version) -> SettledVersion {
        SettledVersion::after_write(version, now()).unwrap()
    }

    #[test]
    fn a_base_is_found_by_its_version_and_its_notes_by_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let bases = Bases::open(dir.path()).unwrap();
        let (base, is) = (Digest::from_bytes([7; 32]), version(7));
        bases.note_base(&settled(is), &base);
        bases.keep(BaseNote::Extents, &base, b"extents".to_vec());
        bases.keep(BaseNote::Sums, &base, b"sums".to_vec());
        let again = Bases::open(dir.path()).unwrap();
        assert_eq!(again.base(&is), Some(base));
        assert!(others(is).into_iter().all(|other| again.base(&other).is_none()));
        assert_eq!(again.note(BaseNote::Extents, &base), Some(b"extents".to_vec()));
        bases.forget(BaseNote::Extents, &base);
        assert_eq!(again.note(BaseNote::Extents, &base), None);
        assert_eq!(again.note(BaseNote::Sums, &base), Some(b"sums".to_vec()));
    }

    #[test]
    fn what_a_party_keeps_nobody_else_finds() {
        let dir = tempfile::tempdir().unwrap();
        let all = Bases::open(dir.path()).unwrap();
        let (mine, theirs) = (all.for_party([1; 32]), all.for_party([2; 32]));
        let (base, is) = (Digest::from_bytes([7; 32]), version(7));
        let kinds = [BaseNote::Extents, BaseNote::Sums];
        mine.note_base(&settled(is), &base);
        kinds.iter().for_each(|kind| mine.keep(*kind, &base, b"note".to_vec()));
        for other in [&theirs, &all] {
            assert_eq!(other.base(&is), None);
            assert_eq!(kinds.map(|kind| other.note(kind, &base)), [None, None]);
            kinds.iter().for_each(|kind| other.forget(*kind, &base));
        }
        let again = Bases::open(dir.path()).unwrap().for_party([1; 32]);
        assert_eq!(again.base(&is), Some(base));
        let note = Some(b"note".to_vec());
        assert_eq!(kinds.map(|kind| again.note(kind, &base)), [note.clone(), note]);
        // Both parties have a base for the same file.
        let other = Digest::from_bytes([8; 32]);
        theirs.note_base(&settled(is), &other);
        assert_eq!((mine.base(&is), theirs.base(&is)), (Some(base), Some(other)));
    }
}
