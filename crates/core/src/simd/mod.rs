//! Instructions that not every processor has, each behind a value that only their detection makes.

pub(crate) mod clmul;
