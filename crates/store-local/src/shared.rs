//! State that the handles of one [`StoreContext`](crate::StoreContext) share.

use crate::facts::service::FactsClient;
use crate::flush::FlushGroups;

/// State that the handles of one context share: flushes of a file system that are done together, and the connections
/// to the service that tells facts.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    pub(crate) flushes: FlushGroups,
    pub(crate) facts: FactsClient,
}
