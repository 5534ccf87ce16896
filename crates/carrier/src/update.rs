//! Updates: a new version of a file in one message, as bytes and as copies from a version that both ends have.
//!
//! ```text
//! update   form (1), path with its length, base, length of the new version, its modification time, its mode,
//!          attributes to set (bits: 1 times, 2 modes), presence of a directory time (0 or 1), directory time, steps
//! step     2 × length, start in the base; or 2 × length + 1, bytes
//! time     seconds, nanoseconds
//! answer   0: the version is in place and flushed; 1: the file is not the base
//! ```
//!
//! A *base* is the name of a version at both ends: the digest of its content, or of the update that made it. So a
//! chain of updates never hashes the file. Numbers are varints, except the form, the bits and the presence, which are
//! a byte each.

use deltic_core::{CodecError, Put, Reader};
use deltic_tree::{RelPath, Timestamp};

/// Most bytes of an update. Longer changes need a session.
pub const MAX_UPDATE_BYTES: usize = 256 << 10;
/// Most bytes of a file that can be updated, in the old version and in the new version.
pub const MAX_FILE_BYTES: u64 = 32 << 20;
/// Most steps of an update.
const MAX_STEPS: usize = 4096;
const MAX_PATH_BYTES: usize = 4096;
const FORM: u8 = 1;
const COUNTS_TIMES: u8 = 1;
const COUNTS_MODES: u8 = 2;
const CONTENT: &str = "deltic.1 content of an updated file";
const UPDATE: &str = "deltic.1 update of a file";

/// Name of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base([u8; 32]);

impl Base {
    /// Returns the name of a version with `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::derive_key(CONTENT, content))
    }

    /// Returns the name of a version whose content is read in pieces. `read` fills a buffer with the next bytes and
    /// returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn from_pieces<E>(mut read: impl FnMut(&mut [u8]) -> Result<usize, E>) -> Result<Self, E> {
        let mut hasher = blake3::Hasher::new_derive_key(CONTENT);
        let mut piece = vec![0; 64 << 10];
        loop {
            match read(&mut piece)? {
                0 => return Ok(Self(hasher.finalize().into())),
                len => hasher.update(&piece[..len]),
            };
        }
    }

    /// Returns the name of the version that this update makes.
    #[must_use]
    pub fn made_by(update: &[u8]) -> Self {
        Self(blake3::derive_key(UPDATE, update))
    }
}

/// Fields of an update that precede its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Path of the file in the volume.
    pub path: RelPath,
    /// Version that copies are taken from.
    pub base: Base,
    /// Length of the new version, in bytes.
    pub len: u64,
    /// Modification time of the new version.
    pub modified: Timestamp,
    /// Permission bits of the new version.
    pub mode: u32,
    /// True if the modification time is to be set.
    pub times: bool,
    /// True if the permission bits are to be set.
    pub modes: bool,
    /// Modification time to set on the directory of the file, since the update changes the directory.
    pub dir_modified: Option<Timestamp>,
}

/// A part of the new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A copy from the base.
    Copy {
        /// Offset in the base, in bytes.
        start: u64,
        /// Length of the copy, in bytes.
        len: u64,
    },
    /// Literal bytes, which are not in the base.
    Bytes(&'a [u8]),
}

impl Step<'_> {
    /// Returns the length of the step in the new version, in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Copy { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// True if the length is 0.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Encodes an update. `None` if the update or the file is too long.
#[must_use]
pub fn encode<'a>(head: &Head, steps: impl IntoIterator<Item = Step<'a>>) -> Option<Vec<u8>> {
    let mut out = vec![FORM];
    out.put_prefixed(head.path.as_bytes());
    out.put_bytes(&head.base.0);
    out.put_varint(head.len);
    put_time(&mut out, head.modified);
    out.put_varint(head.mode.into());
    let counts = |counts: bool, bit| if counts { bit } else { 0 };
    out.put_u8(counts(head.times, COUNTS_TIMES) | counts(head.modes, COUNTS_MODES));
    out.put_u8(head.dir_modified.is_some().into());
    head.dir_modified.inspect(|time| put_time(&mut out, *time));
    let mut left = MAX_STEPS;
    for step in steps {
        left = left.checked_sub(1)?;
        match step {
            Step::Copy { start, len } => {
                out.put_varint(len << 1);
                out.put_varint(start);
            }
            Step::Bytes(bytes) => {
                out.put_varint((bytes.len() as u64) << 1 | 1);
                out.put_bytes(bytes);
            }
        }
        if out.len() > MAX_UPDATE_BYTES {
            return None;
        }
    }
    (head.len <= MAX_FILE_BYTES).then_some(out)
}

/// Decodes an update that [`encode`] encoded.
///
/// # Errors
/// [`CodecError`] if the update is malformed or exceeds a limit.
pub fn read(update: &[u8]) -> Result<(Head, Vec<Step<'_>>), CodecError> {
    let mut from = Reader::new(update);
    if from.u8()? != FORM || update.len() > MAX_UPDATE_BYTES {
        return Err(CodecError::OutOfRange);
    }
    let path = from.prefixed(MAX_PATH_BYTES)?;
    let path = RelPath::parse(path).map_err(|_| CodecError::OutOfRange)?;
    let (base, len) = (Base(from.array()?), from.varint()?);
    let (modified, mode, counts) = (read_time(&mut from)?, from.varint_u32()?, from.u8()?);
    let dir_modified = match from.u8()? {
        0 => None,
        1 => Some(read_time(&mut from)?),
        _ => return Err(CodecError::OutOfRange),
    };
    let is_known = counts & !(COUNTS_TIMES | COUNTS_MODES) == 0 && mode & !0o7777 == 0;
    if path.is_root() || len > MAX_FILE_BYTES || !is_known {
        return Err(CodecError::OutOfRange);
    }
    let (times, modes) = (counts & COUNTS_TIMES != 0, counts & COUNTS_MODES != 0);
    let steps = read_steps(from, len)?;
    Ok((Head { path, base, len, modified, mode, times, modes, dir_modified }, steps))
}

