//! Resolves the paths of a request on this machine, and checks that the request is allowed.
//!
//! A session asks its [`Host`] to do both. [`Client`] handles arguments of this machine's own user. [`Agent`] was
//! started by a user's shell, and gives the other end all rights of that user. A [`Restriction`](restrict::Restriction)
//! confines requests to one directory. From the admitted paths, `sources` and `destination` open trees and stores.

pub(crate) mod accounts;
mod agent;
mod client;
pub(crate) mod destination;
pub(crate) mod place;
pub mod restrict;
pub(crate) mod sources;
pub(crate) mod user;
pub mod walls;

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deltic_protocol::hello::Request;
use deltic_protocol::options::Options;
use deltic_store_local::{LocalOptions, StoreContext};

use crate::error::SyncError;

pub(crate) use agent::Agent;
pub(crate) use client::Client;

/// Resolves the paths of requests, and refuses forbidden requests. By default every request is allowed.
pub(crate) trait Host: Send + Sync {
    /// Returns the local path for an argument of a request.
    fn path(&self, argument: &[u8]) -> PathBuf;

    /// Returns the state that the stores of this host share.
    fn context(&self) -> &StoreContext;

    /// Returns the request with resolved paths, if the request is allowed.
    ///
    /// # Errors
    /// [`SyncError::Selection`], naming the part that is not allowed.
    fn admit(&self, request: Request) -> Result<Request, SyncError> {
        Ok(request)
    }

    /// Refuses a source that is not allowed.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_source(&self, _: &OsStr) -> Result<(), SyncError> {
        Ok(())
    }

    /// Refuses a destination that is not allowed.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_destination(&self, _: &Path) -> Result<(), SyncError> {
        Ok(())
    }

    /// Refuses forbidden directories in the options, with the destination at `root`.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_options(&self, _root: &Path, _: &Options) -> Result<(), SyncError> {
        Ok(())
    }

    /// Returns the options of the store at `root`, with the settings of this host added.
    fn store_options(&self, _root: &Path, local: LocalOptions) -> LocalOptions {
        local
    }
}

/// The host of a session, by default for this machine's own user.
#[derive(Clone)]
pub(crate) struct AnyHost(Arc<dyn Host>);

impl AnyHost {
    pub(crate) fn new(host: impl Host + 'static) -> Self {
        Self(Arc::new(host))
    }
}

impl Default for AnyHost {
    fn default() -> Self {
        Self::new(Client::default())
    }
}

impl Deref for AnyHost {
    type Target = dyn Host;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
