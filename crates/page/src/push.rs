//! Starts pushes. This module is left out of a WebAssembly module that is built with the feature `pull` alone.

use deltic_carrier::control::SessionScope;
use deltic_worker::dialling::{PushEnd, PushRequest};

use crate::requests::{hello, options, place};
use crate::{Connection, HostFiles, PageStore, Push, RequestError};

impl<H: HostFiles> Connection<H> {
    /// Starts to push a file of the user. Returns the number of the transfer.
    ///
    /// # Errors
    /// [`RequestError`] if the transfer cannot begin.
    pub fn push(&mut self, request: Push) -> Result<u32, RequestError> {
        let (destination, name) = place(&request.path)?;
        let present = Some((request.new.file, request.new.meta()));
        let store = PageStore::new(self.host.clone(), name.clone(), present, None);
        let mut options = options(request.strategy.as_deref())?;
        options.compare.ignore_times = request.on_request || request.replaces.is_some();
        // The server wants a new file as a whole, so an offer of its chunks would be in vain.
        let is_new = request.replaces.as_deref() == Some("");
        let (single, own, offers) = (Some(name), None, !request.on_request && !is_new);
        let ours = hello(&request.random, &options.strategy)?;
        let push = PushRequest { destination, single, own, offers, options };
        let end = PushEnd::push(store, push, ours)?;
        let scope = SessionScope { replaces: request.replaces, version: None };
        self.open(request.volume, scope, Box::new(end), None)
    }
}
