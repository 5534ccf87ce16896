//! Subcommands, one module each.

pub(crate) mod agent;
mod batch;
pub(crate) mod bench;
pub(crate) mod delta;
pub(crate) mod doctor;
mod evidence;
pub(crate) mod facts;
mod far;
mod files;
mod holes;
pub(crate) mod install;
mod invitation;
pub(crate) mod login;
pub(crate) mod look;
pub(crate) mod man;
pub(crate) mod patch;
mod run;
pub(crate) mod serve;
pub(crate) mod signature;
pub(crate) mod start;
#[cfg(feature = "labs")]
pub(crate) mod storage;
pub(crate) mod sync;
pub(crate) mod token;
pub(crate) mod verify;
pub(crate) mod version;
pub(crate) mod versions;
pub(crate) mod watch;
