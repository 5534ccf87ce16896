//! Answers an administrator: all tokens of the server, the makers of the tokens, and the connected clients.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::request::{no_store, on_disk};
use super::tokens::shown;
use crate::server::audit::name;
use crate::server::grant::Grant;
use crate::server::problem::Problem;
use crate::server::shared::{Known, Server};
use crate::token::TokenHash;

/// Describes the server to an administrator.
pub(super) async fn describe(
    State(server): State<Arc<Server>>,
    known: Known,
) -> Result<Response, Problem> {
    if !known.grant.admin {
        return Err(Problem::forbidden("administration"));
    }
    let tokens = on_disk(&server.clone(), move || {
        let all = server.access.all();
        let tokens = all.iter().map(|(hash, grant)| told(&server, &known, hash, grant));
        Ok(tokens.collect::<Vec<_>>())
    })
    .await?;
    Ok(no_store(Json(json!({ "version": env!("CARGO_PKG_VERSION"), "tokens": tokens }))))
}

fn told(server: &Server, known: &Known, hash: &TokenHash, grant: &Grant) -> Value {
    let mut told = shown(server, hash, grant);
    told["made_by"] = grant.parent.as_ref().map(name).into();
    told["connected"] = server.sessions.online.of(hash).into();
    told["admin"] = grant.admin.into();
    told["session"] = grant.session.is_some().into();
    told["own"] = (*hash == known.token).into();
    told["starter"] = server.access.is_starter(hash).into();
    told
}
