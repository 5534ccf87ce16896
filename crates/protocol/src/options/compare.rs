//! Comparison of files, and the other trees that files are compared with.

use std::ops::RangeInclusive;

use deltic_core::codec::{CodecError, Put, Reader};
use deltic_core::stored::SumStrength;
use deltic_core::{BlockSumSpec, SumKind, verity};
use deltic_tree::Timestamp;

use crate::limits::MAX_ALTERNATES;
use crate::wire::codec::{BadPayload, WireEncoding, closed_set, read_flags, write_flags};

/// Tests that decide whether a file is up to date. Everything is off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compare {
    /// Treat files of equal length as equal (`--size-only`).
    pub size_only: bool,
    /// Treat equal size and time as no proof of equality (`--ignore-times`).
    pub ignore_times: bool,
    /// Skip files that are newer at the receiver (`--update`).
    pub update: bool,
    /// Create no new entries (`--existing`).
    pub existing: bool,
    /// Change no existing entries (`--ignore-existing`).
    pub ignore_existing: bool,
    /// Allow digests and recipes of old versions that are known from an earlier run; off with `--no-cache`.
    pub cached: bool,
    /// Longest age of a known digest in seconds, since the file was read (`--checksum-max-age`); `None` means no
    /// limit.
    pub max_age_secs: Option<u64>,
    /// Sums kept by the stores, to compare contents by (`--trust-sums`). Where a store keeps none, the sums are
    /// computed.
    pub trusted: Option<TrustedSums>,
    /// Tolerance for times that count as equal (`--modify-window`).
    pub window: Window,
    /// Shortest file that is transferred, in bytes (`--min-size`).
    pub min_bytes: u64,
    /// Longest file that is transferred, in bytes (`--max-size`).
    pub max_bytes: Option<u64>,
    /// Further trees at the receiver.
    pub alternates: Alternates,
    /// Places to search for an old version under another name (`--fuzzy`), for files without an old version.
    pub fuzzy: Fuzzy,
}

/// Sums that a store keeps of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedSums {
    /// Sums of blocks.
    Blocks {
        /// Algorithm of the sums.
        kind: SumKind,
        /// Block length in bytes.
        block_bytes: u32,
    },
    /// Digests of whole files, computed as fs-verity does ([`deltic_core::verity`]).
    Verity,
}

impl TrustedSums {
    /// Returns the blocks whose sums prove their content: blocks of SHA-256 or BLAKE2b.
    #[must_use]
    pub fn proven_blocks(self) -> Option<BlockSumSpec> {
        let spec = match self {
            Self::Blocks { kind, block_bytes } => BlockSumSpec::new(kind, block_bytes)?,
            Self::Verity => BlockSumSpec::new(SumKind::Sha256, verity::BLOCK_BYTES as u32)?,
        };
        (spec.kind.strength() == SumStrength::Proof).then_some(spec)
    }
}

/// Rule for which modification times count as equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Times that are equal at the precision of the old version's file system.
    #[default]
    Kept,
    /// Times that are equal to the nanosecond.
    Exact,
    /// Times at most this number of seconds apart.
    Secs(u32),
}

impl Window {
    /// True if the times `new` and `old` count as equal.
    #[must_use]
    pub(crate) fn counts_as_equal(self, new: Timestamp, old: Timestamp) -> bool {
        match self {
            Self::Kept => new == old || is_truncated(new, old),
            Self::Exact => new == old,
            Self::Secs(most) => new.secs.abs_diff(old.secs) <= u64::from(most),
        }
    }

    /// Returns a time before `time` that does not count as equal to `time` in any comparison, even on file systems
    /// that round times to two seconds.
    #[must_use]
    pub(crate) fn before(self, time: Timestamp) -> Timestamp {
        let most = match self {
            Self::Kept | Self::Exact => 0,
            Self::Secs(most) => i64::from(most),
        };
        Timestamp { secs: time.secs.saturating_sub(most + 4), ..time }
    }

