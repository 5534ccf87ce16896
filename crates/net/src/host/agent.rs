//! An agent that a user's shell started. The other end may do all that this user may do.

use std::path::PathBuf;

use deltic_store_local::StoreContext;

use super::Host;
use super::place::expand;

/// Expands path arguments as a shell in the user's home directory would.
#[derive(Default)]
pub(crate) struct Agent(StoreContext);

impl Host for Agent {
    fn context(&self) -> &StoreContext {
        &self.0
    }

    fn path(&self, argument: &[u8]) -> PathBuf {
        expand(argument)
    }
}
