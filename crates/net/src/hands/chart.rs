//! Where the files of a destination are, by length, time and name: what moved is looked for in it.
//!
//! It remembers what stood there when it was drawn. Whatever it finds is opened and looked at again, below the root like
//! every other name, and is matched against like every other old version. What rules leave out is not in it, for the
//! store does not list it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::Mutex;

use deltic_protocol::limits::MOVED_ABOVE_BYTES;
use deltic_protocol::receiver::{Charted, Kinship, Unseen};
use deltic_store::{Snapshot, Store};
use deltic_tree::{Entry, Name, RelPath, Timestamp};

use super::lock;

/// What was seen of a destination, and what is still to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    walk: Mutex<Walk>,
    files: Mutex<Files>,
}

/// Directories to be looked at, those highest up first.
#[derive(Debug, Default)]
struct Walk {
    is_begun: bool,
    near: VecDeque<RelPath>,
    far: VecDeque<RelPath>,
    /// Where the walk began: not to be looked at twice.
    starts: HashSet<RelPath>,
}

impl Walk {
    fn begin(&mut self, near: Vec<RelPath>) {
        self.is_begun = true;
        if !near.contains(&RelPath::root()) {
            self.far.push_back(RelPath::root());
        }
        self.starts.extend(near.iter().cloned());
        self.near.extend(near);
    }

    /// Notes the directories among the entries of `dir`.
    fn note(&mut self, dir: &RelPath, entries: &[Entry], is_near: bool) {
        let below = entries.iter().filter(|entry| entry.meta.is_dir());
        for path in below.filter_map(|entry| dir.join(&entry.name).ok()) {
            let known = self.near.len() + self.far.len();
            if known < MAX_DIRS && (is_near || !self.starts.contains(&path)) {
                if is_near { self.near.push_back(path) } else { self.far.push_back(path) }
            }
        }
    }

    fn unseen(&self) -> Unseen {
        match (self.near.is_empty(), self.far.is_empty()) {
            (false, _) => Unseen::Near,
            (true, false) => Unseen::Far,
            (true, true) => Unseen::Nothing,
        }
    }
}

/// The regular files that were seen.
#[derive(Debug, Default)]
struct Files {
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

/// Most files in a chart; each takes about 80 bytes.
const MAX_FILES: usize = 1 << 19;
/// Most bytes that their names have, and most directories that are known and not looked at.
const MAX_NAME_BYTES: usize = 16 << 20;
const MAX_DIRS: usize = 1 << 18;
/// Files of one kind that are compared before one is chosen.
const COMPARED: usize = 64;
/// Those that are opened before it is given up.
const OPENED: usize = 4;
/// From this length on, in bytes, it is rare that two files of one length have nothing to do with each other.
const RARE_BYTES: u64 = 1 << 20;

impl Chart {
    /// Looks at `names` more names, or at all of the directory in which that number is reached.
    pub(super) fn draw<S: Store>(&self, store: &S, near: Vec<RelPath>, names: u64) -> Charted {
        let mut walk = lock(&self.walk);
        if !walk.is_begun {
            walk.begin(near);
        }
        let mut seen = 0;
        while seen < names {
            let is_near = !walk.near.is_empty();
            let next = if is_near { walk.near.pop_front() } else { walk.far.pop_front() };
            let Some(dir) = next else { break };
            let mut rest = None;
            // What cannot be listed has nothing to be matched against.
            while let Ok(listing) = store.list_some(&dir, rest) {
                seen += 1 + listing.entries.len() as u64;
                walk.note(&dir, &listing.entries, is_near);
                let files = listing.entries.iter().filter(|entry| entry.meta.is_file());
                let found = files.map(|entry| (&entry.name, entry.meta.len, entry.meta.modified));
                if !lock(&self.files).add(&dir, found) {
                    return Charted { names: seen, unseen: Unseen::Nothing, has_files: true };
                }
                rest = listing.rest;
                if rest.is_none() {
                    break;
                }
            }
        }
        let has_files = !lock(&self.files).files.is_empty();
        Charted { names: seen, unseen: walk.unseen(), has_files }
    }

    /// Opens the file that is most likely an old version of `path`, whose new one has this length in bytes and this time;
    /// with how much speaks for it, which is at least `most`.
    pub(super) fn find<S: Store>(
        &self,
        store: &S,
        path: &RelPath,
        (len, modified): (u64, Timestamp),
        most: Kinship,
    ) -> Option<(RelPath, S::Snapshot, Kinship)> {
        let open = |found: RelPath| Some((store.open(&found).ok()?, found));
        let twins = lock(&self.files).twins(path, len, modified);
        let twin = twins.into_iter().filter_map(open).find(|(snapshot, _)| {
            (snapshot.meta().len, snapshot.meta().modified) == (len, modified)
        });
        if let Some((snapshot, found)) = twin {
            return Some((found, snapshot, Kinship::Twin));
        }
        if most < Kinship::Kin {
            return None;
        }
        let kin = lock(&self.files).kin(path, len);
        let mut opened = kin.into_iter().filter_map(open);
        let (snapshot, found) =
            opened.find(|(snapshot, _)| near(len).contains(&snapshot.meta().len))?;
        Some((found, snapshot, Kinship::Kin))
    }
}

/// Lengths that an edit makes of `len`, in bytes.
fn near(len: u64) -> RangeInclusive<u64> {
    len / 2..=len.saturating_mul(2)
}

impl Files {
    /// Notes files of one directory; whether all found room.
    fn add<'a>(
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
    fn twins(&self, path: &RelPath, len: u64, modified: Timestamp) -> Vec<RelPath> {
        let (time, name) = (self.hash(modified), self.hash(own_name(path)));
        let named = self.by_len.range((len, time, name, 0)..=(len, time, name, u32::MAX));
        let all = self.by_len.range((len, time, 0, 0)..=(len, time, u32::MAX, u32::MAX));
        let files = |range: std::collections::btree_set::Range<'_, (u64, u32, u32, u32)>| {
            self.nearest(range.map(|key| key.3), path, len)
        };
        best(files(named).into_iter().chain(files(all)))
    }

