//! Chunks that repeat within a file: each is requested once, and copied once the file is otherwise complete
//! (docs/decisions/0036).

use deltic_core::ChunkPrefix;

use crate::receiver::recent::RecentTable;

/// Prefix of a chunk, and its length in bytes.
type ChunkName = (ChunkPrefix, u32);

/// The requested chunks of a file, and later chunks equal to them.
#[derive(Debug, Default)]
pub(super) struct RepeatedChunks {
    /// Number of each recently requested chunk. `None` for a chunk of the longest length that was repeated at once:
    /// such a chunk fills a part of the file, and is not looked up. Zeros are not sent, and long runs of equal chunks
    /// are sent as deltas against the old versions.
    asked: RecentTable<ChunkName, Option<u32>, MAX_ASKED>,
    /// Waiting chunks, each with the requested chunk that is equal.
    waiting: Vec<(u32, u32)>,
    /// The chunk that was looked at last.
    last: Option<ChunkName>,
}

/// Half of the number of requested chunks to remember; the whole table takes some megabytes.
const MAX_ASKED: usize = 1 << 15;

impl RepeatedChunks {
    /// Passes the next chunk. Two equal chunks in a row, both of the longest length, mean that the chunk fills a part
    /// of the file.
    pub(super) fn note_chunk(&mut self, name: ChunkName, is_longest: bool) {
        if self.last.replace(name) == Some(name) && is_longest {
            self.asked.insert(name, None);
        }
    }

    /// Makes a chunk wait if an equal chunk was requested, and returns true. Otherwise remembers the chunk as
    /// requested.
    pub(super) fn wait_or_request(&mut self, chunk: u32, name: ChunkName) -> bool {
        match self.asked.get(&name) {
            Some(Some(of)) => {
                self.waiting.push((chunk, *of));
                true
            }
            Some(None) => false,
            None => {
                self.asked.insert(name, Some(chunk));
                false
            }
        }
    }

    /// Number of waiting chunks.
    pub(super) const fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the waiting chunks, each with the requested chunk that is equal.
    pub(super) fn take_waiting(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(again: &mut RepeatedChunks, names: &[u8]) -> Vec<bool> {
        let each = names.iter().enumerate().map(|(no, name)| {
            let name = (ChunkPrefix::from_bytes(&[*name; 5]).expect("as long as some"), 9);
            again.note_chunk(name, true);
            again.wait_or_request(no as u32, name)
        });
        each.collect()
    }

    #[test]
    fn a_repeated_chunk_waits_unless_equal_chunks_fill_the_file() {
        let mut again = RepeatedChunks::default();
        assert_eq!(waits(&mut again, b"abab"), [false, false, true, true]);
        assert_eq!(again.take_waiting(), [(2, 0), (3, 1)]);
        assert_eq!(again.waiting_count(), 0);
        assert_eq!(waits(&mut again, b"00a000"), [false, false, true, false, false, false]);
        assert_eq!(waits(&mut again, b"110110011"), [false; 9]);
    }
}
