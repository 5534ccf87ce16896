//! Sources that a URL of an object store or a file system elsewhere names.

use std::path::PathBuf;

use anyhow::{Result, bail};
use deltic_net::plan::{Destination, Dial, Sources, far_host};
use deltic_net::reasons::Reasons;
use deltic_protocol::options::Options;
use deltic_remote::{Evidence, ProcessEnvironment, RemoteSystem};

use crate::words::place::is_store;

/// A store that is reached.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// The way there.
    pub(crate) dial: Dial,
    /// Evidence by which its contents are compared.
    pub(crate) evidence: Evidence,
    /// The store itself.
    pub(crate) remote: RemoteSystem,
}

/// Reaches the store of a run, if it has one, and fits the options to what such a store keeps.
pub(crate) fn dial(
    (sources, destination): (&Sources, &Destination),
    (cache, reasons): (Option<PathBuf>, Option<Reasons>),
    options: &mut Options,
) -> Result<Option<Store>> {
    let Some(host) = far_host(sources, destination).filter(|host| is_store(host)) else {
        return Ok(None);
    };
    if matches!(destination, Destination::Remote { .. }) {
        bail!("{host}: Deltic reads there and does not write yet; sync to a path, or over ssh");
    }
    if options.remove.sources {
        bail!("--remove-source-files: nothing is removed from {host}");
    }
    let remote = RemoteSystem::new(host, &ProcessEnvironment)?;
    // A recipe would cost reading all of what is far away; both ends are here, so nothing is packed.
    options.whole_file = true;
    options.compress = false;
    options.streams = 1;
    // Owners and modes are not kept there: files get those of any new file.
    options.modes = false;
    options.metadata.users = false;
    options.metadata.groups = false;
    options.metadata.omit_dir_times |= !remote.has_dir_times();
    let (dial, evidence) = remote.dial(cache, reasons);
    Ok(Some(Store { dial, evidence, remote }))
}
