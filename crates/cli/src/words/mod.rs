//! Single words of a command line and what they mean: sizes, rates, ages, times, places, levels.

pub(crate) mod age;
pub(crate) mod levels;
pub(crate) mod place;
pub(crate) mod rate;
pub(crate) mod shell;
pub(crate) mod size;
pub(crate) mod zone;
