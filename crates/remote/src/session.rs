//! A system as the other end of a session in this process.

use std::path::PathBuf;
use std::sync::Arc;

use deltic_net::SyncError;
use deltic_net::embed::{Embedding, Knowledge, Served, serve_tree};
use deltic_net::executor::{Executor, Limits};
use deltic_net::old_sums::OldSums;
use deltic_net::plan::{Dial, Dialling, Stream};
use deltic_net::reasons::Reasons;
use deltic_protocol::options::Options;
use deltic_store::Filter;
use deltic_tree::rule::FilterSide;

use crate::alike::{Alike, Far};
use crate::evidence::Evidence;
use crate::system::System;
use crate::tree::{RemoteTree, Takes};
use crate::{Env, Kind, RemoteError};

/// Files that are asked for at once: each waits for its answer.
const AT_ONCE: usize = 16;
/// Bytes on the way between both ends in this process.
const PIPE_BYTES: usize = 1 << 20;

/// A system that a URL names.
#[derive(Clone, Debug)]
pub struct Remote {
    pub(crate) system: Arc<dyn System>,
}

impl Remote {
    /// The system at `SCHEME://HOST`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`RemoteError::Address`] where that is none, or its credentials make no sense.
    pub fn new(url: &str, env: &dyn Env) -> Result<Self, RemoteError> {
        Ok(Self { system: Kind::open(url, env)? })
    }

    /// The tree of these paths.
    ///
    /// # Errors
    /// [`RemoteError::Address`] where one is none.
    pub fn tree(&self, paths: &[Vec<u8>], takes: Takes) -> Result<RemoteTree, RemoteError> {
        RemoteTree::new(Arc::clone(&self.system), paths, takes)
    }

    /// Bytes that came from it so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.system.received()
    }

    /// True if its directories have times of their own.
    #[must_use]
    pub fn has_dir_times(&self) -> bool {
        self.system.has_dir_times()
    }

    /// Dials it: each session has its other end in this process, which knows what is in the directory `cache`, and
    /// tells `reasons` why it reads what it reads. Tells what contents are compared by besides.
    #[must_use]
    pub fn dial(&self, cache: Option<PathBuf>, reasons: Option<Reasons>) -> (Dial, Evidence) {
        let alike = Arc::new(Alike::default());
        let (remote, sums, evidence) = (self.clone(), Arc::clone(&alike), alike.evidence());
        let open = move || remote.connect((cache.clone(), reasons.clone()), &alike);
        (Dial::new(open).with_old_sums(sums), evidence)
    }

    fn connect(
        &self,
        (cache, reasons): (Option<PathBuf>, Option<Reasons>),
        alike: &Arc<Alike>,
    ) -> Dialling {
        let (remote, alike) = (self.clone(), Arc::clone(alike));
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let old_sums: Arc<dyn OldSums> = Arc::new(Far(Arc::clone(&alike)));
            let known = Knowledge { cache, old_sums, reasons };
            // Threads here wait for a network, and compute little.
            let limits = Limits { compute: AT_ONCE, ..Limits::default() };
            let with = Embedding { executor: Executor::new(limits), ..Embedding::default() };
            let open = move |paths: Vec<Vec<u8>>, options: &Options| {
                let tree = remote.tree(&paths, takes(options)).map_err(refused)?;
                let (own, single) = (tree.root(), tree.single());
                alike.send(&tree);
                Ok(Served { own: own.map_err(refused)?, single: single.map_err(refused)?, tree })
            };
            tokio::spawn(async move {
                // The other end hears of errors by the last word.
                serve_tree(open, theirs, known, &with).await.ok();
            });
            let stream: Box<dyn Stream> = Box::new(ours);
            Ok(Box::into_pin(stream))
        })
    }
}

fn takes(options: &Options) -> Takes {
    Takes {
        rules: Filter::new(&options.rules, FilterSide::Sender),
        recursive: options.recursive,
        dirs: options.select.dirs,
    }
}

fn refused(error: RemoteError) -> SyncError {
    SyncError::Selection(error.to_string())
}

#[cfg(test)]
pub(crate) mod tests;
