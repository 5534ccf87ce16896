//! Laws of weak sums.

use deltic_core::weak::Engine;
use deltic_core::{Adler, CodecError, Crc32c, Reader, Strong, Weak, reference};
use proptest::prelude::*;

use crate::{bytes, random};

/// Lengths around every power of two, and any others.
fn len() -> impl Strategy<Value = u64> {
    let near =
        (0..u64::BITS, -2i64..=2).prop_map(|(bit, step)| (1u64 << bit).saturating_add_signed(step));
    prop_oneof![near, (0u64..3).prop_map(|n| u64::MAX - n), any::<u64>(), 0u64..1 << 20]
}

fn crc32c() -> impl Strategy<Value = Crc32c> {
    any::<u32>().prop_map(Crc32c::new)
}

proptest! {
    #[test]
    fn law3_concat(data in bytes(), cuts in proptest::collection::vec(any::<usize>(), 0..4)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (data.len() + 1)).collect();
        cuts.extend([0, data.len()]);
        cuts.sort_unstable();
        for engine in [Engine::detect(), Engine::portable()] {
            let parts = cuts.windows(2).map(|ends| &data[ends[0]..ends[1]]);
            let whole = parts.fold(Crc32c::EMPTY, |sum, part| {
                sum.concat_on(engine, Crc32c::of(part), part.len() as u64)
            });
            prop_assert_eq!(whole, Crc32c::of(&data), "{:?} at {:?}", engine, cuts);
        }
    }

    #[test]
    fn law3_concat_is_associative(
        a in crc32c(),
        b in crc32c(),
        c in crc32c(),
        b_len in 0u64..u64::MAX / 2,
        c_len in 0u64..u64::MAX / 2,
    ) {
        let left_first = a.concat(b, b_len).concat(c, c_len);
        prop_assert_eq!(left_first, a.concat(b.concat(c, c_len), b_len + c_len));
    }

    #[test]
    fn law3_nothing_before_or_behind_changes_nothing(sum in crc32c(), len in len()) {
        prop_assert_eq!(Crc32c::EMPTY.concat(sum, len), sum);
        prop_assert_eq!(sum.concat(Crc32c::EMPTY, 0), sum);
    }

    #[test]
    fn law4_crc32c_equals_the_reference(data in bytes()) {
        prop_assert_eq!(Crc32c::of(&data).get(), reference::crc32c(&data));
    }

    #[test]
    fn law4_concat_equals_the_reference(a in crc32c(), b in crc32c(), len in len()) {
        let whole = reference::crc32c_concat(a.get(), b.get(), len);
        for engine in [Engine::detect(), Engine::portable()] {
            prop_assert_eq!(a.concat_on(engine, b, len).get(), whole, "{} on {:?}", len, engine);
        }
    }
}

/// The sum of a kind by its definition.
fn slow(kind: Weak, bytes: &[u8]) -> u32 {
    match kind {
        Weak::Adler => reference::adler(bytes),
        Weak::Crc32c => reference::crc32c(bytes),
        Weak::FastFp => reference::fast_fp(bytes, 1),
        Weak::FastFpStride => reference::fast_fp(bytes, 16),
        Weak::LastFp => reference::last_fp(bytes),
    }
}

proptest! {
    #[test]
    fn law4_weak_sums_equal_the_reference(data in bytes()) {
        for kind in Weak::ALL {
            prop_assert_eq!(kind.of(&data), slow(kind, &data), "{:?}", kind);
        }
    }

    #[test]
    fn law4_a_rolled_sum_is_that_of_the_window(data in bytes(), len in 1usize..4096) {
        prop_assume!(len <= data.len());
        let mut sum = Adler::of(&data[..len]);
        for at in 1..=data.len() - len {
            sum = sum.roll(data[at - 1], data[at - 1 + len], len as u32);
            if at % 97 == 0 || at == data.len() - len {
                prop_assert_eq!(sum.get(), reference::adler(&data[at..at + len]), "at {}", at);
            }
        }
    }
}

/// Around the lanes of Adler, the strides and windows of FastFP and LastFP.
#[test]
fn law4_weak_sums_equal_the_reference_at_all_short_lengths() {
    let data = random(7, 300);
    for len in 0..data.len() {
        for kind in Weak::ALL {
            assert_eq!(kind.of(&data[..len]), slow(kind, &data[..len]), "{kind:?} of {len}");
        }
    }
}

/// LastFP sees the end alone: 64 bytes, the first of them by few bits. All others see each byte, whatever a chunker skips.
#[test]
fn every_byte_counts_for_all_sums_but_the_last_hash() {
    let data = random(8, 1000);
    for changed in 0..data.len() {
        let mut other = data.clone();
        other[changed] ^= 0x11;
        for kind in Weak::ALL {
            let differs = kind.of(&other) != kind.of(&data);
            match (kind, data.len() - changed) {
                (Weak::LastFp, 65..) => assert!(!differs, "{changed}"),
                (Weak::LastFp, 33..=64) => {}
                _ => assert!(differs, "{kind:?} at {changed}"),
            }
        }
    }
}

#[test]
fn names_and_numbers_are_read_back() {
    for kind in Weak::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let mut bytes = Vec::new();
        kind.encode(&mut bytes);
        assert_eq!(Weak::decode(&mut Reader::new(&bytes)), Ok(kind));
    }
    for kind in Strong::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let mut bytes = Vec::new();
        kind.encode(&mut bytes);
        assert_eq!(Strong::decode(&mut Reader::new(&bytes)), Ok(kind));
    }
    assert!("adler".parse::<Weak>().unwrap_err().to_string().contains("adler-rsync, crc32c"));
    assert!("sha".parse::<Strong>().unwrap_err().to_string().contains("sha1, sha256"));
    assert_eq!(Weak::decode(&mut Reader::new(&[0])), Err(CodecError::OutOfRange));
    assert_eq!(Strong::decode(&mut Reader::new(&[99])), Err(CodecError::OutOfRange));
}

/// Every length at which one more table, or another entry of one, is looked at.
#[test]
fn law4_concat_equals_the_reference_at_every_power_of_two() {
    let (a, b) = (Crc32c::of(b"old"), Crc32c::of(b"new"));
    let powers = (0..u64::BITS).map(|bit| 1u64 << bit);
    let lens = powers.flat_map(|power| [power - 1, power, power.saturating_add(1)]);
    for len in lens.chain([u64::MAX - 1, u64::MAX]) {
        let whole = reference::crc32c_concat(a.get(), b.get(), len);
        for engine in [Engine::detect(), Engine::portable()] {
            assert_eq!(a.concat_on(engine, b, len).get(), whole, "{len} on {engine:?}");
        }
    }
}

/// What the reference knows of long runs of zeros, from feeding short ones.
#[test]
fn the_reference_joins_sums_as_bytes_join() {
    for len in [0usize, 1, 2, 255, 256, 1000] {
        let next: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        let whole = reference::crc32c(&[&b"old"[..], &next].concat());
        let (first, next) = (reference::crc32c(b"old"), reference::crc32c(&next));
        assert_eq!(reference::crc32c_concat(first, next, len as u64), whole);
    }
}
