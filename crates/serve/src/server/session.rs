//! Sessions of clients, over any transport.

use std::net::IpAddr;
use std::sync::Arc;

use deltic_carrier::control::{FileVersion, SessionScope};
use deltic_net::Restriction;
use deltic_net::embed::{Cancel, Embedding, Served, serve_far_tree, serve_within};
use deltic_store_local::VersionId;
use deltic_tree::RelPath;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::audit::name;
use super::journal::cut;
use super::problem::Problem;
use super::rest::{OldFile, has_tag, on_disk, path_named, version_named};
use super::shared::{Known, Server, SessionPermit};
use super::volume::{Right, Volume};
use crate::token::TokenHash;

/// A session that was admitted, with its permit.
pub(super) struct Opened {
    limits: Restriction,
    volume: Volume,
    token: TokenHash,
    /// The old version that the session reads in place of the volume's files.
    version: Option<NamedVersion>,
    _permit: SessionPermit,
}

/// An old version of the file at `path`.
struct NamedVersion {
    path: RelPath,
    id: VersionId,
}

impl Server {
    /// Admits a session in a volume.
    pub(super) fn open_session(
        self: &Arc<Self>,
        known: &Known,
        volume_name: &str,
        SessionScope { replaces, version }: SessionScope,
    ) -> Result<Opened, Problem> {
        let (volume, rights) = self.volume(known, volume_name)?;
        let permit = self.session_permit(known)?;
        let version = version.map(|FileVersion { path, id }| {
            let path = path_named(&path)?;
            self.volume_for(Right::Read, known, volume_name, &path)?;
            Ok::<_, Problem>(NamedVersion { path, id: version_named(&id)? })
        });
        let version = version.transpose()?;
        let limits = volume.limits(rights, known.grant.path.clone());
        let limits = limits.with_author(&known.grant.name);
        let limits = match replaces {
            Some(tag) => limits.with_replaceable(has_tag(self, tag)),
            None => limits,
        };
        let volume = match rights.write {
            true => volume.for_writer(&known.quotas, &self.access.quotas),
            false => volume.clone(),
        };
        Ok(Opened { limits, volume, token: known.token, version, _permit: permit })
    }
}

impl Opened {
    /// Runs the session until it ends or is cancelled. The result is sent to the client by the session itself.
    ///
    /// # Errors
    /// [`Problem`] if the quotas of the token cannot be counted, or the old version does not exist.
    pub(super) async fn hold(
        mut self,
        server: &Server,
        from: IpAddr,
        transport: impl AsyncRead + AsyncWrite + Send + 'static,
        cancel: Cancel,
    ) -> Result<(), Problem> {
        let mut fields = self.fields(from);
        if let Some(NamedVersion { path, id }) = self.version.take() {
            let volume = self.volume.clone();
            fields["path"] = cut(&path.to_string()).into();
            fields["version"] = id.to_string().into();
            let tree = on_disk(server, move || OldFile::open(&volume, path, id)).await?;
            server.journal.note("open", fields);
            self.serve_version(server, tree, transport, cancel).await;
            return Ok(());
        }
        let Self { limits, volume, token, _permit, .. } = self;
        let limits = match volume.has_quotas() {
            false => limits,
            true => {
                let counting = volume.clone();
                limits.with_quotas(on_disk(server, move || Ok(counting.quotas()?)).await?)
            }
        };
        let facts = volume.facts(&token);
        let volume = volume.name.to_string();
        server.journal.note("open", fields);
        let with = Embedding { cancel, facts, ..server.embedding.clone() };
        let ended = serve_within(transport, limits, &with).await;
        server.journal.ended("session", &volume, &token, &ended);
        Ok(())
    }

    /// Returns the fields of the log's record of the session's start.
    fn fields(&self, from: IpAddr) -> serde_json::Value {
        let volume = self.volume.name.to_string();
        json!({ "from": from, "token": name(&self.token), "volume": volume })
    }

    /// Serves an old version of a file.
    async fn serve_version(
        self,
        server: &Server,
        tree: OldFile,
        transport: impl AsyncRead + AsyncWrite + Send + 'static,
        cancel: Cancel,
    ) {
        let served = Served { single: Some(tree.name().clone()), own: None, tree };
        let with = Embedding { cancel, ..server.embedding.clone() };
        let ended = serve_far_tree(move |_, _| Ok(served), transport, &with).await;
        server.journal.ended("session", &self.volume.name.to_string(), &self.token, &ended);
    }
}
