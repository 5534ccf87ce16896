//! Names and relative paths, checked on entry to the process.
//!
//! Every name from a peer or a file system becomes a [`Name`] or a [`RelPath`] before other code uses the name. A
//! `RelPath` cannot leave its root. Names are bytes, not text: Unix names need not be UTF-8.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Longest name of a directory entry, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest path below a root, in bytes.
pub const MAX_PATH_BYTES: usize = 4096;
/// Largest number of components in a path below a root.
pub const MAX_DEPTH: usize = 256;

/// Why bytes are not a valid name or relative path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    /// An empty name, or two slashes in a row.
    #[error("empty name")]
    Empty,
    /// `.` or `..`, which are references to directories and not names.
    #[error("'.' or '..' is not a name")]
    Dots,
    /// A NUL byte, or a slash inside a name.
    #[error("name holds a NUL or a slash")]
    Separator,
    /// A name, path or depth over the limit.
    #[error("file name too long")]
    TooLong,
}

/// Name of a directory entry: no slash, no NUL, neither `.` nor `..`, at most [`MAX_NAME_BYTES`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Checks `bytes` as the name of a directory entry.
    ///
    /// # Errors
    /// [`BadPath`] if `bytes` is not a valid name.
    pub fn new(bytes: &[u8]) -> Result<Self, BadPath> {
        match bytes {
            b"" => Err(BadPath::Empty),
            b"." | b".." => Err(BadPath::Dots),
            _ if bytes.iter().any(|b| matches!(b, 0 | b'/')) => Err(BadPath::Separator),
            _ if bytes.len() > MAX_NAME_BYTES => Err(BadPath::TooLong),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A path below a root: zero or more [`Name`]s. The root itself is the empty path. Clones share the bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Arc<[u8]>);

impl RelPath {
    /// Returns the root itself.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses names joined by single slashes. The empty string is the root.
    ///
    /// # Errors
    /// [`BadPath`] if a component is not a valid name, or the path exceeds a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadPath> {
        if bytes.is_empty() {
            return Ok(Self::root());
        }
        if bytes.len() > MAX_PATH_BYTES {
            return Err(BadPath::TooLong);
        }
        let mut depth = 0;
        for name in bytes.split(|b| *b == b'/') {
            Name::new(name)?;
            depth += 1;
        }
        if depth > MAX_DEPTH { Err(BadPath::TooLong) } else { Ok(Self(bytes.into())) }
    }

    /// Returns the path of the entry `name` in this directory.
    ///
    /// # Errors
    /// [`BadPath::TooLong`] if the new path exceeds a limit.
    pub fn join(&self, name: &Name) -> Result<Self, BadPath> {
        if !self.can_hold(name) {
            return Err(BadPath::TooLong);
        }
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.0.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(&name.0);
        Ok(Self(bytes.into()))
    }

    /// True if [`join`](Self::join) succeeds for `name`.
    #[must_use]
    pub fn can_hold(&self, name: &Name) -> bool {
        let len = self.0.len() + usize::from(!self.is_root()) + name.0.len();
        len <= MAX_PATH_BYTES && self.components().count() < MAX_DEPTH
    }

    /// True if this is the root itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the names from the root downwards.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/').filter(|name| !name.is_empty())
    }

    /// Splits the path into parent directory and last name. Returns `None` for the root.
    #[must_use]
    pub fn split_last(&self) -> Option<(Self, Name)> {
        let name = self.components().next_back()?;
        let parent = self.0.len().saturating_sub(name.len() + 1);
        Some((Self(self.0[..parent].into()), Name(name.into())))
    }

    /// True if this path is `dir` or lies below `dir`.
    #[must_use]
    pub fn starts_with(&self, dir: &Self) -> bool {
        dir.is_root()
            || self.0.strip_prefix(&*dir.0).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }

    /// Returns the names joined by slashes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Formats bytes for a terminal or a log. Control, format and invalid characters are escaped, so that a name can
/// neither drive a terminal nor forge a log line.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || is_format_control(c) {
                text.extend(c.escape_default())
            } else {
                text.push(c)
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// True for invisible characters that change the direction of text, end a line or hide in a name: Unicode's format
/// characters, except the two joiners of words and emoji.
#[must_use]
pub const fn is_format_control(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

/// Shortens a very long path for a message: the middle becomes `...`.
#[must_use]
pub fn shortened(path: &str) -> Cow<'_, str> {
    if path.len() <= LONG_BYTES {
        return path.into();
    }
    let first: String = path.chars().take(SHOWN).collect();
    let last: String = path.chars().rev().take(SHOWN).collect();
    format!("{first}...{}", last.chars().rev().collect::<String>()).into()
}

/// Longest path that [`shortened`] leaves unchanged, in bytes.
const LONG_BYTES: usize = 1000;
/// Number of characters that [`shortened`] keeps at each end of a longer path.
const SHOWN: usize = 60;

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", printable(&self.0))
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { "" })?;
        f.write_str(&printable(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", printable(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_could_leave_its_root_is_refused() {
        for bad in ["/", "/etc", "a//b", "a/", "..", "a/../b", "./a", "a/.", "a\0b"] {
            assert!(RelPath::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert_eq!(RelPath::parse(&[b'a'; 256]), Err(BadPath::TooLong));
        assert_eq!(RelPath::parse("a/".repeat(2000).as_bytes()), Err(BadPath::Empty));
        assert_eq!(
            RelPath::parse([&b"a/".repeat(256)[..], b"a"].concat().as_slice()),
            Err(BadPath::TooLong)
        );
    }

    #[test]
    fn join_and_split_last_are_inverse() {
        let dir = RelPath::parse(b"a/b").unwrap();
        let name = Name::new(b"c").unwrap();
        let path = dir.join(&name).unwrap();
        assert_eq!(path.as_bytes(), b"a/b/c");
        assert_eq!(path.split_last(), Some((dir, name)));
        assert_eq!(RelPath::root().split_last(), None);
    }

    #[test]
    fn starts_with_compares_whole_names() {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        assert!(path("a/b").starts_with(&path("a")));
        assert!(path("a").starts_with(&path("a")));
        assert!(path("a").starts_with(&RelPath::root()));
        assert!(!path("ab").starts_with(&path("a")));
    }

    #[test]
    fn a_name_cannot_drive_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\n\xff"), "a\\u{1b}[2Jb\\n\\xff");
        assert_eq!(printable("\u{202e}gpj.exe é".as_bytes()), "\\u{202e}gpj.exe é");
        assert_eq!(
            printable("a\u{200b}\u{feff}\u{2028}".as_bytes()),
            "a\\u{200b}\\u{feff}\\u{2028}"
        );
        let joined = "می\u{200c}خواهم 👩\u{200d}🚀";
        assert_eq!(printable(joined.as_bytes()), joined);
    }
}
