//! Bases: versions that both ends call by one digest (docs/decisions/0037).
//!
//! A receiver knows which base a file in place is: a table as that of digests. A sender knows of a base where its bytes
//! lay, as [notes](super::notes), whose name and key are the digest: what has changed since is found in any file that
//! shares bytes with it. It may know sums of its blocks besides: a table of them is long, so several bases that differ
//! little [refer](SumsNote) to one.
//!
//! Several parties may keep theirs in one place. Each finds its own alone.

use std::path::Path;
use std::sync::Arc;

use deltic_core::Digest;
use deltic_store::{Version, VersionToken};
use deltic_tree::Name;

use super::notes::Notes;
use super::{Cache, Moment};

/// Bases of this run or of one before, by any process of this user; clones are the same.
#[derive(Clone, Debug)]
pub struct Bases {
    kept: Arc<Kept>,
    /// Key of the party that these are for; none where they are for everybody.
    whose: Option<[u8; 32]>,
}

#[derive(Debug)]
struct Kept {
    held: Cache,
    extents: Notes<32>,
    /// Tables of sums, and of bases which table is theirs.
    sums: Notes<32>,
}

/// The table that has the sums of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumsNote {
    /// Name of the table, which is random.
    pub table: Digest,
    /// Parts of the table that are not of this base, in a form of whoever notes it.
    pub others: Vec<u8>,
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
        let held = Cache::open_table(dir, TABLE_NAME, MAX_TABLE_BYTES)?;
        let extents = Notes::open(dir, DIR_NAME, (MAX_BYTES, ROOM_EVERY))?;
        let sums = Notes::open(dir, SUMS_NAME, (MAX_SUMS_BYTES, SUMS_ROOM_EVERY))?;
        Some(Self { kept: Arc::new(Kept { held, extents, sums }), whose: None })
    }

    /// Bases of one party, kept in the same room under its key: nobody finds them by another key.
    #[must_use]
    pub fn of(&self, party: [u8; 32]) -> Self {
        Self { kept: Arc::clone(&self.kept), whose: Some(party) }
    }

    /// Hides a version's token or a base under the party's key.
    fn seal(&self, bytes: &[u8; 32]) -> [u8; 32] {
        self.whose.map_or(*bytes, |party| *blake3::keyed_hash(&party, bytes).as_bytes())
    }

    fn seal_version(&self, version: &Version) -> Version {
        Version { token: VersionToken(self.seal(&version.token.0)), ..*version }
    }

    /// The name and the key of the notes about a base, or of a table.
    fn seal_base(&self, base: &Digest) -> Option<(Name, [u8; 32])> {
        let key = self.seal(base.as_bytes());
        Some((Name::new(Digest::from_bytes(key).to_string().as_bytes()).ok()?, key))
    }

    /// The base that this version is.
    #[must_use]
    pub fn held(&self, version: &Version) -> Option<Digest> {
        self.kept.held.find(&self.seal_version(version))
    }

    /// Notes which base a file became when it was put in place as this version, which began at `begun`
    /// ([`Cache::note_written`]).
    pub fn hold(&self, version: &Version, begun: Moment, base: &Digest) {
        self.kept.held.note_written(&self.seal_version(version), begun, base);
    }

    /// The notes of this base.
    #[must_use]
    pub fn noted(&self, base: &Digest) -> Option<Noted> {
        let (name, key) = self.seal_base(base)?;
        let mut notes = self.kept.extents.find(&name, &key)?;
        let before = Digest::from_bytes(*notes.first_chunk()?);
        notes.drain(..32);
        Some(Noted { extents: notes, before: Some(before).filter(|before| *before != NONE) })
    }

    /// Notes a base. That is true for ever, whatever becomes of the file.
    pub fn note(&self, base: &Digest, Noted { extents, before }: &Noted) {
        let parts = [before.unwrap_or(NONE).as_bytes().to_vec(), extents.clone()];
        if let Some((name, key)) = self.seal_base(base) {
            self.kept.extents.note(&name, &key, parts.into_iter());
        }
    }

    /// The table that has the sums of this base.
    #[must_use]
    pub fn sums_noted(&self, base: &Digest) -> Option<SumsNote> {
        let (name, key) = self.seal_base(base)?;
        let note = self.kept.sums.find(&name, &key)?;
        let (table, others) = note.split_first_chunk()?;
        Some(SumsNote { table: Digest::from_bytes(*table), others: others.to_vec() })
    }

    /// Notes which table has the sums of a base.
    pub fn note_sums(&self, base: &Digest, SumsNote { table, others }: &SumsNote) {
        let note = [&table.as_bytes()[..], others].concat();
        self.note_table(base, std::iter::once(note));
    }

    /// The table of this name.
    #[must_use]
    pub fn table(&self, table: &Digest) -> Option<Vec<u8>> {
        let (name, key) = self.seal_base(table)?;
        self.kept.sums.find(&name, &key)
    }

    /// Notes a table, in parts.
    pub fn note_table(&self, table: &Digest, parts: impl Iterator<Item = Vec<u8>>) {
        if let Some((name, key)) = self.seal_base(table) {
            self.kept.sums.note(&name, &key, parts);
        }
    }

    /// Forgets a table that no base refers to any more.
    pub fn forget_table(&self, table: &Digest) {
        self.seal_base(table).inspect(|(name, _)| self.kept.sums.forget(name));
    }

    /// Forgets a base that nobody holds any more.
    pub fn forget(&self, base: &Digest) {
        self.seal_base(base).inspect(|(name, _)| {
            self.kept.extents.forget(name);
            self.kept.sums.forget(name);
        });
    }
}

