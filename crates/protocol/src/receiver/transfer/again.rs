//! Chunks that come again in a file: they are asked for once, and copied when all is here (docs/decisions/0056).

use deltic_core::ChunkPrefix;

use crate::receiver::recent::Recent;

/// Prefix of a chunk, and its length in bytes.
type Name = (ChunkPrefix, u32);

/// The chunks of a file that were asked for, and those that are the same.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// Numbers of the chunks that were asked for last; none of one that fills the file for long. Zeros do not travel,
    /// and long runs of what is alike are told against old.
    asked: Recent<Name, Option<u32>, MAX_ASKED>,
    /// Chunks that wait, each with the one before it that is the same.
    waiting: Vec<(u32, u32)>,
    /// The chunk that was looked for last.
    last: Option<Name>,
}

/// Half of the chunks of a file that are remembered as asked for: all take some megabytes.
const MAX_ASKED: usize = 1 << 15;

impl Again {
    /// Looks at the next chunk, which may be as long as any: two like that in a row fill the file.
    pub(super) fn pass(&mut self, name: Name, is_longest: bool) {
        if self.last.replace(name) == Some(name) && is_longest {
            self.asked.note(name, None);
        }
    }

    /// True if a chunk need not be asked for: it waits then. Else it is remembered.
    pub(super) fn waits(&mut self, chunk: u32, name: Name) -> bool {
        match self.asked.get(&name) {
            Some(Some(of)) => {
                self.waiting.push((chunk, *of));
                true
            }
            Some(None) => false,
            None => {
                self.asked.note(name, Some(chunk));
                false
            }
        }
    }

    /// Number of chunks that wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The chunks that wait, each with the one that it is.
    pub(super) fn take(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(again: &mut Again, names: &[u8]) -> Vec<bool> {
        let each = names.iter().enumerate().map(|(no, name)| {
            let name = (ChunkPrefix::from_bytes(&[*name; 5]).expect("as long as some"), 9);
            again.pass(name, true);
            again.waits(no as u32, name)
        });
        each.collect()
    }

    #[test]
    fn a_chunk_waits_for_the_one_before_it_unless_it_fills_the_file() {
        let mut again = Again::default();
        assert_eq!(waits(&mut again, b"abab"), [false, false, true, true]);
        assert_eq!(again.take(), [(2, 0), (3, 1)]);
        assert_eq!(again.waiting(), 0);
        assert_eq!(waits(&mut again, b"00a000"), [false, false, true, false, false, false]);
        assert_eq!(waits(&mut again, b"110110011"), [false; 9]);
    }
}
