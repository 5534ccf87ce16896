//! What the names of a request mean on this machine, and what is allowed here.
//!
//! A session asks its [`Host`] for both. [`Client`] is for arguments of this machine's own user; [`Agent`] has been
//! started by a user's shell and trusts the other end as that user; a [`Restriction`](restrict::Restriction) keeps to
//! one directory. From the paths that a host admits, `sources` and `destination` make trees and stores.

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
use deltic_store_local::LocalOptions;

use crate::error::SyncError;

pub(crate) use agent::Agent;
pub(crate) use client::Client;

/// Resolves the names of requests, and refuses what is not allowed. Unless it says otherwise, all is.
pub(crate) trait Host: Send + Sync {
    /// The path here that an argument of a request stands for.
    fn path(&self, argument: &[u8]) -> PathBuf;

    /// The request as far as it is allowed; the paths in it become those that they stand for.
    ///
    /// # Errors
    /// [`SyncError::Selection`], with what is not allowed.
    fn admit(&self, request: Request) -> Result<Request, SyncError> {
        Ok(request)
    }

    /// Refuses a source.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_source(&self, _: &OsStr) -> Result<(), SyncError> {
        Ok(())
    }

    /// Refuses a destination.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_destination(&self, _: &Path) -> Result<(), SyncError> {
        Ok(())
    }

    /// Refuses directories that options name, with the destination at `root`.
    ///
    /// # Errors
    /// [`SyncError::Selection`].
    fn check_options(&self, _root: &Path, _: &Options) -> Result<(), SyncError> {
        Ok(())
    }

    /// Options of the store at `root`, with what holds for whoever asks.
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
        Self::new(Client)
    }
}

impl Deref for AnyHost {
    type Target = dyn Host;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
