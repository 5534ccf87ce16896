//! Errors with an entry of a tree, classified by the action that a caller can take.

use std::borrow::Cow;
use std::path::PathBuf;
use std::{fmt, io};

use deltic_tree::RelPath;
use deltic_tree::path::{printable, shortened};

/// Error of one entry. The entry fails, and the run continues. `Display` gives the complete message, including the
/// cause.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The entry does not exist, or no longer exists.
    NotFound {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
        /// Error of the system.
        source: io::Error,
    },
    /// Permission denied.
    Denied {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
        /// Error of the system.
        source: io::Error,
    },
    /// No space, quota or inode is left.
    Full {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
        /// Error of the system.
        source: io::Error,
    },
    /// The file changed while it was read, so the bytes do not belong to a single version. Another attempt may succeed.
    Changed {
        /// The file.
        path: RelPath,
    },
    /// A program may have been writing to the file while it was read. Another attempt may succeed.
    InUse {
        /// The file.
        path: RelPath,
    },
    /// The destination changed since this process looked at it. The change by the other program is kept.
    Conflict {
        /// The destination.
        path: RelPath,
    },
    /// The entry is not a regular file.
    NotAFile {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// The entry is not a directory, or lies below an entry that is not a directory.
    NotADir {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// A change in place failed halfway: the file is partly new and partly old.
    HalfChanged {
        /// The file.
        path: RelPath,
        /// Error of the system.
        source: io::Error,
    },
    /// The file ends before its reported length, although the file did not change. Many files in `/proc` do.
    Short {
        /// The file.
        path: RelPath,
        /// Length of the file in bytes, as reported by the system.
        len: u64,
    },
    /// The entry is in place, but some attributes could not be set.
    AttributesNotSet {
        /// The entry, which is in place.
        path: RelPath,
        /// Attributes that could not be set.
        unset: Unset,
    },
    /// A directory is not empty, so another entry cannot replace the directory.
    NotEmpty {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// The path leads through a symlink. Symlinks below a root are never followed.
    OutsideRoot {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// A symlink that should be followed has no target.
    Dangling {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// A symlink to be followed leads to a directory that contains the symlink. The tree below the symlink would be
    /// endless.
    SymlinkLoop {
        /// The symlink.
        path: RelPath,
    },
    /// A name, or the whole path, is longer than the system allows.
    TooLong {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// The path is the root or the staging directory, or this file system does not allow the name.
    BadName {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
    },
    /// A rules file cannot be parsed or is too large. This is an error, because a run must not ignore exclude rules.
    Rules {
        /// The file, safe to print.
        file: String,
        /// Line number and fault.
        why: String,
    },
    /// Filter rules protect names in a directory that was to be removed. The directory and the protected names stay;
    /// all other names were removed.
    Protected {
        /// The directory.
        path: RelPath,
    },
    /// Other programs created entries in a directory while the directory was emptied. The directory stays.
    NewEntriesAppeared {
        /// The directory.
        path: RelPath,
    },
    /// A directory that should be replaced holds backups of old versions. The directory stays with the backups.
    HoldsBackups {
        /// The directory.
        path: RelPath,
    },
    /// The path of a directory in an option leads through a symlink that belongs to another user.
    ForeignSymlink {
        /// The symlink, safe to print.
        link: String,
    },
    /// A source argument cannot be used.
    Argument {
        /// Action that failed.
        action: &'static str,
        /// Path of the argument, from the root of the file system.
        argument: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The store does not support entries or data of this type.
    Unsupported {
        /// Name of the type, in the plural.
        what: &'static str,
        /// The entry that was to be written.
        path: RelPath,
    },
    /// Any other error of the system.
    Io {
        /// Action that failed.
        action: &'static str,
        /// Path of the entry.
        path: RelPath,
        /// Error of the system.
        source: io::Error,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message_for(&self.path().map_or_else(String::new, RelPath::to_string)))
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.cause()?)
    }
}

impl StoreError {
    /// Returns the error message, in which the entry is called `path`.
    #[must_use]
    pub fn message_for(&self, path: &str) -> String {
        match self {
            Self::NotFound { action, source, .. }
            | Self::Denied { action, source, .. }
            | Self::Full { action, source, .. }
            | Self::Io { action, source, .. } => {
                let slash = if *action == "list" { "/" } else { "" };
                format!("cannot {} {path}{slash}: {}", verb(action), reason(source))
            }
            Self::Argument { action, argument, source } => {
                let argument = printable(argument.as_os_str().as_encoded_bytes());
                format!("cannot {} {}: {}", verb(action), shortened(&argument), reason(source))
            }
            Self::Changed { .. } => format!("cannot read {path}: it changed while it was read"),
            Self::InUse { .. } => format!("cannot read {path}: a program is writing to it"),
            Self::Conflict { .. } => {
                format!("cannot write {path}: the destination changed meanwhile")
            }
            Self::NotAFile { action, .. } => {
                format!("cannot {} {path}: not a regular file", verb(action))
            }
            Self::NotADir { action, .. } => {
                format!("cannot {} {path}: not a directory", verb(action))
            }
            Self::HalfChanged { source, .. } => format!(
                "cannot change {path} in place: {}; {path} is half changed; run the same command again to repair \
                 {path}",
                reason(source)
            ),
            Self::Short { len, .. } => {
                format!("cannot read {path}: the file ends before its size of {len} bytes")
            }
            Self::AttributesNotSet { unset, .. } => {
                format!("cannot set metadata of {path}: {unset}")
            }
            Self::NotEmpty { action, .. } => {
                format!("cannot {} {path}: directory not empty", verb(action))
            }
            Self::OutsideRoot { action, .. } => {
                format!("cannot {} {path}: a symlink is in the way", verb(action))
            }
            Self::Dangling { action, .. } => {
                format!("cannot {} {path}: the symlink has no referent", verb(action))
            }
            Self::SymlinkLoop { .. } => {
                format!(
                    "cannot follow {path}: the symlink leads to a directory that contains the symlink"
                )
            }
            Self::TooLong { action, .. } => {
                format!("cannot {} {}: file name too long", verb(action), shortened(path))
            }
            Self::BadName { action, .. } => {
                format!("cannot {} {path}: the name is not valid here", verb(action))
            }
            Self::Unsupported { what, .. } => {
                format!("cannot write {path}: {what} are not kept by this store")
            }
            Self::Rules { file, why } => format!("cannot read rules {file}: {why}"),
            Self::Protected { .. } => {
                format!(
                    "cannot delete non-empty directory: {path} (filter rules protect entries in it)"
                )
            }
            Self::NewEntriesAppeared { .. } => {
                format!("cannot delete non-empty directory: {path} (new entries appeared in it)")
            }
            Self::HoldsBackups { .. } => {
                format!("cannot replace {path}: the directory holds backups of old versions")
            }
            Self::ForeignSymlink { link } => format!(
                "refusing to follow {}, a symlink of another user (--insecure-links follows it)",
                shortened(link)
            ),
        }
    }

    /// Returns the path of the entry; `None` if the error does not concern an entry below the root.
    #[must_use]
    pub fn path(&self) -> Option<&RelPath> {
        match self {
            Self::NotFound { path, .. }
            | Self::Denied { path, .. }
            | Self::Full { path, .. }
            | Self::Io { path, .. }
            | Self::Changed { path }
            | Self::InUse { path }
            | Self::Conflict { path }
            | Self::NotAFile { path, .. }
            | Self::NotADir { path, .. }
            | Self::HalfChanged { path, .. }
            | Self::Short { path, .. }
            | Self::AttributesNotSet { path, .. }
            | Self::NotEmpty { path, .. }
            | Self::OutsideRoot { path, .. }
            | Self::Dangling { path, .. }
            | Self::SymlinkLoop { path }
            | Self::TooLong { path, .. }
            | Self::BadName { path, .. }
            | Self::Unsupported { path, .. }
            | Self::Protected { path }
            | Self::NewEntriesAppeared { path }
            | Self::HoldsBackups { path } => Some(path),
            Self::Rules { .. } | Self::ForeignSymlink { .. } | Self::Argument { .. } => None,
        }
    }

    /// Returns the Linux error number of the cause, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::NotADir { .. } => Some(ENOTDIR),
            Self::NotEmpty { .. } => Some(ENOTEMPTY),
            Self::OutsideRoot { .. } | Self::SymlinkLoop { .. } => Some(ELOOP),
            Self::TooLong { .. } => Some(ENAMETOOLONG),
            Self::AttributesNotSet { unset, .. } => number(&unset.0.first()?.1),
            other => number(other.cause()?),
        }
    }

    fn cause(&self) -> Option<&io::Error> {
        match self {
            Self::NotFound { source, .. }
            | Self::Denied { source, .. }
            | Self::Full { source, .. }
            | Self::Io { source, .. }
            | Self::HalfChanged { source, .. }
            | Self::Argument { source, .. } => Some(source),
            _ => None,
        }
    }

    /// True if the store had no room for the bytes of a write. The bytes were not written; a retry may succeed once
    /// room is free. False for a failed flush, which may have lost bytes of earlier writes.
    #[must_use]
    pub fn wants_room(&self) -> bool {
        matches!(self, Self::Full { action, .. } if *action != "flush")
    }

    /// Returns the error of `action` on `path` with this cause, and with `source`, the error of the system.
    #[must_use]
    pub fn new(action: &'static str, path: &RelPath, cause: Cause, source: io::Error) -> Self {
        let path = path.clone();
        match cause {
            Cause::NotFound => Self::NotFound { action, path, source },
            Cause::Denied => Self::Denied { action, path, source },
            Cause::Full => Self::Full { action, path, source },
            Cause::NotAFile => Self::NotAFile { action, path },
            Cause::NotADir => Self::NotADir { action, path },
            Cause::NotEmpty => Self::NotEmpty { action, path },
            Cause::OutsideRoot => Self::OutsideRoot { action, path },
            Cause::TooLong => Self::TooLong { action, path },
            Cause::BadName => Self::BadName { action, path },
            Cause::Other(_) => Self::Io { action, path, source },
        }
    }
}

/// Cause of a failed call. Each cause has a variant of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// [`StoreError::NotFound`].
    NotFound,
    /// [`StoreError::Denied`].
    Denied,
    /// [`StoreError::Full`].
    Full,
    /// [`StoreError::NotAFile`].
    NotAFile,
    /// [`StoreError::NotADir`].
    NotADir,
    /// [`StoreError::NotEmpty`].
    NotEmpty,
    /// [`StoreError::OutsideRoot`].
    OutsideRoot,
    /// [`StoreError::TooLong`].
    TooLong,
    /// [`StoreError::BadName`].
    BadName,
    /// [`StoreError::Io`].
    Other(io::ErrorKind),
}

impl Cause {
    /// Returns the error of `action` on `path`, for a cause without an error of the system.
    #[must_use]
    pub(crate) fn at(self, action: &'static str, path: &RelPath) -> StoreError {
        StoreError::new(action, path, self, io::Error::from(self.kind()))
    }

    const fn kind(self) -> io::ErrorKind {
        match self {
            Self::NotFound => io::ErrorKind::NotFound,
            Self::Denied => io::ErrorKind::PermissionDenied,
            Self::Full => io::ErrorKind::StorageFull,
            Self::NotAFile => io::ErrorKind::IsADirectory,
            Self::NotADir => io::ErrorKind::NotADirectory,
            Self::NotEmpty => io::ErrorKind::DirectoryNotEmpty,
            Self::OutsideRoot | Self::TooLong | Self::BadName => io::ErrorKind::InvalidFilename,
            Self::Other(kind) => kind,
        }
    }
}

/// Returns the Linux error number of `error`.
fn number(error: &io::Error) -> Option<i32> {
    // Errors that a store made itself carry no error number.
    error.raw_os_error().or_else(|| match error.kind() {
        io::ErrorKind::CrossesDevices => Some(EXDEV),
        io::ErrorKind::StorageFull => Some(ENOSPC),
        io::ErrorKind::QuotaExceeded => Some(EDQUOT),
        _ => None,
    })
}

const EXDEV: i32 = 18;
const ENOTDIR: i32 = 20;
const ENOSPC: i32 = 28;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;
const EDQUOT: i32 = 122;

/// Returns the verb of an action in messages. Few users need to know which internal step failed.
fn verb(action: &'static str) -> &'static str {
    match action {
        "look at" | "open" => "read",
        "put in place" | "commit" | "allocate" | "copy to" | "open to change" | "stage" => "write",
        other => other,
    }
}

/// Attributes of one entry that could not be set, each with its error.
#[derive(Debug, Default)]
#[must_use]
pub struct Unset(Vec<(Cow<'static, str>, io::Error)>);

impl Unset {
    /// Adds the attribute `name` with its error, if `set` is an error.
    pub fn note<E: Into<io::Error>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        set: Result<(), E>,
    ) {
        self.0.extend(set.err().map(|error| (name.into(), error.into())));
    }

    /// Returns the error of the attribute `name`, if setting this attribute failed.
    #[must_use]
    pub fn attribute_error(&self, name: &str) -> Option<&io::Error> {
        self.0.iter().find(|(unset, _)| unset == name).map(|(_, error)| error)
    }

    /// Returns the error of each attribute.
    pub fn reasons(&self) -> impl Iterator<Item = &io::Error> {
        self.0.iter().map(|(_, error)| error)
    }

    /// Adds the attributes of another entry, with the prefix `whose` before each name.
    pub fn add(&mut self, whose: &str, others: Self) {
        self.0.extend(
            others.0.into_iter().map(|(name, error)| (format!("{whose} {name}").into(), error)),
        );
    }

    /// Adds further attributes of this entry.
    pub fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Returns `Ok` if all attributes were set. Called once the entry is at `path`.
    ///
    /// # Errors
    /// [`StoreError::AttributesNotSet`] if an attribute could not be set.
    pub fn of(self, path: &RelPath) -> Result<(), StoreError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(StoreError::AttributesNotSet { path: path.clone(), unset: self })
        }
    }
}

impl fmt::Display for Unset {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, error)) in self.0.iter().take(MAX_TOLD).enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            write!(to, "{comma}{name}: {}", reason(error))?;
        }
        match self.0.len().saturating_sub(MAX_TOLD) {
            0 => Ok(()),
            more => write!(to, ", and {more} more"),
        }
    }
}

