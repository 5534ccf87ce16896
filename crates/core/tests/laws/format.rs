//! Laws of the file formats: the result does not depend on how the input is split, and damage is an error.

use deltic_core::format::{FileFormat, FormatError, RecordParser, delta, matches, recipe};
use deltic_core::{Algorithm, Chunk, Digest, Sizes, Span};
use proptest::prelude::*;

use crate::random;

fn spec() -> deltic_core::ChunkerSpec {
    let sizes = Sizes::new(512, 1024, 4096).expect("sizes rise");
    deltic_core::ChunkerSpec::ByContent(Algorithm::GearNc, sizes)
}

/// All records of `bytes`, fed `piece` bytes at a time.
fn parse<F: FileFormat>(bytes: &[u8], piece: usize) -> Result<Vec<F::Record>, FormatError> {
    let mut parser = RecordParser::<F>::new();
    let mut records = Vec::new();
    for piece in bytes.chunks(piece) {
        parser.feed(piece);
        while let Some(record) = parser.next_record()? {
            records.push(record);
        }
    }
    parser.finish()?;
    Ok(records)
}

fn recipe_records(seed: u64, batches: &[usize]) -> Vec<recipe::RecipeRecord> {
    let mut records = vec![recipe::RecipeRecord::Header(spec())];
    let mut sum = recipe::SummaryBuilder::new();
    for (n, batch) in batches.iter().enumerate() {
        let data = random(seed + n as u64, *batch);
        let chunks: Vec<Chunk> = data.chunks(7).map(Chunk::of).collect();
        chunks.iter().for_each(|chunk| sum.push(chunk).expect("lengths are small"));
        records.push(recipe::RecipeRecord::Chunks(chunks));
    }
    records.push(recipe::RecipeRecord::End(sum.finish()));
    records
}

fn delta_records(seed: u64, steps: &[(bool, u32)]) -> Vec<delta::DeltaRecord> {
    let old_digest = Digest::from_bytes([3; 32]);
    let old_len = 1 << 20;
    let mut records =
        vec![delta::DeltaRecord::Header(delta::DeltaHeader { old_digest, old_len, spec: spec() })];
    records.extend(steps.iter().map(|(copy, len)| match copy {
        true => delta::DeltaRecord::Copy(Span::new(old_len - u64::from(*len), *len)),
        false => delta::DeltaRecord::Literal(random(seed, *len as usize)),
    }));
    let len = steps.iter().map(|(_, len)| u64::from(*len)).sum();
    records.push(delta::DeltaRecord::End { len, digest: Digest::from_bytes([4; 32]) });
    records
}

