//! Search for items in btrfs trees (`BTRFS_IOC_TREE_SEARCH_V2`).

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::io::Errno;

use super::ioctl::{self, SEARCH_HEAD_BYTES, SearchBuffer};

/// The process that queries a file system.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// This process, for its own use.
    Own,
    /// A service, for another process that has already flushed the file. The answer is due at this instant.
    Service(Instant),
}

impl By {
    /// Flushes the file, unless the client of a service has done so.
    pub(super) fn flush(self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        match self {
            Self::Own => ioctl::flush(file),
            // The client has flushed the file. A later write changes the file's times, which the client checks at the
            // end. Another flush could take as long as the writer likes.
            Self::Service(_) => Ok(()),
        }
    }

    pub(super) fn is_flushed_by_client(self) -> bool {
        matches!(self, Self::Service(end) if Instant::now() >= end)
    }
}

/// A search for items in trees.
pub(super) struct Search<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) by: By,
    buffer: Box<SearchBuffer>,
}

/// Object, type and offset of an item.
pub(super) type Key = [u64; 3];

impl<'a> Search<'a> {
    pub(super) fn new(file: BorrowedFd<'a>, by: By) -> Self {
        let buffer = vec![0; size_of::<SearchBuffer>()].into_boxed_slice();
        Self { file, by, buffer: buffer.try_into().unwrap_or_else(|_| unreachable!()) }
    }

    /// Calls `each` with the items from key `first` to key `last` that have the type of `first`, in order. The search
    /// passes items of all types in between.
    pub(super) fn for_each_item(
        &mut self,
        tree: u64,
        first: Key,
        last: Key,
        mut each: impl FnMut(Key, &[u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut next = Some(first);
        while let Some(from) = next.filter(|from| *from <= last) {
            self.search_once(tree, from, last)?;
            let (found, mut rest) = self.buffer.split_at(SEARCH_HEAD_BYTES);
            let count = u32_at(found, 64)?;
            next = None;
            for _ in 0..count {
                let key = [u64_at(rest, 8)?, u32_at(rest, 24)?, u64_at(rest, 16)?];
                let len = u32_at(rest, 28)? as usize;
                let (item, more) = rest[32..].split_at_checked(len).ok_or(Errno::INVAL)?;
                if key[1] == first[1] {
                    each(key, item)?;
                }
                rest = more;
                next = key_after(key);
            }
        }
        Ok(())
    }

    /// Calls the kernel once, which takes a bounded time. Fails with `TIMEDOUT` after the deadline.
    fn search_once(
        &mut self,
        tree: u64,
        [object, kind, offset]: Key,
        last: Key,
    ) -> Result<(), Errno> {
        if self.by.is_flushed_by_client() {
            return Err(Errno::TIMEDOUT);
        }
        let head = [tree, object, last[0], offset, last[2], 0, u64::MAX];
        let types = [kind as u32, last[1] as u32, u32::MAX, 0];
        let head = head.iter().flat_map(|field| field.to_ne_bytes());
        let types = types.iter().flat_map(|field| field.to_ne_bytes());
        for (to, byte) in self.buffer.iter_mut().zip(head.chain(types)) {
            *to = byte;
        }
        ioctl::tree_search(self.file, &mut self.buffer)
    }
}

/// Returns the next key in order.
fn key_after([object, kind, offset]: Key) -> Option<Key> {
    match (offset.checked_add(1), kind) {
        (Some(offset), _) => Some([object, kind, offset]),
        (None, ..0xff) => Some([object, kind + 1, 0]),
        (None, _) => Some([object.checked_add(1)?, 0, 0]),
    }
}

/// Reads a `u64`. Items are little-endian, and the structures around items are in the byte order of the machine. Deltic
/// is only built for little-endian machines.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Errno> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Errno::INVAL)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Result<u64, Errno> {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map(|bytes| u32::from_le_bytes(*bytes).into()).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_service_asks_nothing_more_once_it_is_late() {
        let file = std::io::stdin();
        let asked = |by| {
            let key = [256, 1, 0];
            Search::new(file.as_fd(), by).for_each_item(1, key, key, |_, _| Ok(())).err()
        };
        let now = Instant::now();
        assert_eq!(asked(By::Service(now)), Some(Errno::TIMEDOUT));
        assert_ne!(asked(By::Service(now + Duration::from_secs(60))), Some(Errno::TIMEDOUT));
        assert_ne!(asked(By::Own), Some(Errno::TIMEDOUT));
    }

    #[test]
    fn a_key_is_followed_by_the_next_type_and_the_next_object() {
        assert_eq!(key_after([1, 2, 3]), Some([1, 2, 4]));
        assert_eq!(key_after([1, 2, u64::MAX]), Some([1, 3, 0]));
        assert_eq!(key_after([1, 255, u64::MAX]), Some([2, 0, 0]));
        assert_eq!(key_after([u64::MAX, 255, u64::MAX]), None);
    }
}
