//! Laws of weak sums.

use std::collections::{HashMap, HashSet};

use deltic_core::chunk::{SummingChunker, cut_all};
use deltic_core::weak::ConcatEngine;
use deltic_core::{
    Adler, Algorithm, AtEnd, ChunkerSpec, CodecError, Crc32c, Fingerprint, Reader, Sizes,
    StrongKind, WeakKind, reference,
};
use proptest::prelude::*;

use crate::{bytes, random, sizes};

/// Lengths around every power of two, and random lengths.
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
        for engine in [ConcatEngine::detect(), ConcatEngine::portable()] {
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
    fn law3_concatenation_with_no_bytes_changes_nothing(sum in crc32c(), len in len()) {
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
        for engine in [ConcatEngine::detect(), ConcatEngine::portable()] {
            prop_assert_eq!(a.concat_on(engine, b, len).get(), whole, "{} on {:?}", len, engine);
        }
    }
}

/// The reference sum of `bytes`.
fn slow(kind: WeakKind, bytes: &[u8]) -> u32 {
    match kind {
        WeakKind::Adler => reference::adler(bytes),
        WeakKind::Crc32c => reference::crc32c(bytes),
        WeakKind::FastFp => reference::fast_fp(bytes, 1),
        WeakKind::FastFpStride => reference::fast_fp(bytes, 16),
        WeakKind::LastFp => reference::last_fp(bytes),
    }
}

proptest! {
    #[test]
    fn law4_weak_sums_equal_the_reference(data in bytes()) {
        for kind in WeakKind::ALL {
            prop_assert_eq!(kind.of(&data), slow(kind, &data), "{:?}", kind);
        }
    }

    /// FastFP as a by-product of the Gear hash: the same chunks as FastCDC cuts, with the sums of the reference.
    #[test]
    fn law4_sums_by_cutting_equal_the_reference(data in bytes(), copies in 1usize..4, sizes in sizes()) {
        let data = data.repeat(copies);
        for algorithm in [Algorithm::FastCdc, Algorithm::FastCdcNc] {
            let spec = ChunkerSpec::ByContent(algorithm, sizes);
            for kind in [WeakKind::FastFp, WeakKind::FastFpStride, WeakKind::LastFp] {
                let chunker = SummingChunker::new(&spec, kind).expect("a sum of Gear hashes");
                for at_end in [AtEnd::Yes, AtEnd::No] {
                    let (mut found, mut wanted) = (Vec::new(), Vec::new());
                    let cut = chunker.cut_all(&data, at_end, |chunk, sum| found.push((chunk.len(), sum)));
                    let all = cut_all(&spec.build(), &data, at_end, |chunk| {
                        wanted.push((chunk.len(), slow(kind, chunk)));
                    });
                    prop_assert_eq!(&found, &wanted, "{:?} {:?}", algorithm, kind);
                    prop_assert_eq!(cut, all);
                }
            }
        }
    }

    #[test]
    fn law4_a_rolled_sum_equals_the_sum_of_the_window(data in bytes(), len in 1usize..4096) {
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

/// No other chunker and no other sum has a by-product.
#[test]
fn only_fastcdc_sums_gear_hashes() {
    let sizes = Sizes::new(512, 1024, 4096).expect("sizes rise");
    for algorithm in Algorithm::ALL {
        let spec = ChunkerSpec::ByContent(algorithm, sizes);
        let is_fastcdc = matches!(algorithm, Algorithm::FastCdc | Algorithm::FastCdcNc);
        for kind in WeakKind::ALL {
            let is_of_gear = !matches!(kind, WeakKind::Adler | WeakKind::Crc32c);
            let has_sum = SummingChunker::new(&spec, kind).is_some();
            assert_eq!(has_sum, is_fastcdc && is_of_gear, "{algorithm:?} {kind:?}");
        }
    }
}

/// Lengths around the lanes of Adler, and the strides and windows of FastFP and LastFP.
#[test]
fn law4_weak_sums_equal_the_reference_at_all_short_lengths() {
    let data = random(7, 300);
    for len in 0..data.len() {
        for kind in WeakKind::ALL {
            assert_eq!(kind.of(&data[..len]), slow(kind, &data[..len]), "{kind:?} of {len}");
        }
    }
}

/// LastFP depends on the last 64 bytes only, and on the first of these by few bits. All other sums depend on
/// every byte.
#[test]
fn every_byte_changes_all_sums_except_lastfp() {
    let data = random(8, 1000);
    for changed in 0..data.len() {
        let mut other = data.clone();
        other[changed] ^= 0x11;
        for kind in WeakKind::ALL {
            let differs = kind.of(&other) != kind.of(&data);
            match (kind, data.len() - changed) {
                (WeakKind::LastFp, 65..) => assert!(!differs, "{changed}"),
                (WeakKind::LastFp, 33..=64) => {}
                _ => assert!(differs, "{kind:?} at {changed}"),
            }
        }
    }
}

#[test]
fn names_and_numbers_parse_to_their_kind() {
    for kind in WeakKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let mut bytes = Vec::new();
        kind.encode(&mut bytes);
        assert_eq!(WeakKind::decode(&mut Reader::new(&bytes)), Ok(kind));
    }
    for kind in StrongKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        let mut bytes = Vec::new();
        kind.encode(&mut bytes);
        assert_eq!(StrongKind::decode(&mut Reader::new(&bytes)), Ok(kind));
    }
    assert!("adler".parse::<WeakKind>().unwrap_err().to_string().contains("adler-rsync, crc32c"));
    assert!("sha".parse::<StrongKind>().unwrap_err().to_string().contains("sha1, sha256"));
    assert_eq!(WeakKind::decode(&mut Reader::new(&[0])), Err(CodecError::OutOfRange));
    assert_eq!(StrongKind::decode(&mut Reader::new(&[99])), Err(CodecError::OutOfRange));
}

