//! The HTTP interface: volumes, trees and files (docs/http.md).

mod admin;
mod changes;
mod conditions;
mod contents;
mod delta;
mod events;
mod files;
mod incoming;
mod moment;
mod moved;
mod new_files;
mod old_file;
mod pieces;
mod preview;
mod replacement;
mod request;
mod restored;
mod search;
mod shown;
mod tokens;
mod tree;
mod uploads;
mod versions;
mod zip;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, head, post};
use deltic_store_local::{QuotaLimits, SpaceUsage};
use serde_json::json;

pub(super) use self::conditions::{has_tag, names_tag};
pub(super) use self::incoming::{collect, content_length, refuse_coded};
pub(super) use self::old_file::OldFile;
pub(super) use self::replacement::{NewAttributes, PresentFile, ReplaceError, ReplaceTarget};
pub(super) use self::request::{Address, Parameters, no_store, on_disk, path as path_named};
pub(super) use self::uploads::{Uploads, keep_uploads, resume_uploads};
pub(super) use self::versions::version_named;
use super::problem::Problem;
use super::shared::{Known, Server};
use super::volume::{Rights, Volume};

/// The paths of this interface, with their handlers.
pub(super) fn table() -> [(&'static str, MethodRouter<Arc<Server>>); 16] {
    let files = get(files::get).post(files::post).put(files::write).delete(files::delete);
    let parts = head(uploads::look).patch(uploads::append).delete(uploads::cancel);
    [
        ("/v1/openapi.json", get(describe)),
        ("/v1/server", get(admin::describe)),
        ("/v1/session", post(tokens::keep_session).delete(tokens::end_session)),
        ("/v1/tickets", post(tokens::issue_ticket)),
        ("/v1/tokens", get(tokens::list).post(tokens::mint)),
        ("/v1/tokens/{id}", delete(tokens::revoke)),
        ("/v1/volumes", get(volumes)),
        ("/v1/volumes/{volume}/contents", post(contents::read)),
        ("/v1/volumes/{volume}/events", get(events::follow)),
        ("/v1/volumes/{volume}/tree", get(tree::list_root).post(tree::change_root)),
        ("/v1/volumes/{volume}/tree/", get(tree::list_root).post(tree::change_root)),
        ("/v1/volumes/{volume}/tree/{*path}", get(tree::list).post(tree::change)),
        ("/v1/volumes/{volume}/uploads", get(uploads::list)),
        ("/v1/volumes/{volume}/uploads/{id}", parts),
        ("/v1/volumes/{volume}/files", post(new_files::create)),
        ("/v1/volumes/{volume}/files/{*path}", files),
    ]
}

/// Description of the interface in OpenAPI 3.1.
const OPENAPI: &str = include_str!("openapi.json");

async fn describe(_: Known) -> impl IntoResponse {
    no_store(([(header::CONTENT_TYPE, "application/json")], OPENAPI))
}

/// Returns usage and limits of the token's own quota, by the names of the token's volumes.
async fn quotas(
    server: &Arc<Server>,
    known: &Known,
) -> Result<BTreeMap<String, (SpaceUsage, QuotaLimits)>, Problem> {
    let own = known.quotas.first().filter(|quota| quota.token == known.token).cloned();
    // A token that may not write needs no count of its usage.
    let Some(own) = own.filter(|_| known.grant.write) else { return Ok(BTreeMap::new()) };
    let its = server.volumes.iter().filter(|(name, _)| known.grant.is_for(name));
    let its: Vec<_> = its.map(|(text, volume)| (text.clone(), volume.clone())).collect();
    let again = Arc::clone(server);
    on_disk(server, move || {
        let used = |(text, volume): (String, Volume)| {
            // A part that does not exist has no usage.
            let (own, Volume { name, context, .. }) = (std::slice::from_ref(&own), &volume);
            let quota = again.access.quotas.hold(own, name, context).ok()?.pop()?;
            Some((text, (quota.usage()?, quota.limits())))
        };
        Ok(its.into_iter().filter_map(used).collect())
    })
    .await
}

/// Lists the volumes that the token gives access to.
async fn volumes(State(server): State<Arc<Server>>, known: Known) -> impl IntoResponse {
    let mut held = quotas(&server, &known).await.unwrap_or_default();
    let volumes: Vec<_> = (server.volumes.keys())
        .filter_map(|name| Some((name, server.volume(&known, name).ok()?.1)))
        .map(|(name, rights)| {
            let Rights { read, write, delete } = rights;
            let mut shown = json!({ "name": name, "read": read, "write": write, "delete": delete });
            if let Some(path) = known.grant.path_text() {
                shown["path"] = path.into();
            }
            let volume = &server.volumes[name];
            shown["versions"] = volume.keeps_versions().into();
            // A guest learns nothing of the usage of others.
            let sees_all = read && known.grant.path.is_none();
            if let Some(quota) = volume.quota().filter(|_| sees_all)
                && let Some(SpaceUsage { bytes, files }) = quota.usage()
            {
                let limits = quota.limits();
                shown["bytes"] = json!({ "used": bytes, "quota": limits.bytes });
                shown["files"] = json!({ "used": files, "quota": limits.files });
            }
            if let Some((SpaceUsage { bytes, files }, limits)) = held.remove(name) {
                let bytes = json!({ "used": bytes, "quota": limits.bytes });
                let files = json!({ "used": files, "quota": limits.files });
                shown["token"] = json!({ "bytes": bytes, "files": files });
            }
            shown
        })
        .collect();
    let (share, admin) = (known.grant.share, known.grant.admin);
    no_store(Json(json!({ "volumes": volumes, "share": share, "admin": admin })))
}
