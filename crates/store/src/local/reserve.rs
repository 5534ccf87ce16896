//! Blocks that a new version is given before bytes are copied into them.
//!
//! ext4 looks for blocks as late as it can, and when a file is renamed over another, at once and for all of it. A copy of
//! 1 GiB into blocks that it has takes a quarter less processor time, the rename included. Other file systems share blocks
//! (btrfs, xfs) or would write zeros first (tmpfs).
//!
//! A window is reserved when something is copied there, not when a length is claimed: a sender could claim all of the disk.

use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Mutex;

use rustix::fs::{self, FallocateFlags};

use crate::lock;

/// The windows of one file that have blocks.
#[derive(Debug)]
pub(super) struct Reserved {
    len: u64,
    windows: Mutex<HashSet<u64>>,
}

impl Reserved {
    /// For a file that will be `len` bytes long, where that is worth while.
    pub(super) fn of(file: impl AsFd, len: u64) -> Option<Self> {
        let is_ext4 = || fs::fstatfs(file).is_ok_and(|stat| stat.f_type as u64 == EXT4_MAGIC);
        (len >= WINDOW_BYTES && is_ext4()).then(|| Self { len, windows: Mutex::default() })
    }

    /// Gives blocks to the windows that `range` lies in. Where that fails, writing will say why.
    pub(super) fn reserve(&self, file: impl AsFd, range: Range<u64>) {
        for window in range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES) {
            if lock(&self.windows).insert(window) {
                let start = window * WINDOW_BYTES;
                let len = WINDOW_BYTES.min(self.len - start);
                fs::fallocate(&file, FallocateFlags::KEEP_SIZE, start, len).ok();
            }
        }
    }
}

const WINDOW_BYTES: u64 = 16 << 20;
const EXT4_MAGIC: u64 = 0xef53;
