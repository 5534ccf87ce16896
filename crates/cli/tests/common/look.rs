//! The look of a tree, in all that is carried; and as much of it as is to be compared.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::attrs::{noted, notes};

/// All that is carried of one name.
#[derive(Clone, Debug)]
pub struct Look {
    pub kind: Kind,
    pub mode: u32,
    pub owner: (u32, u32),
    pub device: u64,
    pub inode: u64,
    /// Counts its names.
    pub names: u64,
    pub modified: (i64, i64),
    pub accessed: i64,
    /// Content of a file, or target of a link.
    pub content: String,
    pub notes: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Dir,
    File,
    Link,
    Node,
}

/// Every name below `root`, and `root` itself. Nothing counts as read by it.
pub fn look(root: &Path) -> BTreeMap<PathBuf, Look> {
    let mut all = BTreeMap::new();
    let mut paths = vec![root.to_path_buf()];
    while let Some(path) = paths.pop() {
        let look = Look::at(&path);
        if look.kind == Kind::Dir {
            let entries = fs::read_dir(&path).into_iter().flatten();
            paths.extend(entries.map(|entry| entry.expect("it can be listed").path()));
        }
        all.insert(path.strip_prefix(root).expect("it is below").to_path_buf(), look);
    }
    all
}

impl Look {
    fn at(path: &Path) -> Self {
        let meta =
            path.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let form = meta.file_type();
        let (kind, content) = if form.is_dir() {
            (Kind::Dir, "dir".into())
        } else if form.is_file() {
            let content = match fs::read(path) {
                Ok(bytes) => format!("{} bytes, {:x}", bytes.len(), fingerprint(&bytes)),
                Err(_) => "unreadable".into(),
            };
            let last_access = Timespec { tv_sec: meta.atime(), tv_nsec: meta.atime_nsec() };
            let last_modification = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let times = Timestamps { last_access, last_modification };
            let _ = utimensat(CWD, path, &times, AtFlags::empty()); // It may be another's.
            (Kind::File, content)
        } else if form.is_symlink() {
            let target = fs::read_link(path).expect("it is a link");
            (Kind::Link, format!("-> {}", target.as_os_str().as_bytes().escape_ascii()))
        } else {
            let what = match (form.is_fifo(), form.is_socket(), form.is_block_device()) {
                (true, ..) => "fifo",
                (_, true, _) => "socket",
                (_, _, true) => "block",
                _ => "char",
            };
            (Kind::Node, what.into())
        };
        let value = |name: String| noted(path, &name).map(|value| (name, value));
        Self {
            kind,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            device: meta.rdev(),
            inode: meta.ino(),
            names: meta.nlink(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            accessed: meta.atime(),
            content,
            notes: notes(path).into_iter().filter_map(value).collect(),
        }
    }
}

fn fingerprint(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
