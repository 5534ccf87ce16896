//! An index of the destination's files by length, time and name, to find moved files.
//!
//! The index is a snapshot. Every file that is found is opened and checked again, and is then matched like any old
//! version. The store does not list excluded files, so the index does not contain them.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

use deltic_protocol::limits::MOVED_ABOVE_BYTES;
use deltic_protocol::receiver::NotListed;
use deltic_tree::{Entry, Name, RelPath, Timestamp};

/// Queue of directories to index, nearest to the root first.
#[derive(Debug, Default)]
pub struct DirQueue {
    is_begun: bool,
    near: VecDeque<RelPath>,
    far: VecDeque<RelPath>,
    /// Directories given to [`begin`](Self::begin): the walk skips these later, so that each directory is listed only
    /// once.
    starts: HashSet<RelPath>,
}

impl DirQueue {
    /// Starts with the directories `near`, then the root. Does nothing on later calls.
    pub fn begin(&mut self, near: Vec<RelPath>) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        if !near.contains(&RelPath::root()) {
            self.far.push_back(RelPath::root());
        }
        self.starts.extend(near.iter().cloned());
        self.near.extend(near);
    }

    /// Returns the next directory, and whether it lies below a directory of `near`.
    pub fn next_dir(&mut self) -> Option<(RelPath, bool)> {
        let near = self.near.pop_front().map(|dir| (dir, true));
        near.or_else(|| Some((self.far.pop_front()?, false)))
    }

    /// Queues the directories among the entries of `dir`.
    pub fn note(&mut self, dir: &RelPath, entries: &[Entry], is_near: bool) {
        let below = entries.iter().filter(|entry| entry.meta.is_dir());
        for path in below.filter_map(|entry| dir.join(&entry.name).ok()) {
            let known = self.near.len() + self.far.len();
            if known < MAX_DIRS && (is_near || !self.starts.contains(&path)) {
                if is_near { self.near.push_back(path) } else { self.far.push_back(path) }
            }
        }
    }

    /// Returns which directories are still to be listed: directories below `near`, only other directories, or none.
    #[must_use]
    pub fn not_listed(&self) -> NotListed {
        match (self.near.is_empty(), self.far.is_empty()) {
            (false, _) => NotListed::Near,
            (true, false) => NotListed::Far,
            (true, true) => NotListed::Nothing,
        }
    }
}

/// The regular files seen so far.
#[derive(Debug, Default)]
pub struct MoveIndex {
    hashing: RandomState,
    dirs: Vec<RelPath>,
    /// Concatenated names of all files.
    names: Vec<u8>,
    files: Vec<IndexedFile>,
    /// Length, hash of the time, hash of the name, file number.
    by_len: BTreeSet<(u64, u32, u32, u32)>,
    /// Hash of the name, hash of the directory's name, file number.
    by_name: BTreeSet<(u32, u32, u32)>,
}

/// A file. Its name ends where the next file's name begins.
#[derive(Debug)]
struct IndexedFile {
    dir: u32,
    name: u32,
    len: u64,
}

/// Largest number of files in an index, of about 80 bytes each.
const MAX_FILES: usize = 1 << 19;
/// Largest total of all names in bytes.
const MAX_NAME_BYTES: usize = 16 << 20;
const MAX_DIRS: usize = 1 << 18;
/// Largest number of candidates to compare for one kind of match.
const COMPARED: usize = 64;
/// Largest number of candidates to open for one file.
const OPENED: usize = 4;
/// Minimum length in bytes of files that are matched by length alone. Unrelated files of this length rarely have the
/// same length.
const RARE_BYTES: u64 = 1 << 20;

/// Range of lengths, in bytes, in which an old version of a file of `len` bytes is expected.
#[must_use]
pub fn near(len: u64) -> RangeInclusive<u64> {
    len / 2..=len.saturating_mul(2)
}

