//! Laws of code: split bytes come back, masked bytes have the same fields, and no columns make a reader panic.

use deltic_core::code::{FieldReader, FieldWriter, fields, is_code, mask};
use deltic_core::gap::{BlockLen, GapDeltaReader, GapDeltaWriter, ReadDelta, apply};
use deltic_core::{GapSums, Put, Reader};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{bytes, random};

/// First bytes of instructions, with and without a field, and some that look like both.
const HEADS: [&[u8]; 12] = [
    &[0xe8],
    &[0xe9],
    &[0xff, 0x15],
    &[0x48, 0x8b, 0x05],
    &[0x4c, 0x8d, 0x3d],
    &[0x8b, 0x0d],
    &[0x0f, 0x10, 0x05],
    &[0x48, 0x0f, 0xaf, 0x05],
    &[0x48, 0x0f, 0xe8],
    &[0x0f, 0xe8],
    &[0x48, 0x89],
    &[0x90],
];

/// Something like code: calls and operands with few targets, and other bytes.
fn code() -> impl Strategy<Value = Vec<u8>> {
    let target = prop_oneof![
        5 => (0u32..40).prop_map(|no| no * 1717),
        2 => 0u32..1 << 20,
        1 => any::<u32>(),
    ];
    let piece = (select(&HEADS[..]), target, 0usize..12, any::<u64>());
    proptest::collection::vec(piece, 0..1500).prop_map(|pieces| {
        let mut code = Vec::new();
        for (head, target, len, seed) in pieces {
            code.extend_from_slice(head);
            let end = code.len() as u32 + 4;
            code.extend_from_slice(&target.wrapping_sub(end).to_le_bytes());
            code.extend(random(seed, len));
        }
        code
    })
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let dense =
        proptest::collection::vec(select(&[0u8, 5, 15, 0x48, 0x8b, 0xe8, 0xff][..]), 0..300);
    prop_oneof![4 => code(), 1 => bytes(), 1 => dense]
}

/// No gap is empty.
fn new_gap() -> impl Strategy<Value = Vec<u8>> {
    any_bytes().prop_map(|mut new| {
        new.push(7);
        new
    })
}

/// Returns the masked parts and the columns.
fn split(parts: &[Vec<u8>], address: u64) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut writer, mut masked, mut columns) = (FieldWriter::default(), parts.to_vec(), vec![]);
    masked.iter_mut().for_each(|part| writer.split(part, address));
    writer.encode(&mut columns);
    (masked, columns)
}

