//! Runs the suite for all forms of all chunkers on this machine.

use deltic_core::suite::{check, check_operations, specs};
use deltic_core::{Algorithm, AtEnd, ChunkerSpec, Isa, Sizes, reference, scan};

#[test]
fn every_vector_form_cuts_like_the_reference() {
    specs().filter(has_vector_form).for_each(judge);
}

#[test]
fn every_portable_form_cuts_like_the_reference() {
    specs().filter(|spec| !has_vector_form(spec)).for_each(judge);
}

fn has_vector_form(spec: &ChunkerSpec) -> bool {
    matches!(spec, ChunkerSpec::ByContent(algorithm, _) if algorithm.has_vector_form())
}

fn judge(spec: ChunkerSpec) {
    let compared = check(&spec).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    assert!(compared.with_reference >= 100, "{spec:?}: {compared:?}");
}

/// Parameters that depend on the average: mesh and hash of the sieve, limits of Gear, window of MAXP, skips of
/// SeqCDC.
#[test]
fn chunks_of_every_average_equal_the_reference() {
    let data = random(2 << 20);
    for algorithm in [Algorithm::Sieve, Algorithm::GearNc, Algorithm::Maxp, Algorithm::Seq] {
        for avg in (9..=19).map(|bits| 1u32 << bits) {
            let sizes = Sizes::new((avg / 4).max(512), avg, (avg * 4).min(1 << 19));
            let spec = ChunkerSpec::ByContent(algorithm, sizes.expect("sizes rise"));
            let found = scan(&spec.build(), &data, AtEnd::Yes).chunks;
            assert_eq!(found, reference::chunks(&spec, &data), "{spec:?}");
        }
    }
}

#[test]
fn every_vector_operation_equals_the_operation_on_bytes() {
    for isa in Isa::available() {
        assert_eq!(check_operations(isa), Ok(()), "{isa:?}");
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn this_machine_has_vectors() {
    assert!(Isa::available().len() > 1, "{:?}", Isa::available());
}

/// Bytes from a linear congruential generator.
fn random(len: usize) -> Vec<u8> {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    let states = std::iter::successors(Some(1), next);
    states.map(|state: u64| (state >> 56) as u8).take(len).collect()
}