/// Lengths at which `concat` uses another table or another table entry.
#[test]
fn law4_concat_equals_the_reference_at_every_power_of_two() {
    let (a, b) = (Crc32c::of(b"old"), Crc32c::of(b"new"));
    let powers = (0..u64::BITS).map(|bit| 1u64 << bit);
    let lens = powers.flat_map(|power| [power - 1, power, power.saturating_add(1)]);
    for len in lens.chain([u64::MAX - 1, u64::MAX]) {
        let whole = reference::crc32c_concat(a.get(), b.get(), len);
        for engine in [ConcatEngine::detect(), ConcatEngine::portable()] {
            assert_eq!(a.concat_on(engine, b, len).get(), whole, "{len} on {engine:?}");
        }
    }
}

/// The reference for long runs of zeros equals feeding short runs.
#[test]
fn the_reference_concatenation_equals_the_sum_of_both_parts() {
    for len in [0usize, 1, 2, 255, 256, 1000] {
        let next: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        let whole = reference::crc32c(&[&b"old"[..], &next].concat());
        let (first, next) = (reference::crc32c(b"old"), reference::crc32c(&next));
        assert_eq!(reference::crc32c_concat(first, next, len as u64), whole);
    }
}

/// Different chunks of random bytes, cut as in NetSync (§5.2).
fn chunks(data: &[u8]) -> Vec<&[u8]> {
    let sizes = Sizes::new(512, 1024, 4096).expect("sizes rise");
    let chunker = ChunkerSpec::ByContent(Algorithm::FastCdcNc, sizes).build();
    let (mut rest, mut chunks, mut seen) = (data, Vec::new(), HashSet::new());
    cut_all(&chunker, data, AtEnd::Yes, |chunk| {
        let (chunk, after) = rest.split_at(chunk.len());
        chunks.extend(seen.insert(Fingerprint::of(chunk)).then_some(chunk));
        rest = after;
    });
    chunks
}

/// True if a chi-square test with 1,024 bins accepts a uniform distribution. The limit is eight standard
/// deviations.
fn are_even(sums: &[u32]) -> bool {
    let mut bins = [0u32; 1024];
    sums.iter().for_each(|sum| bins[(sum >> 22) as usize] += 1);
    let mean = sums.len() as f64 / bins.len() as f64;
    let chi: f64 = bins.iter().map(|count| (f64::from(*count) - mean).powi(2) / mean).sum();
    let freedom = bins.len() as f64 - 1.0;
    chi < freedom + 8.0 * (2.0 * freedom).sqrt()
}

/// Number of pairs of equal sums.
fn pairs(sums: &[u32]) -> u64 {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    sums.iter().for_each(|sum| *counts.entry(*sum).or_default() += 1);
    counts.values().map(|count| count * (count - 1) / 2).sum()
}

/// NetSync §5.2: sums of different chunks are uniform and rarely collide. Some bad sums show that the tests can
/// fail.
#[test]
fn weak_sums_are_even_and_rarely_collide() {
    // Random 32-bit sums of this many chunks have an expected eighth of a colliding pair.
    const FEW: u64 = 16;
    let data = random(11, 32 << 20);
    let chunks = chunks(&data);
    assert!(chunks.len() > 20_000, "{}", chunks.len());
    let sums =
        |sum: &dyn Fn(&[u8]) -> u32| chunks.iter().map(|chunk| sum(chunk)).collect::<Vec<_>>();
    for kind in [WeakKind::Adler, WeakKind::Crc32c, WeakKind::FastFp, WeakKind::FastFpStride] {
        let sums = sums(&|chunk| kind.of(chunk));
        assert!(are_even(&sums) && pairs(&sums) <= FEW, "{kind:?}: {} pairs", pairs(&sums));
    }
    // The last hash of a chunk has the bits that made the chunk end.
    assert!(!are_even(&sums(&|chunk| WeakKind::LastFp.of(chunk))));
    // One bit is always set.
    assert!(!are_even(&sums(&|chunk| WeakKind::Crc32c.of(chunk) | 1 << 31)));
    // The sum of all bytes.
    assert!(!are_even(&sums(&|chunk| chunk.iter().map(|byte| u32::from(*byte)).sum())));
    // Uniform, but half as long.
    let short = sums(&|chunk| WeakKind::Crc32c.of(chunk) & 0xffff_0000);
    assert!(are_even(&short) && pairs(&short) > FEW);
}

/// Pages with the same records in different orders, as databases may write them. A plain sum of bytes ignores
/// the order.
#[test]
fn crcs_of_reordered_records_differ() {
    let page = random(12, 1024);
    let mut records: Vec<&[u8]> = page.chunks(32).collect();
    let mut seen = HashSet::new();
    let mut pages = Vec::new();
    for dice in random(13, 20_000 * records.len()).chunks(records.len()) {
        for last in (1..records.len()).rev() {
            records.swap(last, usize::from(dice[last]) % (last + 1));
        }
        let page = records.concat();
        pages.extend(seen.insert(page.clone()).then_some(page));
    }
    let crcs: Vec<u32> = pages.iter().map(|page| WeakKind::Crc32c.of(page)).collect();
    assert!(are_even(&crcs) && pairs(&crcs) <= 16, "{} pairs", pairs(&crcs));
    // The lower half of an Adler is the sum of all bytes.
    let halves: Vec<u32> = pages.iter().map(|page| WeakKind::Adler.of(page) << 16).collect();
    assert!(!are_even(&halves) && pairs(&halves) > 16);
}
