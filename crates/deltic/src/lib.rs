//! Deltic as a library.
#![doc = include_str!("../README.md")]

mod delta;

pub use delta::{Delta, DeltaError, Op, apply, delta};
pub use deltic_core::format::FormatError;
