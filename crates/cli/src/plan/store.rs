//! Sources in an object store or a remote file system, named by a URL.

use std::path::PathBuf;

use anyhow::{Result, bail};
use deltic_core::strategy::Strategy;
use deltic_net::plan::{Destination, Dial, Sources, remote_host};
use deltic_protocol::options::Options;
use deltic_remote::{Evidence, ProcessEnvironment, RemoteSystem};

use crate::words::place::is_store;

/// A connected store.
#[derive(Clone, Debug)]
pub(crate) struct StoreConnection {
    /// The connection to the store.
    pub(crate) dial: Dial,
    /// The evidence by which contents were compared, such as checksums.
    pub(crate) evidence: Evidence,
    /// The store itself.
    pub(crate) remote: RemoteSystem,
    /// The store of the second tree, in a comparison of two stores.
    pub(crate) second: Option<RemoteSystem>,
}

impl StoreConnection {
    /// Returns the bytes received from the stores so far.
    pub(crate) fn received(&self) -> u64 {
        self.remote.received() + self.second.as_ref().map_or(0, RemoteSystem::received)
    }
}

/// Connects to the store that an operand names, if any. Restricts `options` to metadata that the store keeps.
pub(crate) fn dial(
    sources: &Sources,
    destination: &Destination,
    cache: Option<PathBuf>,
    options: &mut Options,
) -> Result<Option<StoreConnection>> {
    let Some(host) = remote_host(sources, destination).filter(|host| is_store(host)) else {
        return Ok(None);
    };
    if matches!(destination, Destination::Remote { .. }) {
        bail!("{host}: Deltic only reads from stores; sync to a path, or over ssh");
    }
    if options.strategy != Strategy::DELTIC {
        bail!(
            "--strategy {}: a strategy needs Deltic at both ends, and {host} is a store that computes nothing on \
             request; leave the option out, and the parts that differ are found by checksums that the store keeps",
            options.strategy.name
        );
    }
    if options.remove.sources {
        bail!("--remove-source-files: files of {host} cannot be removed; leave the option out");
    }
    let remote = RemoteSystem::new(host, &ProcessEnvironment)?;
    remote.restrict(options);
    let (dial, evidence) = remote.dial(cache);
    Ok(Some(StoreConnection { dial, evidence, remote, second: None }))
}
