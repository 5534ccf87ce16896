//! The meaning of one source argument, which depends on how it is written.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use deltic_core::packed::OutOfRoom;
use deltic_core::{PackedStrings, Put};
use deltic_tree::path::{BadPath, printable, shortened};
use deltic_tree::{Name, RelPath};

/// A source argument, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg {
    /// The directory that the paths of entries start in.
    pub(super) dir: PathBuf,
    /// Path below the directory. The root stands for the contents of the directory.
    pub(super) path: RelPath,
    /// True for the contents of a directory, and not the directory itself.
    pub(super) contents: bool,
    /// True if the path was written after `./`: the directory where the path starts is then sent as well.
    dotted: bool,
}

impl SourceArg {
    /// Parses `arg`: a trailing slash, `.` and `..` stand for the contents of a directory.
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
            (_, b"" | b"." | b"..") => {
                let (dir, path) = (path_of(bytes), root);
                Ok(Self { dir, path, contents: true, dotted: false })
            }
            (dir, name) => {
                Name::new(name)?;
                let dir = if dir.is_empty() { b"." } else { dir };
                let (dir, path) = (path_of(dir), RelPath::parse(name)?);
                Ok(Self { dir, path, contents: false, dotted: false })
            }
        }
    }

    /// Parses `arg` as `--relative` does: the path is the whole argument, or the part behind the first `/./`.
    ///
    /// # Errors
    /// The errors of [`SourceArg::new`], and [`BadPath::Dots`] for `..` in the path.
    pub fn relative(arg: &OsStr) -> Result<Self, BadPath> {
        let bytes = arg.as_bytes();
        if let Some(dot) = bytes.windows(3).position(|three| three == b"/./") {
            let dir = if dot == 0 { &b"/"[..] } else { &bytes[..dot] };
            return Self::below_dir(path_of(dir), &bytes[dot + 3..]);
        }
        match bytes {
            b"" => Err(BadPath::Empty),
            [b'/', rest @ ..] => Self::below_dir(path_of(b"/"), rest),
            _ => {
                let dotted = Self::is_dotted(bytes);
                Ok(Self { dotted, ..Self::below_dir(path_of(b"."), bytes)? })
            }
        }
    }

    /// Parses a line of `--files-from`. Its path starts in `dir`, or behind its first `/./`. A `..` does not lead above
    /// that start.
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
        Ok(Self { dotted: Self::is_dotted(line), ..Self::below_dir(dir, &path)? })
    }

    /// True if `./` is written before a path without `/./`. With relative paths, the transfer then includes the
    /// attributes of the directory where the path starts.
    #[must_use]
    pub fn is_dotted(path: &[u8]) -> bool {
        path.len() > 2 && path.starts_with(b"./") && !path.windows(3).any(|three| three == b"/./")
    }

    fn below_dir(dir: PathBuf, path: &[u8]) -> Result<Self, BadPath> {
        let contents = matches!(path, b"" | b"." | [.., b'/'] | [.., b'/', b'.']);
        let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let path = RelPath::parse(&names.collect::<Vec<_>>().join(&b'/'))?;
        Ok(Self { dir, path, contents, dotted: false })
    }

    /// Returns the directory that the path starts in, as it was written.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path below that directory; the root stands for the directory's contents.
    #[must_use]
    pub const fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns the first name of the argument's path in the transfer; `None` if the argument stands for the contents
    /// of a directory.
    #[must_use]
    pub fn first_name(&self) -> Option<Name> {
        self.path.components().next().and_then(|name| Name::new(name).ok())
    }
}

/// Source arguments, in order. A list may have a million arguments.
#[derive(Debug, Default)]
pub struct SourceArgs {
    /// For each argument: the index of the directory in `bases`, whether the argument stands for the contents of a
    /// directory, and the path.
    pub(super) packed: PackedStrings,
    /// The directories that paths start in, as written; true for arguments that stand for the contents.
    pub(super) bases: Vec<(OsString, bool)>,
    /// Index of the directory of an argument that was written after `./`.
    pub(super) dotted: Option<usize>,
    known: HashMap<(OsString, bool), usize>,
    /// Arguments that are no valid paths, safe to print, with the errors.
    pub(super) refused: Vec<(PathBuf, BadPath)>,
}

impl SourceArgs {
    /// Adds an argument.
    ///
    /// # Errors
    /// [`OutOfRoom`] if there are too many.
    pub fn push(&mut self, arg: SourceArg) -> Result<(), OutOfRoom> {
        let base = (arg.dir.into_os_string(), arg.path.is_root());
        let no = self.known.get(&base).copied().unwrap_or_else(|| {
            self.bases.push(base.clone());
            self.known.insert(base, self.bases.len() - 1);
            self.bases.len() - 1
        });
        if arg.dotted {
            self.dotted.get_or_insert(no);
        }
        let mut bytes = Vec::with_capacity(arg.path.as_bytes().len() + 2);
        bytes.put_varint((no as u64) << 1 | u64::from(arg.contents));
        bytes.put_bytes(arg.path.as_bytes());
        self.packed.push(&bytes).map(drop)
    }

    /// Adds an argument that is no valid path. The error is reported when the root is listed.
    pub fn refuse(&mut self, arg: &[u8], why: BadPath) {
        let shown = shortened(&printable(arg)).into_owned();
        self.refused.push((shown.into(), why));
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
