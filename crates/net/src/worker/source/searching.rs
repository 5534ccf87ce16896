//! Searches new for the blocks of old that the receiver told.

use deltic_core::recipe::FileDigest;
use deltic_engine::search::NewSearch;
use deltic_protocol::sender::Searched;
use deltic_protocol::sums::Search;
use deltic_protocol::work::Handle;
use deltic_store::{StoreError, Tree};

use super::SourceWorker;
use crate::worker::steps::{searched_sums, with_segment};

impl<T: Tree> SourceWorker<T> {
    /// Searches the next segment, which begins at `start`.
    pub(super) fn search(
        &self,
        (handle, start): (Handle, u64),
        search: Search,
        (digest, zstd): (Box<FileDigest>, bool),
    ) -> Result<Searched, StoreError> {
        let (snapshot, agreed) = (self.snapshot(handle), self.agreed());
        let searcher = search.searcher(Some(agreed.key));
        let kept = searched_sums(&searcher, &*snapshot, start)?;
        let (zstd, limits) = (self.packs(zstd), agreed.terms.limits);
        let search = NewSearch { searcher, digest, start, zstd, limits, kept };
        with_segment(&self.buffers, &*snapshot, start, |bytes, at_end| search.search(bytes, at_end))
    }
}
