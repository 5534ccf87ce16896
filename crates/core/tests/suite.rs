//! All forms of all chunkers that this machine has, judged by one suite.

use deltic_core::Isa;
use deltic_core::suite::{check, check_operations, specs};

#[test]
fn every_form_cuts_where_the_reference_does() {
    for spec in specs() {
        let compared = check(&spec).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        assert!(compared.with_reference > 0, "{spec:?}: {compared:?}");
    }
}

#[test]
fn every_operation_on_vectors_is_one_on_bytes() {
    for isa in Isa::available() {
        assert_eq!(check_operations(isa), Ok(()), "{isa:?}");
    }
}

#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn there_are_vectors_to_test() {
    assert!(Isa::available().len() > 1, "{:?}", Isa::available());
}
