//! An agent that a user's shell has started: the other end may do whatever that user may.

use std::path::PathBuf;

use super::Host;
use super::place::expand;

/// Expands path arguments as a shell in the user's home directory would.
pub(crate) struct Agent;

impl Host for Agent {
    fn path(&self, argument: &[u8]) -> PathBuf {
        expand(argument)
    }
}
