//! Paths of directories as differences from the path before: a walk meets one directory after its neighbour.

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_tree::RelPath;
use deltic_tree::path::MAX_PATH_BYTES;

use crate::error::PeerError;
use crate::wire::codec::{BadPayload, WireEncoding};

/// Path of a directory, without the bytes that it shares with the path before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPath {
    /// Number of bytes at the start that are those of the path before.
    pub shared: usize,
    /// The bytes after the shared ones.
    pub rest: Box<[u8]>,
}

/// The path before, at either end of a session. At the start the path is empty.
#[derive(Clone, Debug, Default)]
pub struct PathBefore(Vec<u8>);

impl PathBefore {
    /// Returns `path` without the bytes shared with the path before, and makes `path` the path before.
    #[must_use]
    pub fn shorten(&mut self, path: &RelPath) -> SharedPath {
        let bytes = path.as_bytes();
        let shared = self.0.iter().zip(bytes).take_while(|(before, byte)| before == byte).count();
        let rest = &bytes[shared..];
        self.0.truncate(shared);
        self.0.extend_from_slice(rest);
        SharedPath { shared, rest: rest.into() }
    }

    /// Returns the whole path, and makes this path the path before.
    ///
    /// # Errors
    /// [`PeerError::Malformed`] if the path before is shorter than the shared part; [`PeerError::BadName`] for a path
    /// that is not valid.
    pub fn complete(
        &mut self,
        frame: &'static str,
        SharedPath { shared, rest }: &SharedPath,
    ) -> Result<RelPath, PeerError> {
        if *shared > self.0.len() {
            return Err(PeerError::Malformed { frame, source: CodecError::OutOfRange });
        }
        self.0.truncate(*shared);
        self.0.extend_from_slice(rest);
        RelPath::parse(&self.0).map_err(|source| PeerError::BadName { frame, source })
    }
}

impl WireEncoding for SharedPath {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(self.shared as u64);
        to.put_prefixed(&self.rest);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let shared = usize::try_from(from.varint()?).ok().filter(|len| *len <= MAX_PATH_BYTES);
        let shared = shared.ok_or(CodecError::OutOfRange)?;
        Ok(Self { shared, rest: from.prefixed(MAX_PATH_BYTES)?.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_come_back_and_share_what_they_can() {
        let (mut sender, mut receiver) = (PathBefore::default(), PathBefore::default());
        for (text, shared) in [("", 0), ("a/bc", 0), ("a/bd/e", 3), ("a/b", 3), ("", 0), ("x", 0)] {
            let short = sender.shorten(&path(text));
            assert_eq!((short.shared, &*short.rest), (shared, &text.as_bytes()[shared..]));
            assert_eq!(receiver.complete("a frame", &short), Ok(path(text)));
        }
    }

    #[test]
    fn a_path_that_shares_too_much_or_is_not_valid_is_refused() {
        let refused = |shared, rest: &[u8]| {
            let mut before = PathBefore::default();
            assert_eq!(before.complete("a frame", &before_of("a/bc")), Ok(path("a/bc")));
            before.complete("a frame", &SharedPath { shared, rest: rest.into() }).unwrap_err()
        };
        let source = CodecError::OutOfRange;
        assert_eq!(refused(5, b"d"), PeerError::Malformed { frame: "a frame", source });
        for (shared, rest) in
            [(2, &b"/c"[..]), (2, b""), (2, b".."), (0, b"/a"), (0, &[b'a'; 5000])]
        {
            let error = refused(shared, rest);
            assert!(matches!(error, PeerError::BadName { .. }), "{shared} {rest:?}: {error:?}");
        }
    }

    fn before_of(text: &str) -> SharedPath {
        PathBefore::default().shorten(&path(text))
    }
}
