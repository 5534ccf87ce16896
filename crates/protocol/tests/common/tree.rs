//! A tree in memory, the same for both ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltic_core::Digest;
use deltic_tree::{Entry, Kind, Meta, Name, RelPath, Timestamp};

use super::source::bytes_digest;

/// What the world's clock shows when an end writes.
pub const NOW: Timestamp = Timestamp { secs: 2_000_000_000, nanos: 7 };

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub meta: Meta,
    pub bytes: Arc<Vec<u8>>,
}

impl Node {
    pub fn file(bytes: Vec<u8>, modified: Timestamp, mode: u32) -> Self {
        let meta = Meta::without_owner(Kind::File, bytes.len() as u64, modified, mode);
        Self { meta, bytes: Arc::new(bytes) }
    }

    pub fn other(kind: Kind, modified: Timestamp, mode: u32) -> Self {
        Self { meta: Meta::without_owner(kind, 0, modified, mode), bytes: Arc::default() }
    }
}

/// Every entry below the root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree(pub BTreeMap<RelPath, Node>);

impl Tree {
    pub fn children(&self, dir: &RelPath) -> Vec<Entry> {
        let entry = |(path, node): (&RelPath, &Node)| {
            let (parent, name) = path.split_last().expect("the root is no entry");
            (parent == *dir).then(|| Entry { name, meta: node.meta.clone() })
        };
        let mut entries: Vec<_> = self.0.iter().filter_map(entry).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }

    /// What both ends say is in the file at `path`.
    pub fn content(&self, path: &RelPath) -> Option<Digest> {
        self.0.get(path).filter(|node| node.meta.is_file()).map(|node| bytes_digest(&node.bytes))
    }

    pub fn is_dir(&self, path: &RelPath) -> bool {
        path.is_root() || self.0.get(path).is_some_and(|node| node.meta.is_dir())
    }

    /// How many names are at and below `path`.
    pub fn count(&self, path: &RelPath) -> u64 {
        self.0.keys().filter(|key| key.starts_with(path)).count() as u64
    }

    /// Removes all at and below `path`; how many names that were.
    pub fn remove(&mut self, path: &RelPath) -> u64 {
        let before = self.0.len();
        self.0.retain(|key, _| !key.starts_with(path));
        (before - self.0.len()) as u64
    }

    /// Removes the last name at or below `path`.
    pub fn remove_one(&mut self, path: &RelPath) -> Option<(RelPath, Node)> {
        let last = self.0.keys().rfind(|key| key.starts_with(path))?.clone();
        self.0.remove_entry(&last)
    }
}

pub fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}
