//! Headings of options in `--help`.

pub(crate) const CARRY: &str = "Recursion and attributes";
pub(crate) const CHOOSE: &str = "File selection and filter rules";
pub(crate) const TRAVEL: &str = "Transfer and connection";
pub(crate) const SHOW: &str = "Output";
pub(crate) const COMPATIBLE: &str = "rsync options accepted or refused";
