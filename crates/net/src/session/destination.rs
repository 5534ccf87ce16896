//! A request to receive into a destination.

use deltic_protocol::options::Options;
use deltic_tree::Name;

/// A request to receive into a destination.
#[derive(Clone, Debug)]
pub struct DestinationRequest {
    /// The path, as the user wrote it.
    pub path: Box<[u8]>,
    /// Name of the entry to be received, if there is only one.
    pub single: Option<Name>,
    /// Options of the run.
    pub options: Options,
}