    /// True if `old` is newer than `new` in the sense of `--update`. With a window of one second or more, equal times
    /// count as newer too, as in rsync.
    #[must_use]
    pub(crate) fn is_newer(self, old: Timestamp, new: Timestamp) -> bool {
        match self {
            Self::Kept | Self::Exact => old > new,
            Self::Secs(most) => new.secs.saturating_sub(old.secs) < i64::from(most),
        }
    }
}

/// True if `old` is `new` truncated to the coarser step of some file system. On a file system that keeps nanoseconds,
/// a time with such trailing zeros hardly ever comes from writing the file: a program has set the time from `new`.
fn is_truncated(new: Timestamp, old: Timestamp) -> bool {
    let kept = |step: u32| new.nanos - new.nanos % step;
    new.secs == old.secs && STEPS.iter().any(|step| kept(*step) == old.nanos)
}

/// Steps of file system times, in nanoseconds: NTFS; a few file systems that count in microseconds or milliseconds;
/// exFAT; ext3, HFS+ and old inodes of ext4.
const STEPS: [u32; 5] = [100, 1000, 1_000_000, 10_000_000, 1_000_000_000];

/// Further trees at the receiver besides the destination; each tree is an *alternate*.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alternates {
    /// Treatment of a file that an alternate has.
    pub usage: AlternateUse,
    /// Paths of the trees, absolute or relative to the destination's root; at most [`MAX_ALTERNATES`].
    pub dirs: Vec<Box<[u8]>>,
}

/// Treatment of a file that an alternate has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AlternateUse {
    /// Skip the file (`--compare-dest`).
    #[default]
    Compare,
    /// Copy the file from the alternate (`--copy-dest`).
    Copy,
    /// Hard-link the file from the alternate (`--link-dest`).
    Link,
}

/// Places to search for an old version of a similar name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fuzzy {
    /// Nowhere.
    #[default]
    Never,
    /// The file's directory (`-y`).
    Here,
    /// The file's directory and the alternates (`-yy`).
    Everywhere,
}

closed_set!(AlternateUse: Compare = 0, Copy = 1, Link = 2);
closed_set!(Fuzzy: Never = 0, Here = 1, Everywhere = 2);

/// Kinds of block sums in the order of their wire numbers, from 1; only kinds that are more than a hint. Wire number
/// 0 means fs-verity.
const TRUSTED: [SumKind; 3] = [SumKind::Xxh64, SumKind::Sha256, SumKind::Blake2b];

impl WireEncoding for TrustedSums {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self::Blocks { kind, block_bytes } = self else { return to.put_u8(0) };
        let no = TRUSTED.iter().position(|trusted| trusted == kind);
        to.put_u8(no.map_or(u8::MAX, |no| no as u8 + 1));
        block_bytes.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let Some(no) = from.u8()?.checked_sub(1) else { return Ok(Self::Verity) };
        let kind = *TRUSTED.get(usize::from(no)).ok_or(CodecError::OutOfRange)?;
        let block_bytes = from.varint_u32()?;
        let is_block = block_bytes.is_power_of_two() && SUMMED_BYTES.contains(&block_bytes);
        if !is_block {
            return Err(CodecError::OutOfRange.into());
        }
        Ok(Self::Blocks { kind, block_bytes })
    }
}

/// Allowed lengths of the blocks that stores keep sums of, in bytes.
const SUMMED_BYTES: RangeInclusive<u32> = 512..=1 << 16;

/// On the wire: 0 for `Kept`, 1 for `Exact`, seconds plus 2 for `Secs`.
impl WireEncoding for Window {
    fn write_to(&self, to: &mut Vec<u8>) {
        to.put_varint(match self {
            Self::Kept => 0,
            Self::Exact => 1,
            Self::Secs(secs) => u64::from(*secs) + 2,
        });
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        match from.varint()? {
            0 => Ok(Self::Kept),
            1 => Ok(Self::Exact),
            more => {
                u32::try_from(more - 2).map(Self::Secs).map_err(|_| CodecError::OutOfRange.into())
            }
        }
    }
}

