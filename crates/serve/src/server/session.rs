//! Sessions of clients, whatever carries them.

use std::net::IpAddr;

use deltic_net::Restriction;
use deltic_net::embed::{Cancel, Embedding, serve_within};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::audit::name;
use super::problem::Problem;
use super::shared::{Known, Server, SessionPermit};
use crate::token::TokenHash;

/// A session that a client may have, and room for it.
pub(super) struct Opened {
    limits: Restriction,
    volume: String,
    token: TokenHash,
    _permit: SessionPermit,
}

impl Server {
    /// Finds room for a session in a volume.
    pub(super) fn open_session(&self, known: &Known, volume: &str) -> Result<Opened, Problem> {
        let (volume, rights) = self.volume(known, volume)?;
        let part = known.grant.part().map_err(|_| Problem::unknown())?;
        let permit = self.session_permit(known)?;
        let limits = volume.limits(rights, part);
        let (volume, token) = (volume.name.to_string(), known.token);
        Ok(Opened { limits, volume, token, _permit: permit })
    }
}

impl Opened {
    /// Holds the session to its end, of which the other end is told, or until it is cancelled.
    pub(super) async fn hold(
        self,
        server: &Server,
        from: IpAddr,
        (transport, cancel): (impl AsyncRead + AsyncWrite + Send + 'static, Cancel),
    ) {
        let Self { limits, volume, token, _permit } = self;
        let fields = json!({ "from": from, "token": name(&token), "volume": volume });
        server.journal.note("open", fields);
        let with = Embedding { cancel, ..server.embedding.clone() };
        let ended = serve_within(transport, limits, &with).await;
        server.journal.session((&volume, &token), &ended);
    }
}