/// Most attributes of one entry that a message names.
const MAX_TOLD: usize = 8;

/// Adds the action and the path of the entry to the cause of a failed call.
pub(crate) trait At<T> {
    fn at(self, action: &'static str, path: &RelPath) -> Result<T, StoreError>;
}

impl<T> At<T> for Result<T, Cause> {
    fn at(self, action: &'static str, path: &RelPath) -> Result<T, StoreError> {
        self.map_err(|cause| cause.at(action, path))
    }
}

/// Returns the error text of the system without the number, in lower case, as used at the end of messages.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut rest = words.chars();
    rest.next().map(|first| first.to_lowercase().chain(rest).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_was_tried_with_what_and_why_not() {
        let path = RelPath::parse(b"notes\x1b.img").unwrap();
        let denied = Cause::Denied.at("open", &path);
        assert_eq!(denied.to_string(), "cannot read notes\\u{1b}.img: permission denied");
        assert!(matches!(denied, StoreError::Denied { .. }));
        let full = Cause::Full.at("write", &path);
        assert_eq!(full.to_string(), "cannot write notes\\u{1b}.img: no storage space");
        assert!(full.wants_room() && !denied.wants_room());
        assert!(!Cause::Full.at("flush", &path).wants_room());
    }

    #[test]
    fn each_attribute_that_could_not_be_set_is_named_and_many_are_counted() {
        let path = RelPath::parse(b"a").unwrap();
        let mut unset = Unset::default();
        let fails = |kind: io::ErrorKind| Err::<(), _>(kind);
        unset.note("mode", Ok::<_, io::Error>(()));
        assert!(unset.attribute_error("mode").is_none());
        unset.note("owner", fails(io::ErrorKind::PermissionDenied));
        unset.note("ACL", fails(io::ErrorKind::Unsupported));
        let kinds: Vec<_> = unset.reasons().map(io::Error::kind).collect();
        assert_eq!(kinds, [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported]);
        assert_eq!(unset.attribute_error("owner").map(io::Error::kind), Some(kinds[0]));
        let told = unset.of(&path).unwrap_err().to_string();
        let both = "owner: permission denied, ACL: unsupported";
        assert_eq!(told, format!("cannot set metadata of a: {both}"));
        let mut many = Unset::default();
        let denied = || fails(io::ErrorKind::PermissionDenied);
        (0..MAX_TOLD + 2).for_each(|n| many.note(format!("xattr user.{n}"), denied()));
        assert!(many.to_string().ends_with("xattr user.7: permission denied, and 2 more"));
        assert!(Unset::default().of(&path).is_ok());
    }
}
