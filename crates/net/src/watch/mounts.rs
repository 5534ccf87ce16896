//! Mounts in the sources. A file system that is mounted over a directory causes no inotify event.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the kernel's table, and roots that users name"
)]

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Mount points at and below the watched directories.
pub(super) struct Mounts {
    /// The mount table. `poll` reports [`PRI`](rustix::event::PollFlags::PRI) after each change. `None` if the table
    /// cannot be opened.
    pub(super) table: Option<File>,
    /// Lines of the mount table with mount points at or below the watched directories.
    within: Vec<Vec<u8>>,
}

/// The mount table of this process.
const TABLE: &str = "/proc/self/mountinfo";

impl Mounts {
    /// Reads the present mounts. `table` becomes ready after the next change.
    pub(super) fn new(roots: &[PathBuf]) -> Self {
        let table = File::open(TABLE).ok();
        Self { table, within: mounts_below(roots) }
    }

    /// True if the mounts changed since the last call.
    pub(super) fn have_changed(&mut self, roots: &[PathBuf]) -> bool {
        let before = std::mem::replace(&mut self.within, mounts_below(roots));
        before != self.within
    }
}

fn mounts_below(roots: &[PathBuf]) -> Vec<Vec<u8>> {
    let roots: Vec<_> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
    let is_within = |line: &&[u8]| {
        let point = mount_point(line);
        point.is_some_and(|point| roots.iter().any(|root| point.starts_with(root)))
    };
    let table = fs::read(TABLE).unwrap_or_default();
    table.split(|byte| *byte == b'\n').filter(is_within).map(<[u8]>::to_vec).collect()
}

/// Returns the mount point of a line of the table.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let mut field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    while let [first, rest @ ..] = field {
        // Blanks and other special characters are escaped, as `\040`.
        let octal = rest.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(escaped.unwrap_or(*first));
        field = if escaped.is_some() { &rest[3..] } else { rest };
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_read_with_its_blanks() {
        let point = |line: &str| mount_point(line.as_bytes());
        let line = r"36 35 98:0 / /mnt/a\040b\134c rw,noatime shared:1 - ext3 /dev/root rw";
        assert_eq!(point(line), Some(r"/mnt/a b\c".into()));
        assert_eq!(point(r"1 2 0:1 / /a\0 rw - tmpfs none rw"), Some(r"/a\0".into()));
        assert_eq!(point(""), None);
    }

    #[test]
    fn mounts_are_those_at_and_below_the_roots() {
        if mounts_below(&["/".into()]).is_empty() {
            return; // Where there is no table.
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mounts_below(&[dir.path().into()]), Vec::<Vec<u8>>::new());
        assert_ne!(mounts_below(&["/proc".into()]), Vec::<Vec<u8>>::new());
        assert!(!Mounts::new(&["/".into()]).have_changed(&["/".into()]));
    }
}
