//! Digests of whole files, by which contents are compared that a recipe need not tell (`-c`): what either end asks its
//! driver for, a batch of files at a time.

use std::collections::VecDeque;

use deltic_tree::RelPath;

use crate::message::FileNo;

/// Files whose digests are to be taken, in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Digesting {
    waiting: VecDeque<(FileNo, RelPath, u64)>,
    out: usize,
}

/// Batches under way: what is asked for besides them does not wait behind them all.
const BATCHES_AT_ONCE: usize = 32;
const BATCH_FILES: usize = 64;
/// Bytes of a batch of several files: hashed in a few milliseconds.
const BATCH_BYTES: u64 = 8 << 20;

impl Digesting {
    /// Adds a file of `len` bytes.
    pub(crate) fn push(&mut self, file: FileNo, path: RelPath, len: u64) {
        self.waiting.push_back((file, path, len));
    }

    /// The next batch, if another may be under way.
    pub(crate) fn next(&mut self) -> Option<(Vec<FileNo>, Vec<RelPath>)> {
        if self.out >= BATCHES_AT_ONCE || self.waiting.is_empty() {
            return None;
        }
        let (mut files, mut paths, mut bytes) = (Vec::new(), Vec::new(), 0_u64);
        while let Some((_, _, len)) = self.waiting.front() {
            bytes = bytes.saturating_add(*len);
            if files.len() == BATCH_FILES || !files.is_empty() && bytes > BATCH_BYTES {
                break;
            }
            let (file, path, _) = self.waiting.pop_front().expect("it is the first");
            files.push(file);
            paths.push(path);
        }
        self.out += 1;
        Some((files, paths))
    }

    /// A batch was answered.
    pub(crate) const fn answered(&mut self) {
        self.out -= 1;
    }
}