    /// Files of the same name, then those of the same length where that says something.
    fn kin(&self, path: &RelPath, len: u64) -> Vec<RelPath> {
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

/// How many names two paths have in common at their ends: where a directory moved, all below its own.
fn ends_alike(one: &RelPath, other: &RelPath) -> usize {
    let both = one.components().rev().zip(other.components().rev());
    both.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_store::memory::MemoryStore;
    use deltic_store::{Commit, Keep, Rebuild, Replaces};
    use deltic_tree::{Kind, Meta};

    const KEEP: Keep = Keep {
        modes: true,
        executability: false,
        times: true,
        omit_dir_times: false,
        omit_link_times: false,
        acls: false,
        xattrs: false,
    };

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, nanos: 0 }
    }

    /// A store of files of these lengths in bytes and times.
    fn store(files: &[(&str, u64, i64)]) -> MemoryStore {
        let store = MemoryStore::default();
        for (name, len, secs) in files {
            let path = path(name);
            let mut dir = RelPath::root();
            for name in path.split_last().unwrap().0.components() {
                dir = dir.join(&Name::new(name).unwrap()).unwrap();
                store.make_dir(&dir, None).unwrap();
            }
            let rebuild = store.create(&path, *len).unwrap();
            rebuild.write(0, &vec![7; *len as usize]).unwrap();
            let meta = Meta::plain(Kind::File, *len, at(*secs), 0o644);
            let commit = Commit { meta: &meta, keep: KEEP, replaces: Replaces::Nothing };
            rebuild.commit(commit).unwrap();
        }
        store
    }

    fn charted(store: &MemoryStore) -> Chart {
        let chart = Chart::default();
        while chart.draw(store, vec![RelPath::root()], 1).unseen != Unseen::Nothing {}
        chart
    }

    #[track_caller]
    fn assert_found(
        files: &[(&str, u64, i64)],
        (wanted, len, secs): (&str, u64, i64),
        expected: Option<(&str, Kinship)>,
    ) {
        let store = store(files);
        let found = charted(&store).find(&store, &path(wanted), (len, at(secs)), Kinship::Kin);
        let found = found.map(|(path, _, kinship)| (path, kinship));
        assert_eq!(found, expected.map(|(name, kinship)| (path(name), kinship)));
    }

    #[test]
    fn length_and_time_tell_more_than_a_name_and_a_name_more_than_a_length() {
        let files =
            [("a/x", 30_000, 1), ("b/y", 40_000, 2), ("c/z", 2 << 20, 3), ("d/w", 2 << 20, 4)];
        assert_found(&files, ("n/x", 40_000, 2), Some(("b/y", Kinship::Twin)));
        assert_found(&files, ("n/x", 40_000, 9), Some(("a/x", Kinship::Kin)));
        assert_found(&files, ("n/w", 2 << 20, 9), Some(("d/w", Kinship::Kin)));
        assert_found(&files, ("n/v", 30_000, 9), None);
        let one = [("c/z", 2 << 20, 3)];
        assert_found(&one, ("n/v", 2 << 20, 9), Some(("c/z", Kinship::Kin)));
        // Of such lengths there is no edit.
        assert_found(&one, ("n/z", 5 << 20, 9), None);
        assert_found(&[("a/x", 16 << 10, 1)], ("n/x", 16 << 10, 1), None);
    }

    #[test]
    fn of_many_the_one_whose_path_ends_alike_is_found() {
        let all: Vec<_> = (0..300).map(|n| (format!("old/{n}/data"), 20_000, 1)).collect();
        let mut files: Vec<_> =
            all.iter().map(|(name, len, secs)| (&**name, *len, *secs)).collect();
        files.push(("old/77/other", 20_000, 1));
        assert_found(&files, ("new/77/other", 20_000, 1), Some(("old/77/other", Kinship::Twin)));
        assert_found(&files, ("new/177/data", 25_000, 9), Some(("old/177/data", Kinship::Kin)));
    }

    #[test]
    fn what_is_not_there_any_more_or_is_the_file_itself_is_not_found() {
        let store = store(&[("a", 30_000, 1), ("b", 30_000, 1)]);
        let chart = charted(&store);
        let find = |name: &str| {
            let found = chart.find(&store, &path(name), (30_000, at(1)), Kinship::Twin);
            found.map(|(path, ..)| path)
        };
        assert_eq!(find("a"), Some(path("b")));
        store.remove(&path("b"), deltic_store::Going::default()).unwrap();
        assert_eq!(find("a"), None);
        assert_eq!(find("c"), Some(path("a")));
    }

    #[test]
    fn what_is_near_is_looked_at_first_and_nothing_twice() {
        let store = store(&[("far/a", 30_000, 1), ("near/b", 30_000, 2), ("near/c/d", 30_000, 3)]);
        let chart = Chart::default();
        let mut seen = Vec::new();
        loop {
            let Charted { names, unseen, .. } = chart.draw(&store, vec![path("near")], 1);
            seen.push((names, unseen));
            if unseen == Unseen::Nothing {
                break;
            }
        }
        use Unseen::{Far, Near, Nothing};
        assert_eq!(seen, [(3, Near), (2, Far), (3, Far), (2, Nothing)]);
        assert_eq!(lock(&chart.files).files.len(), 3);
    }
}
