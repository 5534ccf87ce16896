//! Headings of options in `--help`.

pub(crate) const CARRY: &str = "What is preserved";
pub(crate) const CHOOSE: &str = "What is copied and left out";
pub(crate) const TRAVEL: &str = "How it travels";
pub(crate) const SHOW: &str = "What is shown";
pub(crate) const COMPATIBLE: &str = "Accepted or refused for scripts of rsync";
