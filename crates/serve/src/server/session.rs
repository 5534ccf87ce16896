//! Sessions of clients, over any transport.

use std::net::IpAddr;

use deltic_net::Restriction;
use deltic_net::embed::{Cancel, Embedding, serve_within};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::audit::name;
use super::problem::Problem;
use super::rest::on_disk;
use super::shared::{Known, Server, SessionPermit};
use super::volume::Volume;
use crate::token::TokenHash;

/// A session that was admitted, with its permit.
pub(super) struct Opened {
    limits: Restriction,
    volume: Volume,
    token: TokenHash,
    _permit: SessionPermit,
}

impl Server {
    /// Admits a session in a volume.
    pub(super) fn open_session(&self, known: &Known, volume: &str) -> Result<Opened, Problem> {
        let (volume, rights) = self.volume(known, volume)?;
        let permit = self.session_permit(known)?;
        let limits = volume.limits(rights, known.grant.path.clone());
        let limits = limits.with_author(&known.grant.name);
        let volume = match rights.write {
            true => volume.for_writer(&known.quotas, &self.access.quotas),
            false => volume.clone(),
        };
        Ok(Opened { limits, volume, token: known.token, _permit: permit })
    }
}

impl Opened {
    /// Runs the session until it ends or is cancelled. The result is sent to the client by the session itself.
    ///
    /// # Errors
    /// [`Problem`] if the quotas of the token cannot be counted.
    pub(super) async fn hold(
        self,
        server: &Server,
        from: IpAddr,
        transport: impl AsyncRead + AsyncWrite + Send + 'static,
        cancel: Cancel,
    ) -> Result<(), Problem> {
        let Self { limits, volume, token, _permit } = self;
        let limits = match volume.has_quotas() {
            false => limits,
            true => {
                let counting = volume.clone();
                limits.with_quotas(on_disk(server, move || Ok(counting.quotas()?)).await?)
            }
        };
        let facts = volume.facts(&token);
        let volume = volume.name.to_string();
        let fields = json!({ "from": from, "token": name(&token), "volume": volume });
        server.journal.note("open", fields);
        let with = Embedding { cancel, facts, ..server.embedding.clone() };
        let ended = serve_within(transport, limits, &with).await;
        server.journal.ended("session", &volume, &token, &ended);
        Ok(())
    }
}
