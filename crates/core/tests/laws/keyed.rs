//! Laws of keyed sums. Claims about probability are tested with fixed keys.

use std::collections::BTreeSet;

use deltic_core::keyed::{CarrylessEngine, Key, KeyedSum};
use deltic_core::reference;
use proptest::prelude::*;

use crate::{bytes, random};

const KEY: [u8; 32] = *b"thirty-two bytes that are secret";
/// Length of a row and of a page in bytes.
const ROW: usize = 64;
const PAGE: usize = 64 * ROW;

fn keyed() -> KeyedSum {
    KeyedSum::new(&Key::from_bytes(KEY))
}

#[test]
fn names_of_contents_depend_on_the_key_and_the_digest() {
    let name = |key, digest| Key::from_bytes([key; 32]).content_name(&[digest; 32]);
    let names = [name(1, 1), name(1, 2), name(2, 1), name(2, 2)];
    let halves: BTreeSet<_> = names.iter().map(|name| &name[..16]).collect();
    assert_eq!((halves.len(), name(1, 1)), (4, names[0]));
}

fn assert_all_engines_agree(data: &[u8]) {
    let sum = reference::keyed_sum(&KEY, data);
    for engine in CarrylessEngine::available() {
        let keyed = KeyedSum::with_engine(&Key::from_bytes(KEY), engine);
        assert_eq!(keyed.sum(data), sum, "{} bytes on {engine:?}", data.len());
    }
}

proptest! {
    #[test]
    fn law4_keyed_sums_equal_the_reference(key in any::<[u8; 32]>(), data in bytes(), at in 0usize..70) {
        let data = &data[at.min(data.len())..];
        let sum = reference::keyed_sum(&key, data);
        for engine in CarrylessEngine::available() {
            let keyed = KeyedSum::with_engine(&Key::from_bytes(key), engine);
            prop_assert_eq!(keyed.sum(data), sum, "{} bytes on {:?}", data.len(), engine);
        }
    }

    #[test]
    fn the_reference_multiplication_is_that_of_a_field(a in any::<u128>(), b in any::<u128>(), c in any::<u128>()) {
        let times = reference::multiply_in_field;
        prop_assert_eq!(times(a, b), times(b, a));
        prop_assert_eq!(times(a, times(b, c)), times(times(a, b), c));
        prop_assert_eq!(times(a, b ^ c), times(a, b) ^ times(a, c));
        // In a field of 2^128 elements, `a` to the power of 2^128 is `a`.
        prop_assert_eq!((0..128).fold(a, |power, _| times(power, power)), a);
    }
}

#[test]
fn the_reference_field_has_the_documented_polynomial() {
    assert_eq!(reference::multiply_in_field(1 << 127, 2), 0x87);
    assert_eq!(reference::multiply_in_field(1 << 127, 1), 1 << 127);
    assert_eq!(reference::multiply_in_field(3, 7), 9);
}

#[test]
fn law4_keyed_sums_equal_the_reference_at_every_short_length() {
    let data = random(7, 600);
    (0..=data.len()).for_each(|len| assert_all_engines_agree(&data[..len]));
}

#[test]
fn law4_keyed_sums_equal_the_reference_around_every_constant() {
    let data: Vec<u8> = (0..3 * PAGE + 2).map(|n| (n % 251) as u8).collect();
    for pages in [PAGE, 2 * PAGE, 3 * PAGE] {
        for edge in [pages - ROW, pages, pages + ROW] {
            for len in (edge - 2..=edge + 2).filter(|len| *len <= data.len()) {
                assert_all_engines_agree(&data[..len]);
            }
        }
    }
}

#[test]
fn every_machine_has_the_portable_engine_first() {
    let engines = CarrylessEngine::available();
    assert_eq!(engines[0], CarrylessEngine::PORTABLE);
    assert_eq!(engines.last(), Some(&CarrylessEngine::best()));
    assert_eq!(KeyedSum::is_fast(), engines.len() > 1);
}

/// The machines that run tests have a fast engine.
#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn this_machine_has_a_fast_engine() {
    assert!(KeyedSum::is_fast(), "{:?}", CarrylessEngine::available());
}

