//! Compares a directory of the destination with the digest that the sender sent.

use deltic_protocol::message::NameLine;
use deltic_protocol::receiver::EqualDir;
use deltic_store::{Store, StoreError};
use deltic_tree::{DirDigest, DirHasher, Entry, Meta, RelPath};

use super::DestinationWorker;
use crate::digests::list;

impl<S: Store> DestinationWorker<S> {
    /// Returns the number of entries in `dir`, if `dir` has the sender's digest. Returns `None` for a directory that
    /// cannot be listed; a later listing reports the reason.
    pub(super) fn compare(
        &self,
        dir: &RelPath,
        tally: &DirDigest,
        [users, groups]: &[Vec<NameLine>; 2],
    ) -> Option<EqualDir> {
        let (key, compared) = self.tallied;
        let mut hasher = DirHasher::new(&key, compared);
        let mut alike = EqualDir::default();
        let mut numbers = [Number::default(), Number::default()];
        let user = |ours| self.owners.sender_user_of(ours, users);
        let group = |ours| self.owners.sender_group_of(ours, groups);
        let listing = list(&self.store, dir, None, Some(compared)).ok()?;
        // A directory that is too long for one listing has no digest.
        if !listing.errors.is_empty() || listing.rest.is_some() {
            return None;
        }
        let contents = self.kept.digests.compared(&listing, compared);
        let mut entries = listing.entries;
        let count = || {
            if entries.len() as u64 != tally.entries {
                return None;
            }
            let contents = contents?;
            let mut contents = contents.iter();
            if !entries.iter().all(|entry| compared.cover(&entry.meta)) {
                return None;
            }
            for Entry { name, meta } in &mut entries {
                let ours = (meta.user, meta.group);
                let mut theirs = ours;
                if compared.users && self.owners.gives_users() {
                    theirs.0 = Some(numbers[0].of(ours.0?, user)?);
                }
                if compared.groups {
                    theirs.1 = Some(numbers[1].of(ours.1?, group)?);
                }
                let content = contents.next().and_then(Option::as_ref);
                (meta.user, meta.group) = theirs;
                hasher.add(name.as_bytes(), meta, content);
                (meta.user, meta.group) = ours;
                alike.add(name, meta);
            }
            let [mut ours, theirs] = [hasher.digest(), *tally].map(DirDigest::compared_part);
            if !self.owners.gives_users() {
                ours.users = theirs.users;
            }
            (ours == theirs).then_some(())
        };
        if count().is_some() {
            return Some(alike);
        }
        self.found.keep_if_room(dir, entries);
        None
    }

    /// Looks at `paths`. Entries of a directory that was found to differ are returned as they were at the comparison.
    pub(super) fn look_all(&self, paths: &[RelPath]) -> Vec<Result<Option<Meta>, StoreError>> {
        let dir = paths.first().and_then(RelPath::split_last).map(|(dir, _)| dir);
        let Some((dir, entries)) = dir.and_then(|dir| self.found.take(&dir)) else {
            return self.store.look_all(paths);
        };
        let (found, rest) = found_of(&dir, entries, paths);
        if !rest.is_empty() {
            // A long directory is listed in parts.
            self.found.keep_if_room(&dir, rest);
        }
        let unseen = paths.iter().zip(&found).filter(|(_, meta)| meta.is_none());
        let unseen: Vec<RelPath> = unseen.map(|(path, _)| path.clone()).collect();
        let mut looked = self.store.look_all(&unseen).into_iter();
        let or_looked = |meta: Option<Meta>| match meta {
            Some(meta) => Ok(Some(meta)),
            None => looked.next().expect("one answer for each path"),
        };
        found.into_iter().map(or_looked).collect()
    }
}

/// Finds `paths` among the `entries` of `dir`, both in order. Also returns the entries after the last path. A path
/// that is not found may still exist, because rules hide names.
fn found_of(
    dir: &RelPath,
    entries: Vec<Entry>,
    paths: &[RelPath],
) -> (Vec<Option<Meta>>, Vec<Entry>) {
    let mut entries = entries.into_iter().peekable();
    let find = |path: &RelPath| {
        let (_, name) = path.split_last().filter(|(above, _)| above == dir)?;
        while entries.next_if(|entry| entry.name < name).is_some() {}
        entries.next_if(|entry| entry.name == name).map(|entry| entry.meta)
    };
    let found = paths.iter().map(find).collect();
    (found, entries.collect())
}

/// Last local number that was asked for, with its answer: mostly all entries have the same owner.
#[derive(Default)]
struct Number(Option<(u32, u32)>);

impl Number {
    fn of(&mut self, ours: u32, theirs: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        if let Some((_, theirs)) = self.0.filter(|(known, _)| *known == ours) {
            return Some(theirs);
        }
        let theirs = theirs(ours)?;
        self.0 = Some((ours, theirs));
        Some(theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltic_tree::{Kind, Name, Timestamp};

    fn path(path: &str) -> RelPath {
        RelPath::parse(path.as_bytes()).unwrap()
    }

    /// Returns entries with these names, and with different lengths.
    fn entries(names: &[&str]) -> Vec<Entry> {
        let entry = |(len, name): (u64, &&str)| {
            let meta = Meta::without_owner(Kind::File, len, Timestamp::default(), 0o644);
            Entry { name: Name::new(name.as_bytes()).unwrap(), meta }
        };
        (1..).zip(names).map(entry).collect()
    }

    #[test]
    fn found_entries_are_of_their_own_name_and_directory() {
        let paths = ["d/a", "d/b", "d/c", "d/e", "other/f", "d/g"].map(path);
        let names = ["b", "c", "d", "f", "g", "h", "i"];
        let (found, rest) = found_of(&path("d"), entries(&names), &paths);
        let lens: Vec<_> = found.into_iter().map(|meta| meta.map(|meta| meta.len)).collect();
        assert_eq!(lens, [None, Some(1), Some(2), None, None, Some(5)]);
        assert_eq!(rest, entries(&names)[5..]);
    }
}
