//! Moved files: indexes the files of a destination, and opens files that may be the old version of a new file.

use std::sync::Mutex;

use deltic_engine::moves::{DirQueue, MoveIndex, near};
use deltic_protocol::receiver::{FileRelation, FileStamp, MoveIndexExtent, NotListed};
use deltic_store::{Snapshot, Store};
use deltic_tree::RelPath;

use crate::lock::lock;

/// An index of the destination's files, for the directories walked so far.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    walk: Mutex<DirQueue>,
    files: Mutex<MoveIndex>,
}

impl Moves {
    /// Indexes at least `names` more names. The last directory is indexed as a whole.
    pub(super) fn draw<S: Store>(
        &self,
        store: &S,
        near: Vec<RelPath>,
        names: u64,
    ) -> MoveIndexExtent {
        let mut walk = lock(&self.walk);
        walk.begin(near);
        let mut seen = 0;
        while seen < names {
            let Some((dir, is_near)) = walk.next_dir() else { break };
            let mut rest = None;
            // A directory that cannot be listed offers no files for matching.
            while let Ok(listing) = store.list_stat(&dir, rest) {
                seen += 1 + listing.entries.len() as u64;
                walk.note(&dir, &listing.entries, is_near);
                let files = listing.entries.iter().filter(|entry| entry.meta.is_file());
                let found = files.map(|entry| (&entry.name, entry.meta.len, entry.meta.modified));
                if !lock(&self.files).add(&dir, found) {
                    return MoveIndexExtent {
                        names: seen,
                        not_listed: NotListed::Nothing,
                        has_files: true,
                    };
                }
                rest = listing.rest;
                if rest.is_none() {
                    break;
                }
            }
        }
        let has_files = !lock(&self.files).is_empty();
        MoveIndexExtent { names: seen, not_listed: walk.not_listed(), has_files }
    }

    /// Opens the file that is most likely the old version of `path`, given the new version. Also returns the relation
    /// of the file to `path`, which is no weaker than `most`.
    pub(super) fn find<S: Store>(
        &self,
        store: &S,
        path: &RelPath,
        new: FileStamp,
        most: FileRelation,
    ) -> Option<(RelPath, S::Snapshot, FileRelation)> {
        let open = |found: RelPath| Some((store.open(&found).ok()?, found));
        let exact = lock(&self.files).exact(path, new.len, new.modified);
        let is_twin = |snapshot: &S::Snapshot| FileStamp::of(snapshot.meta()) == new;
        let twin = exact.into_iter().filter_map(open).find(|(snapshot, _)| is_twin(snapshot));
        if let Some((snapshot, found)) = twin {
            return Some((found, snapshot, FileRelation::Twin));
        }
        if most < FileRelation::Kin {
            return None;
        }
        let kin = lock(&self.files).likely(path, new.len);
        let mut opened = kin.into_iter().filter_map(open);
        let (snapshot, found) =
            opened.find(|(snapshot, _)| near(new.len).contains(&snapshot.meta().len))?;
        Some((found, snapshot, FileRelation::Kin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_store::memory::MemoryStore;
    use deltic_store::{Commit, Keep, Rebuild, Replaces};
    use deltic_tree::{Kind, Meta, Name, Timestamp};

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

    fn new(len: u64, secs: i64) -> FileStamp {
        FileStamp { len, modified: at(secs) }
    }

    /// Returns a store with files of these lengths in bytes and times.
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
            let meta = Meta::without_owner(Kind::File, *len, at(*secs), 0o644);
            let commit = Commit { meta: &meta, keep: KEEP, replaces: Replaces::Nothing };
            rebuild.commit(commit).unwrap();
        }
        store
    }

    fn charted(store: &MemoryStore) -> Moves {
        let chart = Moves::default();
        while chart.draw(store, vec![RelPath::root()], 1).not_listed != NotListed::Nothing {}
        chart
    }

    #[track_caller]
    fn assert_found(
        files: &[(&str, u64, i64)],
        wanted: &str,
        new: FileStamp,
        expected: Option<(&str, FileRelation)>,
    ) {
        let store = store(files);
        let found = charted(&store).find(&store, &path(wanted), new, FileRelation::Kin);
        let found = found.map(|(path, _, relation)| (path, relation));
        assert_eq!(found, expected.map(|(name, relation)| (path(name), relation)));
    }

    #[test]
    fn length_and_time_tell_more_than_a_name_and_a_name_more_than_a_length() {
        let files =
            [("a/x", 30_000, 1), ("b/y", 40_000, 2), ("c/z", 2 << 20, 3), ("d/w", 2 << 20, 4)];
        assert_found(&files, "n/x", new(40_000, 2), Some(("b/y", FileRelation::Twin)));
        assert_found(&files, "n/x", new(40_000, 9), Some(("a/x", FileRelation::Kin)));
        assert_found(&files, "n/w", new(2 << 20, 9), Some(("d/w", FileRelation::Kin)));
        assert_found(&files, "n/v", new(30_000, 9), None);
        let one = [("c/z", 2 << 20, 3)];
        assert_found(&one, "n/v", new(2 << 20, 9), Some(("c/z", FileRelation::Kin)));
        // Lengths that differ this much are no edit of each other, and short files are not indexed.
        assert_found(&one, "n/z", new(5 << 20, 9), None);
        assert_found(&[("a/x", 16 << 10, 1)], "n/x", new(16 << 10, 1), None);
    }

    #[test]
    fn among_many_the_path_that_ends_alike_is_found() {
        let all: Vec<_> = (0..300).map(|n| (format!("old/{n}/data"), 20_000, 1)).collect();
        let mut files: Vec<_> =
            all.iter().map(|(name, len, secs)| (&**name, *len, *secs)).collect();
        files.push(("old/77/other", 20_000, 1));
        assert_found(
            &files,
            "new/77/other",
            new(20_000, 1),
            Some(("old/77/other", FileRelation::Twin)),
        );
        assert_found(
            &files,
            "new/177/data",
            new(25_000, 9),
            Some(("old/177/data", FileRelation::Kin)),
        );
    }

    #[test]
    fn a_file_that_is_gone_or_is_the_file_itself_is_not_found() {
        let store = store(&[("a", 30_000, 1), ("b", 30_000, 1)]);
        let chart = charted(&store);
        let find = |name: &str| {
            let found = chart.find(&store, &path(name), new(30_000, 1), FileRelation::Twin);
            found.map(|(path, ..)| path)
        };
        assert_eq!(find("a"), Some(path("b")));
        store.remove(&path("b"), deltic_store::RemoveOptions::default()).unwrap();
        assert_eq!(find("a"), None);
        assert_eq!(find("c"), Some(path("a")));
    }

    #[test]
    fn near_directories_are_looked_at_first_and_none_twice() {
        let store = store(&[("far/a", 30_000, 1), ("near/b", 30_000, 2), ("near/c/d", 30_000, 3)]);
        let chart = Moves::default();
        let mut seen = Vec::new();
        loop {
            let MoveIndexExtent { names, not_listed, .. } =
                chart.draw(&store, vec![path("near")], 1);
            seen.push((names, not_listed));
            if not_listed == NotListed::Nothing {
                break;
            }
        }
        use NotListed::{Far, Near, Nothing};
        assert_eq!(seen, [(3, Near), (2, Far), (3, Far), (2, Nothing)]);
        assert_eq!(lock(&chart.files).len(), 3);
    }
}