fn recipe_bytes(records: &[recipe::RecipeRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

fn delta_bytes(records: &[delta::DeltaRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

proptest! {
    #[test]
    fn a_recipe_file_parses_in_pieces_of_any_length(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..500, 0..5),
        piece in 1usize..300,
    ) {
        let records = recipe_records(seed, &batches);
        prop_assert_eq!(parse::<recipe::RecipeFormat>(&recipe_bytes(&records), piece), Ok(records));
    }

    #[test]
    fn a_delta_file_parses_in_pieces_of_any_length(
        seed: u64,
        steps in proptest::collection::vec((any::<bool>(), 1u32..2000), 0..9),
        piece in 1usize..300,
    ) {
        let records = delta_records(seed, &steps);
        prop_assert_eq!(parse::<delta::DeltaFormat>(&delta_bytes(&records), piece), Ok(records));
    }

    #[test]
    fn a_truncated_or_extended_file_is_an_error(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..100, 0..3),
        steps in proptest::collection::vec((any::<bool>(), 1u32..100), 0..4),
        pick: proptest::sample::Index,
        piece in 1usize..50,
    ) {
        let mut recipe = recipe_bytes(&recipe_records(seed, &batches));
        let mut delta = delta_bytes(&delta_records(seed, &steps));
        let cut = pick.index(recipe.len());
        prop_assert_eq!(parse::<recipe::RecipeFormat>(&recipe[..cut], piece), Err(FormatError::Truncated));
        let cut = pick.index(delta.len());
        prop_assert_eq!(parse::<delta::DeltaFormat>(&delta[..cut], piece), Err(FormatError::Truncated));
        recipe.push(0);
        delta.push(0);
        prop_assert_eq!(parse::<recipe::RecipeFormat>(&recipe, piece), Err(FormatError::Trailing));
        prop_assert_eq!(parse::<delta::DeltaFormat>(&delta, piece), Err(FormatError::Trailing));
    }

    #[test]
    fn a_flipped_bit_in_a_recipe_file_is_an_error(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..300, 0..4),
        pick: proptest::sample::Index,
        bit in 0u8..8,
    ) {
        let mut bytes = recipe_bytes(&recipe_records(seed, &batches));
        let header = recipe_bytes(&[recipe::RecipeRecord::Header(spec())]).len();
        let at = header + pick.index(bytes.len() - header);
        bytes[at] ^= 1 << bit;
        prop_assert!(parse::<recipe::RecipeFormat>(&bytes, 4096).is_err());
    }

    #[test]
    fn no_input_makes_a_parser_panic(
        mut records in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        raw: Vec<u8>,
        piece in 1usize..50,
    ) {
        for magic in [recipe::RecipeFormat::MAGIC, delta::DeltaFormat::MAGIC] {
            let mut bytes = magic.to_vec();
            for (tag, fields) in &mut records {
                bytes.push(fields.len() as u8 + 1);
                bytes.push(*tag % 6);
                bytes.extend_from_slice(fields);
            }
            let _ = parse::<recipe::RecipeFormat>(&bytes, piece);
            let _ = parse::<delta::DeltaFormat>(&bytes, piece);
            let _ = parse::<delta::DeltaFormat>(&[&magic[..], &raw].concat(), piece);
        }
        let _ = parse::<recipe::RecipeFormat>(&raw, piece);
    }

    #[test]
    fn a_damaged_delta_file_never_panics(
        seed: u64,
        steps in proptest::collection::vec((any::<bool>(), 1u32..50), 0..4),
        pick: proptest::sample::Index,
        value: u8,
    ) {
        let mut bytes = delta_bytes(&delta_records(seed, &steps));
        let at = pick.index(bytes.len());
        bytes[at] = value;
        let _ = parse::<delta::DeltaFormat>(&bytes, 4096);
    }
}

#[test]
fn a_wrong_kind_or_version_is_named() {
    let recipe = recipe_bytes(&recipe_records(1, &[100]));
    let error = parse::<delta::DeltaFormat>(&recipe, 100).unwrap_err();
    assert_eq!(error.to_string(), "not a deltic delta file");
    let mut later = recipe.clone();
    later[7] = 9;
    let error = parse::<recipe::RecipeFormat>(&later, 100).unwrap_err();
    assert_eq!(error.to_string(), "deltic signature file has unknown version 9");
}

#[test]
fn a_copy_past_the_end_and_a_step_of_bad_length_are_errors() {
    let bad = |step: delta::DeltaRecord| {
        let mut records = delta_records(1, &[]);
        records.insert(1, step);
        parse::<delta::DeltaFormat>(&delta_bytes(&records), 1 << 20).unwrap_err()
    };
    let out_of_range = FormatError::Record(deltic_core::CodecError::OutOfRange);
    assert_eq!(
        bad(delta::DeltaRecord::Copy(Span::new((1 << 20) - 9, 10))),
        FormatError::Contradiction
    );
    assert_eq!(bad(delta::DeltaRecord::Copy(Span::new(u64::MAX, 10))), FormatError::Contradiction);
    assert_eq!(bad(delta::DeltaRecord::Copy(Span::new(0, 0))), out_of_range);
    assert_eq!(bad(delta::DeltaRecord::Copy(Span::new(0, (8 << 20) + 1))), out_of_range);
    assert_eq!(bad(delta::DeltaRecord::Literal(Vec::new())), out_of_range);
    assert_eq!(bad(delta::DeltaRecord::Literal(vec![0; (512 << 10) + 1])), out_of_range);
    assert_eq!(bad(delta::DeltaRecord::Literal(vec![0; (1 << 20) + 1])), out_of_range);
    assert_eq!(bad(delta::DeltaRecord::Literal(vec![0; 100])), FormatError::Contradiction);
    assert_eq!(bad(delta_records(1, &[]).remove(0)), FormatError::Order);
}

/// The signature of `bytes`.
fn signature(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = recipe::RecipeWriter::new(&spec(), &mut out);
    writer.push(bytes, &mut out).expect("the data are short");
    writer.finish(&mut out).expect("the data are short");
    out
}

/// The matches file of `old`, read in pieces, with the file that `signature` describes.
fn matches_of(old: &[u8], signature: &[u8], piece: usize) -> Vec<u8> {
    let mut reader = recipe::RecipeReader::new(1 << 20);
    reader.feed(signature).expect("the signature is complete");
    let mut finder = matches::MatchFinder::new(reader.finish().expect("the signature is complete"));
    old.chunks(piece).for_each(|piece| finder.push(piece).expect("the data are short"));
    let mut out = Vec::new();
    finder.finish(&mut out).expect("the data are short");
    out
}

/// The delta file from `matches` and `new`, both in pieces.
fn completed(matches: &[u8], new: &[u8], piece: usize) -> Result<Vec<u8>, FormatError> {
    let mut reader = matches::MatchesReader::default();
    matches.chunks(piece).try_for_each(|piece| reader.feed(piece))?;
    let mut out = Vec::new();
    let mut writer = matches::MatchedDeltaWriter::new(reader.finish()?, &mut out);
    new.chunks(piece).try_for_each(|piece| writer.push(piece, &mut out))?;
    writer.finish(&mut out)?;
    Ok(out)
}

/// Applies a delta without checking its digests.
fn patched(old: &[u8], delta: &[u8]) -> Vec<u8> {
    let mut new = Vec::new();
    for record in parse::<delta::DeltaFormat>(delta, 1 << 20).expect("the delta is complete") {
        match record {
            delta::DeltaRecord::Copy(Span { start, len }) => {
                new.extend_from_slice(&old[start as usize..][..len as usize]);
            }
            delta::DeltaRecord::Literal(bytes) => new.extend(bytes),
            delta::DeltaRecord::Header(header) => assert_eq!(header.old_len, old.len() as u64),
            delta::DeltaRecord::End { len, .. } => assert_eq!(len, new.len() as u64),
        }
    }
    new
}

/// The delta of `new` from the signature of `old`.
fn delta_of(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut reader = recipe::RecipeReader::new(1 << 20);
    reader.feed(&signature(old)).expect("the signature is complete");
    let mut out = Vec::new();
    let mut writer =
        delta::DeltaWriter::new(reader.finish().expect("the signature is complete"), &mut out);
    writer.push(new, &mut out).expect("the data are short");
    writer.finish(&mut out).expect("the data are short");
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn matches_and_the_new_bytes_make_the_delta(
        (seed, len) in (any::<u64>(), 0usize..60_000),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0usize..900, 0usize..900), 0..4),
        piece in 1usize..20_000,
    ) {
        let old = random(seed, len);
        let mut new = old.clone();
        for (at, gone, come) in edits {
            let at = at.index(new.len() + 1);
            new.splice(at..(at + gone).min(new.len()), random(seed ^ 1, come));
        }
        // One part occurs twice.
        let again = new[..new.len() / 2].to_vec();
        new.extend(again);
        let matches = matches_of(&old, &signature(&new), piece);
        let delta = completed(&matches, &new, piece).expect("the new version matches its signature");
        prop_assert_eq!(patched(&old, &delta), &new[..]);
        // As short as a delta from the signature of the old version, except for the division into literals.
        let other = delta_of(&old, &new);
        prop_assert!(delta.len() <= other.len() + 8 * (new.len() / piece + 2), "{} {}", delta.len(), other.len());
        for wrong in [&new[..new.len().saturating_sub(1)], &[&new[..], b"x"].concat()] {
            if wrong.len() != new.len() {
                prop_assert_eq!(completed(&matches, wrong, piece), Err(FormatError::OtherNew));
            }
        }
        prop_assert_eq!(completed(&matches[..matches.len() - 1], &new, piece), Err(FormatError::Truncated));
    }

    #[test]
    fn a_damaged_matches_file_never_panics(seed: u64, pick: proptest::sample::Index, byte: u8) {
        let (old, new) = (random(seed, 9_000), random(seed, 9_500));
        let mut matches = matches_of(&old, &signature(&new), 4096);
        let at = pick.index(matches.len());
        matches[at] = byte;
        // A damaged matches file gives a well-formed delta or an error.
        if let Ok(delta) = completed(&matches, &new, 700) {
            prop_assert!(parse::<delta::DeltaFormat>(&delta, 4096).is_ok());
        }
    }
}