impl MoveIndex {
    /// Adds the files of a directory. Returns false if the index is full.
    pub fn add<'a>(
        &mut self,
        dir: &RelPath,
        found: impl Iterator<Item = (&'a Name, u64, Timestamp)>,
    ) -> bool {
        let mut found = found.filter(|(_, len, _)| *len > MOVED_ABOVE_BYTES).peekable();
        if found.peek().is_none() {
            return true;
        }
        let parent = dir.components().next_back().unwrap_or_default();
        let (parent, dir_no) = (self.hash(parent), self.dirs.len() as u32);
        self.dirs.push(dir.clone());
        for (name, len, modified) in found {
            if self.files.len() >= MAX_FILES || self.names.len() >= MAX_NAME_BYTES {
                return false;
            }
            let (no, hash) = (self.files.len() as u32, self.hash(name.as_bytes()));
            self.by_len.insert((len, self.hash(modified), hash, no));
            self.by_name.insert((hash, parent, no));
            self.files.push(IndexedFile { dir: dir_no, name: self.names.len() as u32, len });
            self.names.extend_from_slice(name.as_bytes());
        }
        true
    }

    /// Returns files with this length and modification time, files with the same name first.
    #[must_use]
    pub fn exact(&self, path: &RelPath, len: u64, modified: Timestamp) -> Vec<RelPath> {
        let (time, name) = (self.hash(modified), self.hash(own_name(path)));
        let named = self.by_len.range((len, time, name, 0)..=(len, time, name, u32::MAX));
        let all = self.by_len.range((len, time, 0, 0)..=(len, time, u32::MAX, u32::MAX));
        let files = |range: std::collections::btree_set::Range<'_, (u64, u32, u32, u32)>| {
            self.nearest(range.map(|key| key.3), path, len)
        };
        best(files(named).into_iter().chain(files(all)))
    }

    /// Returns files with the same name, then large files with the same length.
    #[must_use]
    pub fn likely(&self, path: &RelPath, len: u64) -> Vec<RelPath> {
        let mut components = path.components().rev().skip(1);
        let parent = self.hash(components.next().unwrap_or_default());
        let name = self.hash(own_name(path));
        let beside = self.by_name.range((name, parent, 0)..=(name, parent, u32::MAX));
        let named = self.by_name.range((name, 0, 0)..=(name, u32::MAX, u32::MAX));
        let rare = (len, 0, 0, 0)..=(len, u32::MAX, u32::MAX, u32::MAX);
        let long = (len >= RARE_BYTES).then(|| self.by_len.range(rare));
        let of_name = beside.take(COMPARED).chain(named.take(COMPARED)).map(|key| key.2);
        let of_len = long.into_iter().flatten().map(|key| key.3);
        best(self.nearest(of_name, path, len).into_iter().chain(self.nearest(of_len, path, len)))
    }

    /// Returns the number of files.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.files.len()
    }

    /// True if the index is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns candidates sorted by similarity of path, then of length.
    fn nearest(&self, files: impl Iterator<Item = u32>, path: &RelPath, len: u64) -> Vec<RelPath> {
        let fits = |no: &u32| near(len).contains(&self.files[*no as usize].len);
        let mut found: Vec<_> = (files.take(2 * COMPARED).filter(fits))
            .filter_map(|no| Some((self.path(no)?, self.files[no as usize].len.abs_diff(len))))
            .filter(|(found, _)| found != path)
            .collect();
        found.sort_by_key(|(found, far)| {
            (std::cmp::Reverse(shared_trailing_names(found, path)), *far)
        });
        found.into_iter().map(|(path, _)| path).collect()
    }

    fn path(&self, no: u32) -> Option<RelPath> {
        let file = &self.files[no as usize];
        let end = self.files.get(no as usize + 1).map(|next| next.name as usize);
        let name = &self.names[file.name as usize..end.unwrap_or(self.names.len())];
        self.dirs[file.dir as usize].join(&Name::new(name).ok()?).ok()
    }

    fn hash(&self, what: impl std::hash::Hash) -> u32 {
        (self.hashing.hash_one(what) >> 32) as u32
    }
}

fn best(found: impl Iterator<Item = RelPath>) -> Vec<RelPath> {
    found.take(OPENED).collect()
}

fn own_name(path: &RelPath) -> &[u8] {
    path.components().next_back().unwrap_or_default()
}

/// Counts the trailing names that two paths share. The move of a directory changes only the leading names of paths.
fn shared_trailing_names(one: &RelPath, other: &RelPath) -> usize {
    let both = one.components().rev().zip(other.components().rev());
    both.take_while(|(one, other)| one == other).count()
}
