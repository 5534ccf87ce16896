//! The laws of docs/laws.md for pure computing, each as a property test against a slow reference.

mod changes;
mod chunk;
mod code;
mod codec;
mod cuckoo;
mod delta;
mod format;
mod gap;
mod index;
mod keyed;
mod merge;
mod moved;
mod parallel;
mod recipe;
mod search;
mod weak;

use deltic_core::chunk::FixedLen;
use deltic_core::{Algorithm, ChunkerSpec, Sizes};
use proptest::prelude::*;
use proptest::sample::select;

/// Chunkers with chunks so short that the reference is fast enough. Some have equal minimum and maximum; some
/// Gear chunkers cut so often that errors in the first or last bytes of a window show.
pub(crate) fn specs() -> impl Strategy<Value = ChunkerSpec> {
    let fixed = ChunkerSpec::Fixed(FixedLen::new(700).expect("length is in range"));
    prop_oneof![
        1 => Just(fixed),
        9 => (select(&Algorithm::ALL[..]), sizes())
            .prop_map(|(algorithm, sizes)| ChunkerSpec::ByContent(algorithm, sizes)),
    ]
}

/// The sizes of [`specs`].
pub(crate) fn sizes() -> impl Strategy<Value = Sizes> {
    let sizes = [
        (512, 1024, 4096),
        (513, 2048, 3001),
        (512, 512, 512),
        (512, 512, 4096),
        (512, 512, 519),
        (700, 1024, 1500),
    ];
    let checked = |(min, avg, max)| Sizes::new(min, avg, max).expect("sizes rise");
    select(sizes.map(checked).to_vec())
}

/// Lengths around every constant of [`specs`], and lengths of several chunks.
pub(crate) fn lens() -> impl Strategy<Value = usize> {
    let edges = [512, 513, 700, 768, 1024, 1500, 2048, 3001, 4096, 8192];
    let near: Vec<usize> = edges.iter().flat_map(|len| len - 2..=len + 2).collect();
    prop_oneof![proptest::sample::select(near), 0usize..20, 1000usize..30_000]
}

/// Test data of many kinds.
pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    (lens(), any::<u64>(), 0..6).prop_map(|(len, seed, kind)| match kind {
        0 => random(seed, len),
        1 => (0..len).map(|n| (n % 251) as u8).collect(),
        2 => vec![seed as u8; len],
        3 => random(seed, len).iter().map(|byte| byte & 1).collect(),
        4 => text(seed, len),
        _ => [random(seed, len / 2), vec![0; len - len / 2]].concat(),
    })
}

/// `len` bytes from a SplitMix64 generator.
pub(crate) fn random(seed: u64, len: usize) -> Vec<u8> {
    let words = (1..=len as u64).map(|n| {
        let state = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56
    });
    words.map(|word| word as u8).collect()
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    let words = ["old ", "new ", "span ", "chunk ", "group ", "recipe ", "literal ", "copy\n"];
    let chosen = random(seed, len);
    let letters = chosen.iter().flat_map(|byte| words[usize::from(byte % 8)].bytes());
    letters.take(len).collect()
}
