//! The trait of all chunkers, and a function that cuts a byte slice into chunks.

/// Finds the end of the chunk at the front of a byte slice.
///
/// Chunkers are stateless (law 1): the result depends on these bytes only, so a chunker that is restarted at any
/// boundary finds the same later boundaries.
pub trait Chunker {
    /// Length of the longest chunk in bytes; part of the format.
    fn max_len(&self) -> usize;

    /// The length of the first chunk of `data`, from 1 to the smaller of `data.len()` and [`Chunker::max_len`].
    ///
    /// `data` must begin at a chunk boundary and must not be empty. If `data` is shorter than `max_len`, its
    /// end counts as the end of the file.
    fn cut(&self, data: &[u8]) -> usize;
}

/// Position of the end of a byte slice: the end of the file or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The file ends here.
    Yes,
    /// Further bytes may follow.
    No,
}

impl AtEnd {
    /// Minimum number of bytes that a chunker needs so that later bytes cannot change a cut.
    pub(super) fn least_to_cut(self, chunker: &impl Chunker) -> usize {
        if self == Self::Yes { 1 } else { chunker.max_len() }
    }
}

/// Cuts the chunks at the front of `data` that later bytes cannot change. Passes each chunk to `each` at once,
/// while its bytes are in the CPU cache. Returns the number of bytes that the chunks cover.
///
/// `data` must begin at a chunk boundary. A file cut in several calls, each from the end of the last call, has
/// the same chunks as in one pass (law 1).
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
