//! The files of a destination by length, time and name: moved files are looked for among them.
//!
//! An index remembers what stood there when it was made. Whatever it finds is opened and looked at again, below the
//! root like every other name, and is matched against like every other old version. Files that rules leave out are not
//! in it: the store does not list them.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

use deltic_protocol::limits::MOVED_ABOVE_BYTES;
use deltic_protocol::receiver::Unseen;
use deltic_tree::{Entry, Name, RelPath, Timestamp};

/// Directories to be looked at, those highest up first.
#[derive(Debug, Default)]
pub struct Walk {
    is_begun: bool,
    near: VecDeque<RelPath>,
    far: VecDeque<RelPath>,
    /// The directories that it began at: not to be looked at twice.
    starts: HashSet<RelPath>,
}

impl Walk {
    /// Begins at the directories `near`, then at the root; does nothing if it has begun.
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

    /// The next directory to look at, and whether it is below one that was near.
    pub fn next_dir(&mut self) -> Option<(RelPath, bool)> {
        let near = self.near.pop_front().map(|dir| (dir, true));
        near.or_else(|| Some((self.far.pop_front()?, false)))
    }

    /// Notes the directories among the entries of `dir`.
    pub fn note(&mut self, dir: &RelPath, entries: &[Entry], is_near: bool) {
        let below = entries.iter().filter(|entry| entry.meta.is_dir());
        for path in below.filter_map(|entry| dir.join(&entry.name).ok()) {
            let known = self.near.len() + self.far.len();
            if known < MAX_DIRS && (is_near || !self.starts.contains(&path)) {
                if is_near { self.near.push_back(path) } else { self.far.push_back(path) }
            }
        }
    }

    /// The place of what is still to be looked at.
    #[must_use]
    pub fn unseen(&self) -> Unseen {
        match (self.near.is_empty(), self.far.is_empty()) {
            (false, _) => Unseen::Near,
            (true, false) => Unseen::Far,
            (true, true) => Unseen::Nothing,
        }
    }
}

/// The regular files that were seen.
#[derive(Debug, Default)]
pub struct MoveIndex {
    hashing: RandomState,
    dirs: Vec<RelPath>,
    /// All names, one behind the other.
    names: Vec<u8>,
    files: Vec<File>,
    /// By length, then by the hashes of time and name.
    by_len: BTreeSet<(u64, u32, u32, u32)>,
    /// By the hashes of the name and of the directory's name.
    by_name: BTreeSet<(u32, u32, u32)>,
}

/// A file; its name ends where the next one's begins.
#[derive(Debug)]
struct File {
    dir: u32,
    name: u32,
    len: u64,
}

/// Most files in an index; each takes about 80 bytes.
const MAX_FILES: usize = 1 << 19;
/// Most bytes that their names have, and most directories that are known and not looked at.
const MAX_NAME_BYTES: usize = 16 << 20;
const MAX_DIRS: usize = 1 << 18;
/// Files of one kind that are compared before one is chosen.
const COMPARED: usize = 64;
/// Files that are opened before the search is given up.
const OPENED: usize = 4;
/// From this length on, in bytes, it is rare that two files of one length have nothing to do with each other.
const RARE_BYTES: u64 = 1 << 20;

/// Lengths that an edit makes of `len`, in bytes.
#[must_use]
pub fn near(len: u64) -> RangeInclusive<u64> {
    len / 2..=len.saturating_mul(2)
}

impl MoveIndex {
    /// Notes files of one directory; false if not all found room.
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
            self.files.push(File { dir: dir_no, name: self.names.len() as u32, len });
            self.names.extend_from_slice(name.as_bytes());
        }
        true
    }

    /// Files of this length and time, those of the same name first.
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

    /// Files of the same name, then those of the same length where that says something.
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

    /// The number of its files.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.files.len()
    }

    /// True if it has no file.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Some of these files, those first that are called most like `path` and have the nearest length.
    fn nearest(&self, files: impl Iterator<Item = u32>, path: &RelPath, len: u64) -> Vec<RelPath> {
        let fits = |no: &u32| near(len).contains(&self.files[*no as usize].len);
        let mut found: Vec<_> = (files.take(2 * COMPARED).filter(fits))
            .filter_map(|no| Some((self.path(no)?, self.files[no as usize].len.abs_diff(len))))
            .filter(|(found, _)| found != path)
            .collect();
        found.sort_by_key(|(found, far)| (std::cmp::Reverse(ends_alike(found, path)), *far));
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

/// Counts the names that two paths have in common at their ends: where a directory moved, all below its own.
fn ends_alike(one: &RelPath, other: &RelPath) -> usize {
    let both = one.components().rev().zip(other.components().rev());
    both.take_while(|(one, other)| one == other).count()
}
