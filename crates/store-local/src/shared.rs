//! State that the handles of one [`StoreContext`](crate::StoreContext) share.

use crate::dir::PathBounds;
use crate::facts::service::FactsClient;
use crate::flush::FlushGroups;

/// State that the handles of one context share: the directories that paths may lead to, flushes of a file system that are done together, and the connections
/// to the service that tells facts.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    pub(crate) bounds: PathBounds,
    pub(crate) flushes: FlushGroups,
    pub(crate) facts: FactsClient,
}
