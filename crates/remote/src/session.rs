//! A remote system as the sender of a session in this process.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use deltic_net::SyncError;
use deltic_net::embed::{Embedding, InProcessFacts, Served, serve_tree};
use deltic_net::executor::{Executor, Limits};
use deltic_net::old_sums::OldSums;
use deltic_net::plan::{Dial, Dialling, Stream};
use deltic_protocol::options::Options;
use deltic_store::Filter;
use deltic_tree::rule::FilterSide;

use crate::evidence::Evidence;
use crate::local_sums::{LocalSums, SystemSums};
use crate::read_ahead::{ExtraBytes, ReadAhead};
use crate::sums::ObjectSums;
use crate::system::{StorageSystem, SystemEntry};
use crate::tree::{RemoteTree, TreeOptions};
use crate::{Environment, RemoteError, SystemKind, patterns};

/// Files read at once. Each file spends most of the time waiting for the network.
const AT_ONCE: usize = 16;
/// Buffer in bytes between the two ends of a session.
const PIPE_BYTES: usize = 1 << 20;

/// A remote system that a URL names.
#[derive(Clone, Debug)]
pub struct RemoteSystem {
    pub(crate) system: Arc<dyn StorageSystem>,
}

impl RemoteSystem {
    /// Makes a client for the system at `SCHEME://HOST`. Sends no request.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for a malformed URL or unusable credentials.
    pub fn new(url: &str, env: &dyn Environment) -> Result<Self, RemoteError> {
        Ok(Self { system: SystemKind::open(url, env)? })
    }

    /// The source tree of `paths`, which may have wildcards.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for a path that is not UTF-8 or has an invalid name, and errors of the requests that
    /// expand wildcards.
    pub fn tree(&self, paths: &[Vec<u8>], takes: TreeOptions) -> Result<RemoteTree, RemoteError> {
        let mut all = Vec::new();
        for path in paths {
            all.extend(patterns::expanded(&*self.system, path)?);
        }
        RemoteTree::new(Arc::clone(&self.system), &all, takes)
    }

    /// Reads the object at `path`, which may have wildcards that match one object, and passes its bytes to `take`.
    /// Returns the error of `take` within `Ok`.
    ///
    /// # Errors
    /// [`RemoteError::NotFound`], and errors of the requests. Bytes that do not match a checksum of the system are an
    /// error, perhaps after some of them were passed on.
    pub fn read(
        &self,
        path: &[u8],
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, RemoteError> {
        let found = patterns::expanded(&*self.system, path)?;
        let [path] = &found[..] else {
            return Err(RemoteError::Wrong(format!("{} names match; give one name", found.len())));
        };
        let path = std::str::from_utf8(path).map_err(|_| RemoteError::NotFound)?;
        let path = path.trim_matches('/');
        let object = match self.system.look(path)? {
            Some(SystemEntry::Object(object)) => object,
            Some(SystemEntry::Dir { .. }) => {
                let why = "a directory; `deltic ls` lists the names in a directory";
                return Err(RemoteError::Wrong(why.into()));
            }
            Some(SystemEntry::Other) => {
                return Err(RemoteError::Wrong("not a regular file".into()));
            }
            None => return Err(RemoteError::NotFound),
        };
        let len = object.len;
        let sums = match len {
            0 => ObjectSums::default(),
            _ => self.system.sums(path, &object)?.check(len)?,
        };
        let system = Arc::clone(&self.system);
        let ahead = ReadAhead::new(system, path.into(), object.clone(), ExtraBytes::default());
        ahead.plan(std::slice::from_ref(&(0..len)), &sums, None);
        let (mut at, mut buffer) = (0, vec![0; PIPE_BYTES]);
        while at < len {
            let read = ahead.read(at, &mut buffer)?;
            if let Err(error) = take(&buffer[..read]) {
                return Ok(Err(error));
            }
            at += read as u64;
        }
        ahead.check()?;
        self.system.check(path, &object)?;
        Ok(Ok(()))
    }

    /// Bytes received from the system so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.system.received()
    }

    /// Restricts the options of a sync from this system to what the system can do, and to metadata that it keeps.
    pub fn restrict(&self, options: &mut Options) {
        // A recipe would require reading whole remote files. Sender and receiver both run here, so nothing is
        // compressed.
        options.whole_file = true;
        options.compress = false;
        options.streams = 1;
        // Files get the owners and modes of newly created files.
        options.modes = false;
        options.metadata.users = false;
        options.metadata.groups = false;
        options.metadata.omit_dir_times |= !self.system.has_dir_times();
    }

    /// Returns a dialler that runs the sending end of each session in this process, and the counts of comparisons.
    ///
    /// `cache` is the directory of digests and recipes of earlier runs.
    #[must_use]
    pub fn dial(&self, cache: Option<PathBuf>) -> (Dial, Evidence) {
        let local_sums = Arc::new(LocalSums::default());
        let (remote, sums, evidence) =
            (self.clone(), Arc::clone(&local_sums), local_sums.evidence());
        let old_versions = local_sums.old_versions();
        let open = move || remote.connect(cache.clone(), &local_sums);
        let system = Arc::clone(&self.system);
        let traffic = move || old_versions.counted(system.received());
        (Dial::new(open).with_old_sums(sums).with_traffic(traffic), evidence)
    }

    fn connect(&self, cache: Option<PathBuf>, local_sums: &Arc<LocalSums>) -> Dialling {
        let (remote, local_sums) = (self.clone(), Arc::clone(local_sums));
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            let old_sums: Arc<dyn OldSums> = Arc::new(SystemSums(Arc::clone(&local_sums)));
            let known = InProcessFacts { cache, old_sums: Some(old_sums) };
            // These threads wait for the network and compute little.
            let limits = Limits { compute: AT_ONCE, ..Limits::default() };
            let with = Embedding { executor: Executor::new(limits), ..Embedding::default() };
            let open = move |paths: Vec<Vec<u8>>, options: &Options| {
                let tree = remote.tree(&paths, takes(options)).map_err(refused)?;
                let (own, single) = (tree.root(), tree.single());
                local_sums.set_tree(&tree);
                Ok(Served { own: own.map_err(refused)?, single: single.map_err(refused)?, tree })
            };
            tokio::spawn(async move {
                // The receiver gets errors in the last frame of the session.
                serve_tree(open, theirs, known, &with).await.ok();
            });
            let stream: Box<dyn Stream> = Box::new(ours);
            Ok(Box::into_pin(stream))
        })
    }
}

fn takes(options: &Options) -> TreeOptions {
    TreeOptions {
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
