//! Starts pulls. This module is left out of a WebAssembly module that is built with the feature `push` alone.

use deltic_carrier::control::{FileVersion, SessionScope};
use deltic_protocol::receiver::Expect;
use deltic_worker::dialling::{PullEnd, PullRequest};
use deltic_worker::receiving::OpenDestination;

use crate::requests::{hello, options, place};
use crate::{Connection, HostFiles, PageStore, Pull, RequestError};

/// Most literal bytes on their way to this end. A page cannot pause a WebSocket.
const CREDIT_BYTES: u64 = 4 << 20;

impl<H: HostFiles> Connection<H> {
    /// Starts to pull a file of the server. Returns the number of the transfer.
    ///
    /// # Errors
    /// [`RequestError`] if the transfer cannot begin.
    pub fn pull(&mut self, request: Pull) -> Result<u32, RequestError> {
        let (dir, name) = place(&request.path)?;
        let present = request.old.map(|old| (old.file, old.meta()));
        let host = self.host.clone();
        let store = PageStore::new(host, name.clone(), present, Some(request.staged));
        let source = [&dir[..], name.as_bytes()].concat().into();
        let options = options(request.strategy.as_deref())?;
        let ours = hello(&request.random, &options.strategy)?.with_credit(Some(CREDIT_BYTES));
        let pull = PullRequest { source, expect: Expect::from([name]), options };
        let destination = OpenDestination::new(store.clone());
        let end = PullEnd::pull(destination, pull, ours)?;
        let version = request.version.map(|id| FileVersion { path: request.path, id });
        let scope = SessionScope { replaces: None, version };
        self.open(request.volume, scope, Box::new(end), Some(store))
    }
}
