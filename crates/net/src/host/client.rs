//! The host for the user of this machine: at the connecting end, and at both ends of a session in one process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use deltic_store_local::StoreContext;

use super::Host;
use super::place::to_local_path;

/// Uses path arguments unchanged, because the user's shell has already expanded them.
#[derive(Default)]
pub(crate) struct Client(StoreContext);

impl Host for Client {
    fn context(&self) -> &StoreContext {
        &self.0
    }

    fn path(&self, argument: &[u8]) -> PathBuf {
        to_local_path(OsStr::from_bytes(argument))
    }
}
