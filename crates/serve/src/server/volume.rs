//! Volumes: the served directories, and the rights of clients in them.

use std::sync::Arc;

use deltic_net::Restriction;
use deltic_net::embed::{Bases, Facts, LocalFacts, RecipeCache};
use deltic_net::restrict::Access;
use deltic_store::{Durability, StoreError};
use deltic_store_local::{
    LocalOptions, LocalStore, NamedDir, OldVersions, SpaceQuota, StoreContext, Trust, volume_path,
};
use deltic_tree::{MetaMask, Name, RelPath};

use super::config::{AccessConfig, VolumeConfig};
use super::events::Events;
use super::grant::Grant;
use super::quotas::{TokenQuota, TokenQuotas};
use super::updated::Updated;
use crate::token::TokenHash;

/// A served directory.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) name: Name,
    /// The latest changes of the volume.
    pub(crate) events: Arc<Events>,
    /// Files of the volume that were updated.
    pub(crate) updates: Arc<Updated>,
    access: AccessConfig,
    delete: bool,
    keeps_versions: bool,
    /// The state directory of the server, if that is in the volume.
    pub(crate) state: Option<RelPath>,
    /// Quotas of the token that writes, with the counts of all tokens. `None` for a reader, or without quotas.
    quotas: Option<(Vec<TokenQuota>, Arc<TokenQuotas>)>,
    facts: VolumeFacts,
    /// State that the stores of the server share.
    pub(crate) context: StoreContext,
}

/// Facts that a server keeps about the files of a volume.
#[derive(Clone, Debug)]
pub(crate) struct VolumeFacts {
    /// Recipes of the files of all volumes.
    pub(crate) recipes: RecipeCache,
    /// For each token, the bases (versions that server and client both know). `None` if bases cannot be stored.
    pub(crate) bases: Option<Bases>,
}

/// Rights of one client in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) delete: bool,
}

/// Names one of the [`Rights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    Read,
    Write,
    Delete,
}

impl Volume {
    pub(crate) fn new(
        name: Name,
        config: &VolumeConfig,
        facts: VolumeFacts,
        context: StoreContext,
    ) -> Self {
        let (access, delete) = (config.access, config.delete);
        Self {
            name,
            events: Arc::default(),
            updates: Arc::default(),
            access,
            delete,
            keeps_versions: config.versions.is_some(),
            state: None,
            quotas: None,
            facts,
            context,
        }
    }

    /// Returns the facts for a session of a token. Bases are those of this token only, so a client without the right
    /// to read learns nothing about the files of others.
    pub(crate) fn facts(&self, token: &TokenHash) -> Facts {
        let facts = LocalFacts::default().with_recipes(self.facts.recipes.clone());
        let bases = self.facts.bases.as_ref().map(|bases| bases.for_party(*token.as_bytes()));
        Facts::new(match bases {
            Some(bases) => facts.with_bases(bases),
            None => facts,
        })
    }

    /// Returns this volume for a writer, with the quotas of the writer's token.
    pub(crate) fn for_writer(&self, quotas: &[TokenQuota], all: &Arc<TokenQuotas>) -> Self {
        let held = || (quotas.to_vec(), Arc::clone(all));
        Self { quotas: (!quotas.is_empty()).then(held), ..self.clone() }
    }

    /// True if files that are replaced or deleted stay as old versions.
    pub(crate) const fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// True if the writer has quotas.
    pub(crate) const fn has_quotas(&self) -> bool {
        self.quotas.is_some()
    }

    /// Returns the quota of the volume, if the volume has limits.
    pub(crate) fn quota(&self) -> Option<Arc<SpaceQuota>> {
        self.context.volume_quota(&self.name)
    }

    /// Returns the quotas of the writer, with all files counted. Blocks on the disk.
    ///
    /// # Errors
    /// If the part of the volume that a quota covers is missing or is still being counted.
    pub(crate) fn quotas(&self) -> Result<Vec<Arc<SpaceQuota>>, StoreError> {
        let Some((quotas, all)) = &self.quotas else { return Ok(Vec::new()) };
        all.hold(quotas, &self.name, &self.context)
    }

    /// Returns the rights of a token in this volume: those of the grant that the volume's settings allow. `None` if
    /// the token may neither read nor write. The token must be for this volume.
    pub(crate) fn rights(&self, grant: &Grant) -> Option<Rights> {
        let write = grant.write && self.access != AccessConfig::Read;
        let rights = Rights {
            read: grant.read && self.access != AccessConfig::Write,
            write,
            delete: write && grant.delete && self.delete,
        };
        (rights.read || rights.write).then_some(rights)
    }

    /// Returns the limits of a session with these rights, in the whole volume or in the directory `part`.
    pub(crate) fn limits(&self, rights: Rights, part: Option<RelPath>) -> Restriction {
        let access = match (rights.read, rights.write) {
            (true, true) => Access::Both,
            (true, false) => Access::Read,
            (false, _) => Access::Write,
        };
        match part {
            None => Restriction::to_volume(&self.context, &self.name, access, !rights.delete),
            Some(part) => {
                Restriction::to_part(&self.context, &self.name, part, access, !rights.delete)
            }
        }
        .with_changes(self.events.changes())
    }

    /// Returns the old versions of the volume's files, if the volume keeps old versions.
    ///
    /// # Errors
    /// If the system has no handle for the directory.
    pub(crate) fn versions(&self) -> Result<Option<OldVersions>, StoreError> {
        OldVersions::for_volume(&self.name, &self.context)
    }

    /// Opens the volume's files. The process must be confined to its volumes already.
    ///
    /// # Errors
    /// If the directory is missing, or the writer's quotas cannot be counted.
    pub(crate) fn store(&self) -> Result<LocalStore, StoreError> {
        let path = volume_path(&self.name);
        let options = LocalOptions {
            durability: Durability::Run,
            see: MetaMask::default(),
            // No request resumes an upload of another request.
            one_shot: true,
            changes: self.events.changes(),
            // A replacement sets the name of its client.
            author: Some("".into()),
            quotas: self.quotas()?,
            ..LocalOptions::default()
        };
        let context = self.context.clone();
        LocalStore::open_named(&NamedDir { path, trust: Trust::Ours, context }, options)
    }
}
