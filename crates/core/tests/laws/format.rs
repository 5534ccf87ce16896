//! Laws of the two file formats: fed in any pieces they say the same, and damage is an error.

use deltic_core::format::{Format, FormatError, Parser, delta, recipe};
use deltic_core::{Algorithm, Chunk, Digest, Sizes, Span};
use proptest::prelude::*;

use crate::random;

fn spec() -> deltic_core::ChunkerSpec {
    let sizes = Sizes::new(512, 1024, 4096).expect("sizes rise");
    deltic_core::ChunkerSpec::ByContent(Algorithm::GearNc, sizes)
}

/// All records of `bytes`, fed `piece` bytes at a time.
fn parse<F: Format>(bytes: &[u8], piece: usize) -> Result<Vec<F::Record>, FormatError> {
    let mut parser = Parser::<F>::new();
    let mut records = Vec::new();
    for piece in bytes.chunks(piece) {
        parser.feed(piece);
        while let Some(record) = parser.record()? {
            records.push(record);
        }
    }
    parser.finish()?;
    Ok(records)
}

fn recipe_records(seed: u64, batches: &[usize]) -> Vec<recipe::Record> {
    let mut records = vec![recipe::Record::Header(spec())];
    let mut sum = recipe::Summary::new();
    for (n, batch) in batches.iter().enumerate() {
        let data = random(seed + n as u64, *batch);
        let chunks: Vec<Chunk> = data.chunks(7).map(Chunk::of).collect();
        chunks.iter().for_each(|chunk| sum.push(chunk).expect("lengths are small"));
        records.push(recipe::Record::Chunks(chunks));
    }
    records.push(recipe::Record::End(sum.finish()));
    records
}

fn delta_records(seed: u64, steps: &[(bool, u32)]) -> Vec<delta::Record> {
    let old_digest = Digest::from_bytes([3; 32]);
    let old_len = 1 << 20;
    let mut records =
        vec![delta::Record::Header(delta::Header { old_digest, old_len, spec: spec() })];
    records.extend(steps.iter().map(|(copy, len)| match copy {
        true => delta::Record::Copy(Span::new(old_len - u64::from(*len), *len)),
        false => delta::Record::Literal(random(seed, *len as usize)),
    }));
    let len = steps.iter().map(|(_, len)| u64::from(*len)).sum();
    records.push(delta::Record::End { len, digest: Digest::from_bytes([4; 32]) });
    records
}

fn recipe_bytes(records: &[recipe::Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

fn delta_bytes(records: &[delta::Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

proptest! {
    #[test]
    fn a_recipe_file_survives_any_pieces(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..500, 0..5),
        piece in 1usize..300,
    ) {
        let records = recipe_records(seed, &batches);
        prop_assert_eq!(parse::<recipe::Recipe>(&recipe_bytes(&records), piece), Ok(records));
    }

    #[test]
    fn a_delta_file_survives_any_pieces(
        seed: u64,
        steps in proptest::collection::vec((any::<bool>(), 1u32..2000), 0..9),
        piece in 1usize..300,
    ) {
        let records = delta_records(seed, &steps);
        prop_assert_eq!(parse::<delta::Delta>(&delta_bytes(&records), piece), Ok(records));
    }

    #[test]
    fn a_file_that_is_cut_short_or_longer_is_an_error(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..100, 0..3),
        steps in proptest::collection::vec((any::<bool>(), 1u32..100), 0..4),
        pick: proptest::sample::Index,
        piece in 1usize..50,
    ) {
        let mut recipe = recipe_bytes(&recipe_records(seed, &batches));
        let mut delta = delta_bytes(&delta_records(seed, &steps));
        let cut = pick.index(recipe.len());
        prop_assert_eq!(parse::<recipe::Recipe>(&recipe[..cut], piece), Err(FormatError::Truncated));
        let cut = pick.index(delta.len());
        prop_assert_eq!(parse::<delta::Delta>(&delta[..cut], piece), Err(FormatError::Truncated));
        recipe.push(0);
        delta.push(0);
        prop_assert_eq!(parse::<recipe::Recipe>(&recipe, piece), Err(FormatError::Trailing));
        prop_assert_eq!(parse::<delta::Delta>(&delta, piece), Err(FormatError::Trailing));
    }

    #[test]
    fn a_flipped_bit_in_a_recipe_file_is_an_error(
        seed in 0u64..1000,
        batches in proptest::collection::vec(1usize..300, 0..4),
        pick: proptest::sample::Index,
        bit in 0u8..8,
    ) {
        let mut bytes = recipe_bytes(&recipe_records(seed, &batches));
        let header = recipe_bytes(&[recipe::Record::Header(spec())]).len();
        let at = header + pick.index(bytes.len() - header);
        bytes[at] ^= 1 << bit;
        prop_assert!(parse::<recipe::Recipe>(&bytes, 4096).is_err());
    }

    #[test]
    fn no_bytes_make_a_parser_panic(
        mut records in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
        raw: Vec<u8>,
        piece in 1usize..50,
    ) {
        for magic in [recipe::Recipe::MAGIC, delta::Delta::MAGIC] {
            let mut bytes = magic.to_vec();
            for (tag, fields) in &mut records {
                bytes.push(fields.len() as u8 + 1);
                bytes.push(*tag % 6);
                bytes.extend_from_slice(fields);
            }
            let _ = parse::<recipe::Recipe>(&bytes, piece);
            let _ = parse::<delta::Delta>(&bytes, piece);
            let _ = parse::<delta::Delta>(&[&magic[..], &raw].concat(), piece);
        }
        let _ = parse::<recipe::Recipe>(&raw, piece);
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
        let _ = parse::<delta::Delta>(&bytes, 4096);
    }
}

#[test]
fn a_wrong_kind_or_version_is_named() {
    let recipe = recipe_bytes(&recipe_records(1, &[100]));
    let error = parse::<delta::Delta>(&recipe, 100).unwrap_err();
    assert_eq!(error.to_string(), "not a deltic delta file");
    let mut later = recipe.clone();
    later[7] = 9;
    let error = parse::<recipe::Recipe>(&later, 100).unwrap_err();
    assert_eq!(error.to_string(), "deltic signature file has unknown version 9");
}

#[test]
fn a_copy_beyond_old_or_an_empty_or_a_vast_step_is_an_error() {
    let bad = |step: delta::Record| {
        let mut records = delta_records(1, &[]);
        records.insert(1, step);
        parse::<delta::Delta>(&delta_bytes(&records), 1 << 20).unwrap_err()
    };
    let out_of_range = FormatError::Record(deltic_core::CodecError::OutOfRange);
    assert_eq!(bad(delta::Record::Copy(Span::new((1 << 20) - 9, 10))), FormatError::Contradiction);
    assert_eq!(bad(delta::Record::Copy(Span::new(u64::MAX, 10))), FormatError::Contradiction);
    assert_eq!(bad(delta::Record::Copy(Span::new(0, 0))), out_of_range);
    assert_eq!(bad(delta::Record::Copy(Span::new(0, (8 << 20) + 1))), out_of_range);
    assert_eq!(bad(delta::Record::Literal(Vec::new())), out_of_range);
    assert_eq!(bad(delta::Record::Literal(vec![0; (512 << 10) + 1])), out_of_range);
    assert_eq!(bad(delta::Record::Literal(vec![0; (1 << 20) + 1])), out_of_range);
    assert_eq!(bad(delta::Record::Literal(vec![0; 100])), FormatError::Contradiction);
    assert_eq!(bad(delta_records(1, &[]).remove(0)), FormatError::Order);
}
