//! Requests for digests of whole files, which compare contents without a recipe (`-c`). Both ends request digests
//! from their driver in batches of files.

use std::collections::VecDeque;

use deltic_tree::RelPath;

use crate::message::FileNo;

/// Files with a requested digest, in the order of the requests.
#[derive(Debug, Default)]
pub(crate) struct DigestQueue {
    waiting: VecDeque<(FileNo, RelPath, u64)>,
    out: usize,
}

/// Most batches under way, so that later work does not wait behind all requests.
const BATCHES_AT_ONCE: usize = 32;
const BATCH_FILES: usize = 64;
/// Most bytes in a batch of several files: a few milliseconds of hashing.
const BATCH_BYTES: u64 = 8 << 20;

impl DigestQueue {
    /// Adds a file of `len` bytes.
    pub(crate) fn push(&mut self, file: FileNo, path: RelPath, len: u64) {
        self.waiting.push_back((file, path, len));
    }

    /// Returns the next batch, if another batch may be under way.
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

    /// Records that a batch was answered.
    pub(crate) const fn note_answer(&mut self) {
        self.out -= 1;
    }
}