#[test]
fn zeros_of_different_lengths_have_different_sums() {
    let zeros = vec![0; 2 * PAGE + ROW];
    let keyed = keyed();
    let lens = (0..=3 * ROW).chain(PAGE - ROW..=PAGE + ROW).chain(2 * PAGE..=2 * PAGE + ROW);
    let sums: BTreeSet<_> = lens.clone().map(|len| keyed.sum(&zeros[..len])).collect();
    assert_eq!(sums.len(), lens.count());
}

#[test]
fn every_flipped_bit_changes_the_sum() {
    let keyed = keyed();
    for len in [1, 15, ROW - 1, ROW, ROW + 1, 3 * ROW - 5, PAGE + ROW + 9] {
        let data = random(3, len);
        let sum = keyed.sum(&data);
        for at in (0..len).filter(|at| *at < 3 * ROW || at + 3 * ROW >= len) {
            for bit in 0..8 {
                let mut flipped = data.clone();
                flipped[at] ^= 1 << bit;
                assert_ne!(keyed.sum(&flipped), sum, "bit {bit} of byte {at} in {len}");
            }
        }
    }
}

/// Exchanges words, pairs, rows and pages, which products, sums or powers might confuse.
#[test]
fn exchanging_neighbours_changes_the_sum() {
    let data = random(5, 4 * PAGE + 24);
    let sum = keyed().sum(&data);
    for len in [8, 16, ROW, 2 * ROW, PAGE, 2 * PAGE] {
        for at in [0, 16, ROW, PAGE - ROW, PAGE, 2 * PAGE]
            .into_iter()
            .filter(|at| at + 2 * len <= data.len())
        {
            let mut exchanged = data.clone();
            exchanged[at..at + 2 * len].rotate_left(len);
            assert_ne!(keyed().sum(&exchanged), sum, "{len} bytes at {at}");
        }
    }
}

/// The bound holds for every difference of two sums, so each bit of the difference is set for half of the keys.
/// A correct sum leaves the margin once in many millions of key sets; this key set is fixed.
#[test]
fn differences_of_sums_are_uniform_over_keys() {
    let zeros = vec![0; 2 * PAGE];
    let with = |at: usize, byte: u8| {
        let mut data = zeros.clone();
        data[at] = byte;
        data
    };
    let pairs = [
        (zeros.clone(), zeros[1..].to_vec()),
        (zeros.clone(), with(0, 1)),
        (zeros.clone(), with(2 * PAGE - 1, 0x80)),
        (with(0, 1), with(8, 1)),
        (with(0, 1), with(16, 1)),
        (with(0, 1), with(ROW, 1)),
        (with(0, 1), with(PAGE, 1)),
        (Vec::new(), vec![0]),
        (vec![0], vec![0; 2]),
    ];
    const KEYS: u64 = 4096;
    let sums: Vec<KeyedSum> = (0..KEYS)
        .map(|seed| random(seed, 32).try_into().expect("as many bytes as a key has"))
        .map(|key| KeyedSum::new(&Key::from_bytes(key)))
        .collect();
    for (n, (a, b)) in pairs.iter().enumerate() {
        let mut set = [0u64; 128];
        for keyed in &sums {
            let difference = u128::from_le_bytes(keyed.sum(a)) ^ u128::from_le_bytes(keyed.sum(b));
            (0..128).for_each(|bit| set[bit] += (difference >> bit & 1) as u64);
        }
        // Six standard deviations.
        let margin = KEYS / 2 - 192..=KEYS / 2 + 192;
        assert!(set.iter().all(|set| margin.contains(set)), "pair {n}: {set:?}");
    }
}

#[test]
fn a_key_is_not_printed() {
    let key = Key::from_bytes(KEY);
    assert_eq!(format!("{key:?}"), "Key(secret)");
    assert_eq!(
        format!("{:?}", KeyedSum::with_engine(&key, CarrylessEngine::PORTABLE)),
        "KeyedSum(portable, secret)"
    );
    assert_eq!(key.as_bytes(), &KEY);
}

#[test]
fn another_key_gives_other_sums() {
    let mut other = KEY;
    other[31] ^= 1;
    let other = KeyedSum::new(&Key::from_bytes(other));
    for data in [&b"a"[..], &[0; ROW], &[7; PAGE + 1]] {
        assert_ne!(other.sum(data), keyed().sum(data));
        assert_eq!(keyed().clone().sum(data), keyed().sum(data));
    }
}
