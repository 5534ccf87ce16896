//! Plain HTTP: volumes, trees and files (docs/server.md).

mod conditions;
mod delta;
mod files;
mod incoming;
mod pieces;
mod request;
mod staged;
mod tree;
mod versions;

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use self::request::no_store;
pub(super) use self::versions::expire;
use super::shared::{Known, Server};
use super::volume::Rights;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/volumes", get(volumes))
        .route("/v1/volumes/{volume}/tree", get(tree::list_root))
        .route("/v1/volumes/{volume}/tree/", get(tree::list_root))
        .route("/v1/volumes/{volume}/tree/{*path}", get(tree::list).post(tree::make))
        .route(
            "/v1/volumes/{volume}/files/{*path}",
            get(files::get).post(files::post).put(files::write).delete(files::delete),
        )
}

/// Lists the volumes that a token is for.
async fn volumes(State(server): State<Arc<Server>>, known: Known) -> impl IntoResponse {
    let volumes: Vec<_> = (server.volumes.keys())
        .filter_map(|name| Some((name, server.volume(&known, name).ok()?.1)))
        .map(|(name, rights)| {
            let Rights { read, write, delete } = rights;
            json!({ "name": name, "read": read, "write": write, "delete": delete })
        })
        .collect();
    no_store(Json(json!({ "volumes": volumes })))
}