/// Reads the steps of an update to a version of `len` bytes.
fn read_steps(mut from: Reader<'_>, len: u64) -> Result<Vec<Step<'_>>, CodecError> {
    let (mut steps, mut left) = (Vec::new(), len);
    while !from.is_empty() {
        let word = from.varint()?;
        let len = word >> 1;
        left = left.checked_sub(len).ok_or(CodecError::OutOfRange)?;
        if len == 0 || steps.len() == MAX_STEPS {
            return Err(CodecError::OutOfRange);
        }
        steps.push(match word & 1 {
            0 => Step::Copy { start: from.varint()?, len },
            _ => Step::Bytes(from.bytes(len as usize)?),
        });
    }
    if left == 0 { Ok(steps) } else { Err(CodecError::Truncated) }
}

fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    out.put_signed(time.secs);
    out.put_varint(time.nanos.into());
}

fn read_time(from: &mut Reader<'_>) -> Result<Timestamp, CodecError> {
    let (secs, nanos) = (from.signed()?, from.varint_u32()?);
    if nanos < 1_000_000_000 { Ok(Timestamp { secs, nanos }) } else { Err(CodecError::OutOfRange) }
}

/// Answer to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The new version is in place and flushed.
    Done,
    /// Nothing was changed: the file is not the base of the update. A session can transfer the new version.
    OtherBase,
}

impl Answer {
    /// Returns the byte that encodes the answer.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::OtherBase => 1,
        }
    }

    /// Decodes an answer.
    #[must_use]
    pub const fn read(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(Self::Done),
            [1] => Some(Self::OtherBase),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn head(len: u64) -> Head {
        Head {
            path: RelPath::parse(b"dir/file").unwrap(),
            base: Base([3; 32]),
            len,
            modified: Timestamp { secs: -7, nanos: 8 },
            mode: 0o640,
            times: true,
            modes: false,
            dir_modified: Some(Timestamp { secs: 1, nanos: 2 }),
        }
    }

    proptest! {
        #[test]
        fn an_update_comes_back_as_it_went(parts in vec((any::<u16>(), vec(any::<u8>(), 0..40)), 0..20)) {
            let steps = parts.iter().map(|(start, bytes)| match bytes.is_empty() {
                true => Step::Copy { start: (*start).into(), len: 1 + u64::from(*start) },
                false => Step::Bytes(bytes),
            });
            let steps: Vec<_> = steps.collect();
            let head = head(steps.iter().map(Step::len).sum());
            let update = encode(&head, steps.iter().copied()).unwrap();
            prop_assert_eq!(read(&update), Ok((head, steps)));
            for end in 0..update.len() {
                prop_assert!(read(&update[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_an_update_in_one_form_or_none(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok((head, steps)) = read(&bytes) {
                prop_assert_eq!(encode(&head, steps), Some(bytes));
            }
        }
    }

    #[test]
    fn the_bytes_are_what_the_documentation_says() {
        let steps = [Step::Copy { start: 300, len: 200 }, Step::Bytes(b"new")];
        let update = encode(&head(203), steps).unwrap();
        let base = [3; 32];
        let expected = [
            &[1, 8][..],
            b"dir/file",
            &base,
            &[0xcb, 1],
            &[13, 8],
            &[0xa0, 3],
            &[1],
            &[1, 2, 2],
            &[0x90, 3, 0xac, 2],
            &[7],
            b"new",
        ];
        assert_eq!(update, expected.concat());
    }

    #[test]
    fn the_base_of_a_content_does_not_depend_on_read_sizes() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let mut rest = &content[..];
        let read = |piece: &mut [u8]| {
            let len = rest.len().min(piece.len()).min(70_001);
            piece[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            Ok::<_, ()>(len)
        };
        assert_eq!(Base::from_pieces(read), Ok(Base::of(&content)));
    }

    #[test]
    fn an_update_has_bounds() {
        let bytes = vec![0; MAX_UPDATE_BYTES];
        assert_eq!(encode(&head(bytes.len() as u64), [Step::Bytes(&bytes)]), None);
        let long = Head { len: MAX_FILE_BYTES + 1, ..head(0) };
        let copy = Step::Copy { start: 0, len: long.len };
        assert_eq!(encode(&long, [copy]), None);
        let many = (0..=MAX_STEPS).map(|_| Step::Bytes(b"x"));
        assert_eq!(encode(&head(MAX_STEPS as u64 + 1), many), None);
        // A length without the bytes that the length announces, and a length that wraps.
        let mut update = encode(&head(5), []).unwrap();
        update.put_varint(u64::MAX);
        assert!(read(&update).is_err());
        let root = Head { path: RelPath::root(), ..head(0) };
        assert!(read(&encode(&root, []).unwrap()).is_err());
        for path in [&b"../x"[..], b"/x", b"a/../b", b"a//b", b"a\0b"] {
            assert!(RelPath::parse(path).is_err(), "{path:?}");
        }
    }
}
