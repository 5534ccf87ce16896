//! One module per subcommand.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod delta;
pub(crate) mod patch;
pub(crate) mod signature;
pub(crate) mod sync;
