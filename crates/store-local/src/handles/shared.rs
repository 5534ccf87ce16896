//! State that the handles of one [`StoreContext`](crate::StoreContext) share.

use std::sync::Arc;

use crate::bytes::flush::FlushGroups;
use crate::facts::service::FactsClient;
use crate::handles::dir::PathBounds;

/// State that the handles of one context share: the directories that paths may lead to, and flushes of a file system
/// that are done together. All contexts share one client of the [facts service](crate::facts::service).
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) bounds: PathBounds,
    pub(crate) flushes: FlushGroups,
    pub(crate) facts: Arc<FactsClient>,
}

impl Default for SharedState {
    fn default() -> Self {
        let (bounds, flushes) = (PathBounds::default(), FlushGroups::default());
        Self { bounds, flushes, facts: FactsClient::of_process() }
    }
}
