//! The journal of a server: metrics and the audit log.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::get;
use deltic_net::SyncError;
use deltic_net::embed::Outcome;
use serde_json::{Map, Value, json};

use super::acme::Acme;
use super::admission::Peer;
use super::audit::{Audit, name};
use super::metrics::Metrics;
use super::shared::{Server, bearer};
use crate::token::TokenHash;

/// Longest value of a request in the audit log, in bytes: enough for a path.
const MAX_VALUE: usize = 4 << 10;

/// Metrics, and the audit log if the settings name one.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) audit: Option<Audit>,
    pub(crate) metrics: Metrics,
}

impl Journal {
    /// Writes an event to the audit log.
    pub(crate) fn note(&self, event: &str, fields: Value) {
        let Some(audit) = &self.audit else { return };
        let Value::Object(mut fields) = fields else { unreachable!("fields have names") };
        fields.insert("event".into(), event.into());
        fields.retain(|_, value| !value.is_null());
        if audit.write(Map::from_iter(fields)).is_err() {
            self.metrics.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts and logs a wrong token.
    pub(crate) fn log_wrong_token(&self, from: IpAddr) {
        self.metrics.wrong_tokens.fetch_add(1, Ordering::Relaxed);
        self.note("wrong_token", json!({ "from": from }));
    }

    /// Counts and logs the end of a session or of an update.
    pub(crate) fn ended(
        &self,
        event: &str,
        volume: &str,
        token: &TokenHash,
        ended: &Result<Outcome, SyncError>,
    ) {
        self.metrics.session(volume, ended.as_ref().ok());
        if self.audit.is_none() {
            return;
        }
        let mut fields = json!({ "volume": volume, "token": name(token) });
        match ended {
            Ok(Outcome { totals, traffic, elapsed, .. }) => {
                fields["outcome"] = "done".into();
                fields["seconds"] = elapsed.as_secs().into();
                fields["received_bytes"] = traffic.received.into();
                fields["sent_bytes"] = traffic.sent.into();
                fields["transferred"] = totals.transferred.into();
                fields["literal_bytes"] = totals.literal.into();
                fields["deleted"] = totals.deleted.into();
            }
            Err(error) => fields["outcome"] = error.to_string().into(),
        }
        self.note(event, fields);
    }
}

/// Counts the answer to a request. Logs every request other than GET and HEAD, except for refused requests without a
/// token: their number is unlimited, and `log_wrong_token` logs some of them.
pub(super) async fn watch(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let noted = (changes && server.journal.audit.is_some()).then(|| {
        let peer = request.extensions().get::<Arc<Peer>>().expect("each connection has one");
        // A made-up token is no token.
        let token = bearer(request.headers()).flatten().map(|token| token.hash());
        let token = token.filter(|token| server.access.find(token).is_some());
        let asked = Query::<BTreeMap<String, String>>::try_from_uri(request.uri());
        let asked = asked.map(|Query(asked)| asked).unwrap_or_default();
        let asked = |what: &str| asked.get(what).map(|value| cut(value));
        json!({
            "from": server.admission.client(peer, request.headers()).ip,
            "token": token.as_ref().map(name),
            "method": request.method().as_str(),
            "path": path(request.uri().path()),
            "as": asked("as"),
            "to": asked("to"),
            "version": asked("version"),
            "bytes": request.headers().get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()),
        })
    });
    let response = next.run(request).await;
    server.journal.metrics.answer(response.status().as_u16());
    let is_refused =
        |fields: &serde_json::Value| fields["token"].is_null() && !response.status().is_success();
    if let Some(mut fields) = noted.filter(|fields| !is_refused(fields)) {
        fields["status"] = response.status().as_u16().into();
        server.journal.note("request", fields);
    }
    response
}

/// Returns the path of a request for the log, without the secret name of an upload.
fn path(path: &str) -> &str {
    match path.match_indices('/').map(|(at, _)| at).nth(4) {
        Some(at) if path[..at].ends_with("/uploads") => &path[..at],
        _ => cut(path),
    }
}

/// Returns the beginning of a value that a client chose.
pub(super) fn cut(value: &str) -> &str {
    &value[..value.floor_char_boundary(MAX_VALUE)]
}

/// Logs tokens that are made or revoked, as soon as the server applies the change.
pub(super) async fn log_token_changes(server: Arc<Server>) {
    let (mut before, mut changes) = server.access.tokens();
    while changes.changed().await.is_ok() {
        let (now, _) = server.access.tokens();
        for (event, from, to) in [("token_made", &now, &before), ("token_revoked", &before, &now)] {
            for (hash, label) in from.iter().filter(|(hash, _)| !to.contains_key(*hash)) {
                server.journal.note(event, json!({ "token": name(hash), "name": label }));
            }
        }
        before = now;
    }
}

/// Router for the metrics address, which needs no token.
pub(super) fn shown(server: Arc<Server>) -> Router {
    let text = async move || {
        let mut gauges = vec![
            ("connected_clients", *server.clients.borrow() as u64),
            ("sessions", server.sessions()),
        ];
        let ends = server.tls.acme.as_ref().and_then(Acme::ends);
        gauges.extend(ends.map(|ends| ("certificate_ends_seconds", ends)));
        server.journal.metrics.text(&gauges)
    };
    Router::new().route("/metrics", get(text))
}
