//! Encoding of the recipes of large files, which a store keeps between sessions.
//!
//! ```text
//! recipe   length and bytes of a journal's first note ([`journal::version_note`]), then for each chunk: length,
//!          fingerprint as in a journal
//! ```

use deltic_core::recipe::Chunk;
use deltic_core::{Chunks, Key, Put, Reader};
use deltic_protocol::Terms;
use deltic_protocol::limits::INDEX_BUDGET_CHUNKS;
use deltic_protocol::receiver::{KnownChunks, NewVersion};
use deltic_tree::Meta;

use crate::journal;

/// True if these chunks make up all of `new` and are few enough to be used.
pub fn is_usable(new: &NewVersion, chunks: impl Iterator<Item = Chunk>) -> bool {
    let (mut count, mut end) = (0, 0);
    for chunk in chunks.take(INDEX_BUDGET_CHUNKS + 1) {
        (count, end) = (count + 1, end + u64::from(chunk.len));
    }
    count <= INDEX_BUDGET_CHUNKS && end == new.len
}

/// Encodes a recipe in parts, because the recipe of a large file is long.
pub fn written(
    new: &NewVersion,
    key: &Key,
    terms: Terms,
    mut chunks: impl Iterator<Item = Chunk>,
) -> impl Iterator<Item = Vec<u8>> {
    let version = journal::version_note(new, key, terms);
    let mut head = Vec::new();
    head.put_varint(version.len() as u64);
    head.put_bytes(&version);
    let part = move || {
        let mut part = Vec::new();
        for Chunk { len, fingerprint } in chunks.by_ref().take(PART_CHUNKS) {
            part.put_varint(len.into());
            journal::put_name(&mut part, &fingerprint, terms);
        }
        Some(part).filter(|part| !part.is_empty())
    };
    std::iter::once(head).chain(std::iter::from_fn(part))
}

/// Number of chunks in a part.
const PART_CHUNKS: usize = 2048;

/// Decodes the result of [`written`]. Returns `None` if the recipe is invalid, of another version than `meta`, or
/// unusable under these terms.
#[must_use]
pub fn read(notes: &[u8], meta: &Meta, terms: Terms) -> Option<KnownChunks> {
    let mut from = Reader::new(notes);
    let version = usize::try_from(from.varint().ok()?).ok()?;
    let version = journal::read_version(from.bytes(version).ok()?, meta, terms);
    let (key, spec) = version.ok()??;
    let (mut chunks, mut start) = (Chunks::default(), 0_u64);
    while !from.is_empty() {
        let len = from.varint_u32().ok()?;
        let fingerprint = journal::read_name(&mut from, terms).ok()?;
        chunks.push(start, Chunk { len, fingerprint });
        start = start.checked_add(len.into())?;
    }
    let fits = chunks.len() <= INDEX_BUDGET_CHUNKS && start == meta.len;
    fits.then_some(KnownChunks { key, spec, map: None, chunks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::terms;
    use deltic_core::ChunkerSpec;
    use deltic_protocol::limits::LARGE_FILE_BYTES;
    use deltic_tree::{Kind, Timestamp};

    const LEN: u64 = LARGE_FILE_BYTES + 1000;
    const MODIFIED: Timestamp = Timestamp { secs: 7, nanos: 8 };
    const KEY: [u8; 32] = [5; 32];

    fn new() -> NewVersion {
        NewVersion {
            len: LEN,
            map: None,
            modified: MODIFIED,
            from: 0,
            spec: ChunkerSpec::for_len(LEN),
        }
    }

    fn chunks(terms: Terms) -> Vec<Chunk> {
        let names = terms.fingerprinter_with(&Key::from_bytes(KEY));
        let part = |n: u64| Chunk { len: (LEN / 4 + n) as u32, ..names.chunk(&[n as u8]) };
        let last = Chunk { len: (LEN - LEN / 4 * 3 - 3) as u32, ..names.chunk(b"last") };
        (0..3).map(part).chain([last]).collect()
    }

    #[test]
    fn a_recipe_is_only_read_in_a_session_with_the_same_fingerprints() {
        for form in [true, false] {
            let terms_here = terms(form);
            let told = chunks(terms_here);
            let key = Key::from_bytes(KEY);
            let (new, mut notes) = (new(), Vec::new());
            let parts = written(&new, &key, terms_here, told.iter().copied());
            parts.for_each(|part| notes.extend(part));
            let meta = Meta::without_owner(Kind::File, LEN, MODIFIED, 0o644);
            let KnownChunks { key, spec, chunks, .. } = read(&notes, &meta, terms_here).unwrap();
            assert_eq!((key, spec), (Key::from_bytes(KEY), new.spec));
            let (lens, names): (Vec<_>, Vec<_>) =
                chunks.iter().map(|(span, name)| (u64::from(span.len), name)).unzip();
            assert!(names.into_iter().eq(told.iter().map(|chunk| chunk.fingerprint)));
            let starts = lens.iter().scan(0, |end, len| Some(std::mem::replace(end, *end + len)));
            assert!(chunks.iter().map(|(span, _)| span.start).eq(starts));
            assert_eq!(read(&notes, &meta, terms(!form)), None);
            assert_eq!(read(&notes, &Meta { len: LEN - 1, ..meta.clone() }, terms_here), None);
            for end in 0..notes.len() {
                assert_eq!(read(&notes[..end], &meta, terms_here), None, "{end}");
            }
        }
    }

    #[test]
    fn a_recipe_of_part_of_a_file_is_not_used() {
        let all = chunks(terms(true));
        let is_usable = |new: &NewVersion, chunks: &[Chunk]| is_usable(new, chunks.iter().copied());
        assert!(is_usable(&new(), &all));
        for part in [&all[1..], &all[..3], &[]] {
            assert!(!is_usable(&new(), part));
        }
        let len = u64::from(all[0].len) * INDEX_BUDGET_CHUNKS as u64;
        let most = vec![all[0]; INDEX_BUDGET_CHUNKS + 1];
        assert!(is_usable(&NewVersion { len, ..new() }, &most[1..]));
        let len = len + u64::from(all[0].len);
        assert!(!is_usable(&NewVersion { len, ..new() }, &most));
    }
}