proptest! {
    #[test]
    fn split_bytes_come_back(parts in proptest::collection::vec(any_bytes(), 0..4), address: u64) {
        let (masked, columns) = split(&parts, address);
        let mut reader = FieldReader::decode(&columns).expect("encoded columns decode");
        for (part, masked) in parts.iter().zip(masked) {
            let mut joined = masked;
            prop_assert_eq!(reader.join(&mut joined, address), Ok(()));
            prop_assert!(joined == *part);
        }
    }

    #[test]
    fn masked_code_has_the_same_fields(code in any_bytes()) {
        let mut masked = code.clone();
        mask(&mut masked);
        prop_assert!(fields(&code).eq(fields(&masked)));
        for field in fields(&code) {
            prop_assert_eq!(&masked[field.start..field.start + 4], &[0; 4]);
        }
        prop_assert!(split(&[code], 7).0 == [masked]);
    }

    #[test]
    fn other_bytes_in_a_piece_spoil_no_other_piece(code in code(), at: prop::sample::Index, by: u8) {
        prop_assume!(!code.is_empty());
        let (mut masked, columns) = split(std::slice::from_ref(&code), 0);
        let at = at.index(code.len());
        masked[0][at] ^= by;
        let mut reader = FieldReader::decode(&columns).expect("encoded columns decode");
        prop_assert_eq!(reader.join(&mut masked[0], 0), Ok(()));
        // The changed byte may shift the fields that follow at once, but not those after the next piece.
        let piece = at / 4096 * 4096;
        prop_assert!(masked[0][..piece.saturating_sub(16)] == code[..piece.saturating_sub(16)]);
        let later = (piece + 2 * 4096).min(code.len());
        prop_assert!(masked[0][later..] == code[later..]);
    }

    #[test]
    fn no_columns_panic(columns: Vec<u8>, code in code(), bits: Vec<(prop::sample::Index, u8)>) {
        if let Ok(mut reader) = FieldReader::decode(&columns) {
            let _ = reader.join(&mut code.clone(), 0);
        }
        let (mut masked, mut damaged) = split(std::slice::from_ref(&code), 0);
        for (at, bits) in bits {
            let at = at.index(damaged.len());
            damaged[at] ^= bits;
        }
        if let Ok(mut reader) = FieldReader::decode(&damaged) {
            let _ = reader.join(&mut masked[0], 0);
        }
    }

    #[test]
    fn deltas_of_code_rebuild_the_gaps(
        gaps in proptest::collection::vec((any_bytes(), new_gap(), any::<bool>()), 1..4),
        may_mask: bool,
        seed: u64,
    ) {
        let len = BlockLen::new(256).expect("length is of a block");
        let sums = |old: &[u8], masked| match masked {
            true => GapSums::sums_of_code(old, len, seed),
            false => GapSums::sums_of(old, len, seed),
        };
        let mut writer = GapDeltaWriter::new(may_mask);
        for (old, new, masked) in &gaps {
            let (sums, mut sent) = (sums(old, *masked), Vec::new());
            sums.encode(&mut sent);
            prop_assert_eq!(GapSums::decode(&mut Reader::new(&sent)), Ok(sums.clone()));
            writer.add(new, 77, &sums, seed);
        }
        let deltas = writer.finish();
        let all: usize = gaps.iter().map(|(_, new, _)| new.len() + new.len() / 2 + 40).sum();
        prop_assert!(deltas.len() <= all + 100);
        let mut reader = GapDeltaReader::new(&deltas);
        for (old, new, _) in &gaps {
            let ReadDelta { delta, is_masked } = reader.next_delta().expect("a written delta");
            let (mut old, mut made) = (old.clone(), Vec::new());
            if is_masked {
                mask(&mut old);
            }
            prop_assert_eq!(apply(&old, &delta, new.len(), &mut made), Ok(()));
            if is_masked {
                prop_assert_eq!(reader.join(&mut made, 77), Ok(()));
            }
            prop_assert!(made == *new);
        }
    }

    #[test]
    fn no_deltas_panic(deltas: Vec<u8>, code in code()) {
        let mut reader = GapDeltaReader::new(&deltas);
        while let Ok(ReadDelta { is_masked, .. }) = reader.next_delta() {
            if is_masked {
                let _ = reader.join(&mut code.clone(), 0);
            }
        }
    }
}

#[test]
fn moved_code_has_equal_masks_and_short_columns() {
    // Calls of eight functions; the second version has 400 bytes more in front.
    let version = |shift: u32| {
        let calls = (0..1000u32).flat_map(|no| {
            let (end, target) = (no * 9 + 5, 0x8000 + no * no % 8 * 0x100 + shift);
            let distance = target.wrapping_sub(end).to_le_bytes();
            [&[0xe8], &distance[..], &[0x48, 0x89, 0xc7, 0x90]].concat()
        });
        calls.collect::<Vec<u8>>()
    };
    let (old, new) = (version(0), version(400));
    assert!(is_code(&old) && !is_code(&random(1, 9000)) && !is_code(b"call of 5 functions"));
    let (masks, columns) = split(&[old, new], 0);
    assert!(masks[0] == masks[1]);
    assert!(columns.len() < 2300, "{}", columns.len());
}

#[test]
fn more_fields_than_a_piece_can_have_are_refused() {
    let is_refused = |count: u16| {
        let len = usize::from(count);
        let calls = [&[len, 1, 1][..], &[0; 6], &[len; 4]].concat();
        let operands = [&[0, 1, 1][..], &[0; 10]].concat();
        let mut columns = Vec::new();
        calls.iter().chain(&operands).for_each(|len| columns.put_varint(*len as u64));
        // Symbols: the bytes of the fields are in columns of their own.
        columns.extend(vec![253; len]);
        columns.extend(count.to_be_bytes());
        columns.extend(vec![0; 4 * len]);
        columns.extend(0u16.to_be_bytes());
        let mut reader = FieldReader::decode(&columns).expect("the lengths fit");
        reader.join(&mut [0; 4096], 0).is_err()
    };
    assert!(!is_refused(820));
    assert!(is_refused(821));
}
