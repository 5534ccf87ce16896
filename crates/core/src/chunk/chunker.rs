//! The trait of all chunkers, and a file cut by one.

/// Says where the chunk at the front of some bytes ends.
///
/// Memoryless (law 1): the answer depends on these bytes alone, so a chunker restarted at any boundary finds the same
/// later ones.
pub trait Chunker {
    /// The longest chunk, in bytes; part of the format.
    fn max_len(&self) -> usize;

    /// The length of the first chunk of `data`, from 1 to the smaller of `data.len()` and [`Chunker::max_len`].
    ///
    /// `data` begins where a chunk begins and is not empty. Where it is shorter than `max_len`, its end counts as the
    /// end of the file.
    fn cut(&self, data: &[u8]) -> usize;
}

/// Position of bytes in their file: at its end, or before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The file ends with them.
    Yes,
    /// More may follow.
    No,
}

impl AtEnd {
    /// Bytes that a chunker must see, so that no later one changes what it cuts.
    pub(super) fn least_to_cut(self, chunker: &impl Chunker) -> usize {
        if self == Self::Yes { 1 } else { chunker.max_len() }
    }
}

/// Cuts all chunks at the front of `data` that no later byte can change. Hands each out at once: its bytes are still
/// in the cache for whatever sums them. Returns how many bytes they cover; the next chunk starts there.
///
/// `data` begins where a chunk begins. A file cut piece by piece, each from where the last stopped, has the chunks of
/// one pass over all of it (law 1).
pub fn cut_all(
    chunker: &impl Chunker,
    data: &[u8],
    at_end: AtEnd,
    mut each: impl FnMut(&[u8]),
) -> usize {
    let enough = at_end.least_to_cut(chunker);
    let mut rest = data;
    while rest.len() >= enough {
        let (chunk, after) = rest.split_at(chunker.cut(rest));
        each(chunk);
        rest = after;
    }
    data.len() - rest.len()
}