/// Stands for no base.
const NONE: Digest = Digest::from_bytes([0; 32]);
/// Other formats have other names: older programs find nothing, and spoil nothing.
const TABLE_NAME: &[u8] = b"bases-1";
const DIR_NAME: &str = "extents-1";
const SUMS_NAME: &str = "sums-1";
/// Room for 350,000 files, each of 32 MiB at least.
const MAX_TABLE_BYTES: u64 = 32 << 20;
/// Room for the extents of some ten thousand disk images, or of hundreds in many pieces.
const MAX_BYTES: u64 = 256 << 20;
/// Notes between two looks at all of them: they are short, and may be many.
const ROOM_EVERY: u32 = 32;
/// Room for the sums of 64 GiB at least.
const MAX_SUMS_BYTES: u64 = 256 << 20;
/// The same of those, of which some are long.
const SUMS_ROOM_EVERY: u32 = 4;

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
        let sums = SumsNote { table: Digest::from_bytes([9; 32]), others: b"others".to_vec() };
        bases.note_sums(&base, &sums);
        bases.note_table(&sums.table, [b"sums".to_vec(), b" of blocks".to_vec()].into_iter());
        assert_eq!((again.sums_noted(&base), again.sums_noted(&other)), (Some(sums.clone()), None));
        assert_eq!(again.table(&sums.table), Some(b"sums of blocks".to_vec()));
        bases.forget(&base);
        assert_eq!((again.noted(&base), again.sums_noted(&base)), (None, None));
        assert!(again.table(&sums.table).is_some());
        bases.forget_table(&sums.table);
        assert_eq!(again.table(&sums.table), None);
    }

    #[test]
    fn what_a_party_keeps_nobody_else_finds() {
        let dir = tempfile::tempdir().unwrap();
        let all = Bases::open(dir.path()).unwrap();
        let (mine, theirs) = (all.of([1; 32]), all.of([2; 32]));
        let (base, is) = (Digest::from_bytes([7; 32]), version(7));
        let noted = Noted { extents: b"extents".to_vec(), before: None };
        mine.hold(&is, Moment::now(), &base);
        mine.note(&base, &noted);
        let sums = SumsNote { table: base, others: Vec::new() };
        mine.note_sums(&base, &sums);
        for other in [&theirs, &all] {
            assert_eq!((other.held(&is), other.noted(&base)), (None, None));
            assert_eq!((other.sums_noted(&base), other.table(&base)), (None, None));
            other.forget(&base);
        }
        let again = Bases::open(dir.path()).unwrap().of([1; 32]);
        assert_eq!((again.held(&is), again.noted(&base)), (Some(base), Some(noted)));
        assert_eq!(again.sums_noted(&base), Some(sums));
        // Of one file each party has what it brought.
        let other = Digest::from_bytes([8; 32]);
        theirs.hold(&is, Moment::now(), &other);
        assert_eq!((mine.held(&is), theirs.held(&is)), (Some(base), Some(other)));
    }
}
