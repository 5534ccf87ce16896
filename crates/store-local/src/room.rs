//! Where the bytes of a new version go: whether its file system shares blocks, and blocks that it is given beforehand.
//!
//! ext4 shares none, and passes on page by page what it is to copy. It looks for blocks as late as it can, and when a
//! file is renamed over another, at once and for all of it. A copy of 1 GiB into blocks that it has takes a quarter
//! less processor time, the rename included. Other file systems share blocks (btrfs, xfs) or would write zeros first
//! (tmpfs).
//!
//! A window is reserved when something is copied there, not when a length is claimed: a sender could claim all of the
//! disk. Whoever wants all of a file reserved (`--preallocate`) lets it.

use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Mutex;

use rustix::fs::{self, FallocateFlags};
use rustix::io::Errno;

use crate::lock;
use crate::system::{EXT4, TMPFS, kind_of};

/// Where one new version goes.
#[derive(Debug)]
pub(super) struct Room {
    shares: bool,
    reserved: Option<Reserved>,
}

/// What of a new version is to have blocks before it has content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    /// What is worth while.
    Worthwhile,
    /// Nothing: there may be holes.
    Nothing,
}

/// The windows of one file that have blocks.
#[derive(Debug)]
struct Reserved {
    len: u64,
    windows: Mutex<HashSet<u64>>,
}

impl Room {
    /// For a file that will be `len` bytes long.
    pub(super) fn of(file: impl AsFd, len: u64, reserve: Reserve) -> Self {
        if reserve == Reserve::Nothing {
            // Shared blocks of zeros are no holes.
            return Self { shares: false, reserved: None };
        }
        let kind = || kind_of(file).unwrap_or(0);
        // What is shorter is not worth the call.
        let kind = if len >= WINDOW_BYTES { kind() } else { 0 };
        let reserved = (kind == EXT4).then(|| Reserved { len, windows: Mutex::default() });
        Self { shares: ![EXT4, TMPFS].contains(&kind), reserved }
    }

    /// True if the kernel may have something better to do than reading and writing.
    pub(super) const fn may_be_shared(&self) -> bool {
        self.shares
    }

    /// Gives blocks to the windows that `range` lies in, where that is worth while. Where it fails, writing will say
    /// why.
    pub(super) fn reserve(&self, file: impl AsFd, range: Range<u64>) {
        let Some(Reserved { len, windows }) = &self.reserved else { return };
        for window in range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES) {
            if lock(windows).insert(window) {
                let start = window * WINDOW_BYTES;
                let len = WINDOW_BYTES.min(len - start);
                fs::fallocate(&file, FallocateFlags::KEEP_SIZE, start, len).ok();
            }
        }
    }
}

/// Gives blocks to all of a file from `start` to `end`. Where the file system does not do that, none are given.
pub(super) fn reserve_all(file: impl AsFd, start: u64, end: u64) -> Result<(), Errno> {
    if start >= end {
        return Ok(());
    }
    match fs::fallocate(&file, FallocateFlags::KEEP_SIZE, start, end - start) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno),
        _ => Ok(()),
    }
}

const WINDOW_BYTES: u64 = 16 << 20;