impl WireEncoding for Alternates {
    fn write_to(&self, to: &mut Vec<u8>) {
        self.usage.write_to(to);
        self.dirs.write_to(to);
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let (usage, dirs) = (WireEncoding::read_from(from)?, Vec::<Box<[u8]>>::read_from(from)?);
        if dirs.len() > MAX_ALTERNATES {
            return Err(BadPayload::Limit("alternates"));
        }
        Ok(Self { usage, dirs })
    }
}

impl WireEncoding for Compare {
    fn write_to(&self, to: &mut Vec<u8>) {
        let Self { size_only, ignore_times, update, existing, ignore_existing, cached, .. } = *self;
        let trusts = self.trusted.is_some();
        write_flags(
            to,
            [size_only, ignore_times, update, existing, ignore_existing, cached, trusts],
        );
        self.window.write_to(to);
        self.min_bytes.write_to(to);
        self.max_bytes.write_to(to);
        self.alternates.write_to(to);
        self.fuzzy.write_to(to);
        self.max_age_secs.write_to(to);
        self.trusted.iter().for_each(|trusted| trusted.write_to(to));
    }

    fn read_from(from: &mut Reader<'_>) -> Result<Self, BadPayload> {
        let [size_only, ignore_times, update, existing, ignore_existing, cached, trusts] =
            read_flags(from)?;
        Ok(Self {
            size_only,
            ignore_times,
            update,
            existing,
            ignore_existing,
            cached,
            window: WireEncoding::read_from(from)?,
            min_bytes: WireEncoding::read_from(from)?,
            max_bytes: WireEncoding::read_from(from)?,
            alternates: WireEncoding::read_from(from)?,
            fuzzy: WireEncoding::read_from(from)?,
            max_age_secs: WireEncoding::read_from(from)?,
            trusted: if trusts { Some(WireEncoding::read_from(from)?) } else { None },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    #[test]
    fn a_window_takes_seconds_only_and_none_takes_everything() {
        assert!(
            !Window::Exact.counts_as_equal(at(5, 1), at(5, 2))
                && Window::Exact.counts_as_equal(at(5, 1), at(5, 1))
        );
        for kept in [123_456_700, 123_456_000, 123_000_000, 120_000_000, 0] {
            let new = at(5, 123_456_789);
            assert!(Window::Kept.counts_as_equal(new, at(5, kept)), "{kept}");
            assert!(!Window::Exact.counts_as_equal(new, at(5, kept)), "{kept}");
            assert!(
                !Window::Kept.counts_as_equal(at(5, kept), new)
                    && !Window::Kept.counts_as_equal(new, at(4, kept))
            );
            assert!(!Window::Kept.counts_as_equal(new, at(5, kept + 1)));
            assert!(!Window::Kept.is_newer(at(5, kept), new));
        }
        assert!(!Window::Kept.counts_as_equal(at(5, 123_456_789), at(5, 100_000_000)));
        assert!(Window::Secs(0).counts_as_equal(at(5, 1), at(5, 2)));
        assert!(!Window::Secs(0).counts_as_equal(at(5, 0), at(6, 0)));
        assert!(Window::Secs(2).counts_as_equal(at(-1, 0), at(1, 9)));
        assert!(!Window::Secs(u32::MAX).counts_as_equal(at(i64::MIN, 0), at(i64::MAX, 0)));
    }

    #[test]
    fn newer_is_strictly_newer_unless_a_window_says_otherwise() {
        assert!(
            Window::Exact.is_newer(at(5, 2), at(5, 1))
                && !Window::Exact.is_newer(at(5, 1), at(5, 1))
        );
        assert!(!Window::Secs(0).is_newer(at(5, 2), at(5, 1)));
        assert!(Window::Secs(1).is_newer(at(5, 0), at(5, 0)));
        assert!(!Window::Secs(1).is_newer(at(i64::MIN, 0), at(i64::MAX, 0)));
    }
}
