//! rsync's table of tags, which dsync and NetSync have too (SkySync §2.2.2; WebR2sync+ §5.2).
//!
//! ```text
//! level 1: the 16-bit tag of a weak sum, both halves added   → the first chunk with this tag
//! level 2: the chunks with this tag, in order                → those with the weak sum
//! level 3: strong sums, which the sender compares
//! ```
//!
//! A look-up walks the chunks with a tag. Content can be made with one tag, so a caller bounds the walk; random
//! content has 64 chunks with one tag in a table of four million.

use super::{ChunkNo, MAX_BUDGET};

/// The chunks of a version by the tag of the weak sum. A match proves nothing.
#[derive(Clone, Debug)]
pub struct TagTable {
    /// For each tag the last chunk with this tag, or [`EMPTY`].
    lasts: Vec<u32>,
    /// For each chunk the next chunk with the same tag; for the last one, the first.
    next: Vec<u32>,
}

impl Default for TagTable {
    fn default() -> Self {
        Self { lasts: vec![EMPTY; TAGS], next: Vec::new() }
    }
}

impl TagTable {
    /// Adds the next chunk, which has this weak sum. Chunks are numbered from 0.
    ///
    /// # Panics
    /// If there are 2^30 chunks already.
    pub fn push(&mut self, weak: u32) {
        assert!(self.next.len() < MAX_BUDGET, "chunks have numbers of 30 bits");
        let chunk = self.next.len() as u32;
        let last = std::mem::replace(&mut self.lasts[tag(weak)], chunk);
        let first = match self.next.get_mut(last as usize) {
            Some(next) => std::mem::replace(next, chunk),
            None => chunk,
        };
        self.next.push(first);
    }

    /// The chunks with the tag of `weak`, in order. Forged content may give all chunks one tag: take a bounded number.
    pub fn with_tag(&self, weak: u32) -> impl Iterator<Item = ChunkNo> + '_ {
        let last = Some(self.lasts[tag(weak)]).filter(|last| *last != EMPTY);
        let mut to_come = last.map(|last| self.next[last as usize]);
        std::iter::from_fn(move || {
            let chunk = to_come?;
            to_come = (Some(chunk) != last).then(|| self.next[chunk as usize]);
            Some(ChunkNo(chunk))
        })
    }
}

/// Folds both halves of a weak sum into 16 bits, as rsync does.
const fn tag(weak: u32) -> usize {
    (weak as u16).wrapping_add((weak >> 16) as u16) as usize
}

const TAGS: usize = 1 << 16;
const EMPTY: u32 = u32::MAX;
