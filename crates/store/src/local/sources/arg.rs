//! What one argument means, by how it is written.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_core::path::{BadPath, printable};
use deltic_core::{Name, RelPath};
use rustix::io::Errno;

use crate::StoreError;

/// One source argument, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg {
    /// Where the paths of entries start.
    pub(super) dir: PathBuf,
    /// What is meant below it; the root for all that is in it.
    pub(super) path: RelPath,
    /// What is in a directory, and not only the directory itself.
    pub(super) contents: bool,
}

impl SourceArg {
    /// Reads `arg`: a trailing slash, `.` and `..` stand for what is in a directory.
    ///
    /// # Errors
    /// [`BadPath`] for an empty argument, which is most likely an unset variable, and for names that are too long.
    pub fn new(arg: &OsStr) -> Result<Self, BadPath> {
        let bytes = arg.as_bytes();
        let start = bytes.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
        let (dir, last) = bytes.split_at(start);
        let root = RelPath::root();
        match (dir, last) {
            (b"", b"") => Err(BadPath::Empty),
            (_, b"" | b"." | b"..") => Ok(Self { dir: path_of(bytes), path: root, contents: true }),
            (dir, name) => {
                Name::new(name)?;
                let dir = if dir.is_empty() { b"." } else { dir };
                Ok(Self { dir: path_of(dir), path: RelPath::parse(name)?, contents: false })
            }
        }
    }

    /// Reads `arg` as `--relative` does: all of it is the path, or what follows the first `/./`.
    ///
    /// # Errors
    /// Those of [`SourceArg::new`], and [`BadPath::Dots`] for `..` in the path.
    pub fn relative(arg: &OsStr) -> Result<Self, BadPath> {
        let bytes = arg.as_bytes();
        if let Some(dot) = bytes.windows(3).position(|three| three == b"/./") {
            let dir = if dot == 0 { &b"/"[..] } else { &bytes[..dot] };
            return Self::below(path_of(dir), &bytes[dot + 3..]);
        }
        match bytes {
            b"" => Err(BadPath::Empty),
            [b'/', rest @ ..] => Self::below(path_of(b"/"), rest),
            _ => Self::below(path_of(b"."), bytes),
        }
    }

    /// Reads a line of `--files-from`, whose path starts in `dir`, or behind its first `/./`. What would rise above that
    /// stays in it.
    ///
    /// # Errors
    /// As [`SourceArg::new`].
    pub fn listed(dir: &OsStr, line: &[u8]) -> Result<Self, BadPath> {
        let (mut names, mut start) = (Vec::<&[u8]>::new(), None);
        let mut parts = line.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            match part {
                b"." if start.is_none() && !names.is_empty() && parts.peek().is_some() => {
                    start = Some(names.len());
                }
                b"" | b"." => {}
                b".." if names.len() > start.unwrap_or(0) => drop(names.pop()),
                b".." => {}
                name => names.push(name),
            }
        }
        let below = names.split_off(start.unwrap_or(0));
        let mut path = below.join(&b'/');
        if matches!(line, [.., b'/'] | [.., b'/', b'.'] | b".") {
            path.push(b'/');
        }
        let mut dir = PathBuf::from(dir);
        dir.extend(names.into_iter().map(OsStr::from_bytes));
        Self::below(dir, &path)
    }

    fn below(dir: PathBuf, path: &[u8]) -> Result<Self, BadPath> {
        let contents = matches!(path, b"" | b"." | [.., b'/'] | [.., b'/', b'.']);
        let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let path = RelPath::parse(&names.collect::<Vec<_>>().join(&b'/'))?;
        Ok(Self { dir, path, contents })
    }

    /// The directory that its path starts in, as it was written.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is meant below that directory; the root for all that is in it.
    #[must_use]
    pub const fn path(&self) -> &RelPath {
        &self.path
    }

    /// The first name of what it stands for in the transfer; `None` where that is all there is in a directory.
    #[must_use]
    pub fn first_name(&self) -> Option<Name> {
        self.path.components().next().and_then(|name| Name::new(name).ok())
    }

    /// Its last name, as it was written.
    pub(super) fn own_name(&self) -> Option<Name> {
        let dir = self.dir.file_name().map(OsStr::as_bytes);
        let last = self.path.components().next_back().or(dir)?;
        Name::new(last).ok()
    }

    /// What the system answered to `action` on it.
    pub(super) fn error(&self, action: &'static str, errno: Errno) -> StoreError {
        self.error_of(action, errno.into())
    }

    /// Why there was no `action` on it.
    pub(super) fn error_for(&self, action: &'static str, why: &str) -> StoreError {
        self.error_of(action, io::Error::other(why))
    }

    fn error_of(&self, action: &'static str, source: io::Error) -> StoreError {
        let mut path = self.dir.clone();
        path.extend((!self.path.is_root()).then(|| OsStr::from_bytes(self.path.as_bytes())));
        let argument = printable(path.as_os_str().as_bytes());
        StoreError::Argument { action, argument, source }
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
