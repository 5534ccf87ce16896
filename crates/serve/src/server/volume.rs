//! A directory that is served, and what a client may do in it.

use std::sync::Arc;

use deltic_net::Restriction;
use deltic_net::embed::{Bases, Facts, LocalFacts, RecipeCache};
use deltic_net::restrict::Access;
use deltic_store::{Durability, StoreError};
use deltic_store_local::{
    LocalOptions, LocalStore, NamedDir, OldVersions, Quota, Trust, volume_path,
};
use deltic_tree::{MetaMask, Name, RelPath};

use super::access::Grant;
use super::config::{AccessConfig, VolumeConfig};
use super::events::Events;
use super::quotas::{TokenQuota, TokenQuotas};
use super::updated::Updated;
use crate::token::TokenHash;

/// A directory that is served.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) name: Name,
    /// The last changes.
    pub(crate) events: Arc<Events>,
    /// Files of it that were updated.
    pub(crate) updates: Arc<Updated>,
    access: AccessConfig,
    delete: bool,
    /// Quotas of whoever writes, and what is counted of them.
    quotas: Option<(Vec<TokenQuota>, Arc<TokenQuotas>)>,
    facts: VolumeFacts,
}

/// Facts about the files of a volume that a server keeps.
#[derive(Clone, Debug)]
pub(crate) struct VolumeFacts {
    /// Recipes of all volumes.
    pub(crate) recipes: RecipeCache,
    /// Bases of all tokens, if they can be kept.
    pub(crate) bases: Option<Bases>,
}

/// What one client may do in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) delete: bool,
}

/// One of a client's [`Rights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
    Delete,
}

impl Volume {
    pub(crate) fn new(name: Name, config: &VolumeConfig, facts: VolumeFacts) -> Self {
        let (access, delete) = (config.access, config.delete);
        Self {
            name,
            events: Arc::default(),
            updates: Arc::default(),
            access,
            delete,
            quotas: None,
            facts,
        }
    }

    /// Facts for a session of a token. Bases are those of the token alone: a client that may only write learns nothing
    /// about the files of others.
    pub(crate) fn facts(&self, token: &TokenHash) -> Facts {
        let facts = LocalFacts::default().with_recipes(self.facts.recipes.clone());
        let bases = self.facts.bases.as_ref().map(|bases| bases.of(*token.as_bytes()));
        Facts::new(match bases {
            Some(bases) => facts.with_bases(bases),
            None => facts,
        })
    }

    /// The same for somebody who writes: the quotas of the token hold.
    pub(crate) fn for_writer(&self, quotas: &[TokenQuota], all: &Arc<TokenQuotas>) -> Self {
        let held = || (quotas.to_vec(), Arc::clone(all));
        Self { quotas: (!quotas.is_empty()).then(held), ..self.clone() }
    }

    /// True if somebody writes who has quotas.
    pub(crate) const fn has_quotas(&self) -> bool {
        self.quotas.is_some()
    }

    /// Quotas of whoever writes, with all files counted. Waits for the disk.
    ///
    /// # Errors
    /// Where the part of a token is not there.
    pub(crate) fn quotas(&self) -> Result<Vec<Arc<Quota>>, StoreError> {
        let Some((quotas, all)) = &self.quotas else { return Ok(Vec::new()) };
        all.hold(quotas, &self.name)
    }

    /// Cuts the rights of a token to those of this volume, which the token is for; nothing where none is left.
    pub(crate) fn rights(&self, grant: &Grant) -> Option<Rights> {
        let write = grant.write && self.access != AccessConfig::Read;
        let rights = Rights {
            read: grant.read && self.access != AccessConfig::Write,
            write,
            delete: write && grant.delete && self.delete,
        };
        (rights.read || rights.write).then_some(rights)
    }

    /// The limits of a session with these rights, in all of the volume or the directory `part`.
    pub(crate) fn limits(&self, rights: Rights, part: Option<RelPath>) -> Restriction {
        let access = match (rights.read, rights.write) {
            (true, true) => Access::Both,
            (true, false) => Access::Read,
            (false, _) => Access::Write,
        };
        match part {
            None => Restriction::to_volume(&self.name, access, !rights.delete),
            Some(part) => Restriction::to_part(&self.name, part, access, !rights.delete),
        }
        .with_changes(self.events.changes())
    }

    /// Old versions of its files, if it keeps some.
    ///
    /// # Errors
    /// Where the system has no handle for us.
    pub(crate) fn versions(&self) -> Result<Option<OldVersions>, StoreError> {
        OldVersions::for_volume(&self.name)
    }

    /// Its files. The process keeps to its volumes by now.
    ///
    /// # Errors
    /// Where the directory is gone.
    pub(crate) fn store(&self) -> Result<LocalStore, StoreError> {
        let path = volume_path(&self.name);
        let options = LocalOptions {
            durability: Durability::Run,
            see: MetaMask::default(),
            // No request goes on with what another one began.
            one_shot: true,
            changes: self.events.changes(),
            quotas: self.quotas()?,
            ..LocalOptions::default()
        };
        LocalStore::open_named(&NamedDir { path, trust: Trust::Ours }, options)
    }
}
