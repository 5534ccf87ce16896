//! Entity tags of files, and conditional requests (`If-Match` and similar headers).

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::http::{HeaderMap, StatusCode, header};
use deltic_store::{Snapshot, Store, StoreError, Tree, Version};
use deltic_store_local::{LocalSnapshot, LocalStore, Replaceable};
use deltic_tree::{Meta, RelPath, Timestamp};

use crate::server::problem::Problem;
use crate::server::shared::Server;

/// Returns the entity tag of a version: strong if the store can tell versions apart. The tag reveals nothing else.
pub(super) fn tag(server: &Server, snapshot: &LocalSnapshot) -> String {
    tag_of_file(server, snapshot.meta(), snapshot.identity().as_ref())
}

/// Returns the entity tag of a file with this metadata and, if the store tells versions apart, this version.
pub(super) fn tag_of_file(server: &Server, meta: &Meta, version: Option<&Version>) -> String {
    match version {
        Some(version) => tag_of_version(server, version),
        None => {
            let mut hash = blake3::Hasher::new_keyed(&server.tag_key);
            hash_content(&mut hash, meta.len, meta.modified);
            format!("W/{}", quoted(hash.finalize()))
        }
    }
}

/// Returns the condition that a file has this entity tag, which is given without quotes. The empty tag stands for no
/// file.
pub(crate) fn has_tag(server: &Arc<Server>, wanted: String) -> Replaceable {
    let server = Arc::clone(server);
    Replaceable::only(move |present| {
        let tag = present.map_or_else(String::new, |present| tag(&server, present));
        tag.trim_start_matches("W/").trim_matches('"') == wanted
    })
}

/// Returns the entity tag of the committed `version`, even if another version has replaced the file since.
pub(super) fn tag_of_new(
    server: &Server,
    store: &LocalStore,
    file: &RelPath,
    version: Option<&Version>,
) -> Result<String, StoreError> {
    match version {
        Some(version) => Ok(tag_of_version(server, version)),
        // A commit without a version gets a weak tag, from the file as it is now.
        None => Ok(tag(server, &store.open(file)?)),
    }
}

fn tag_of_version(server: &Server, version: &Version) -> String {
    let mut hash = blake3::Hasher::new_keyed(&server.tag_key);
    hash.update(&version.token.0);
    hash.update(&version.changed.secs.to_le_bytes());
    hash.update(&version.changed.nanos.to_le_bytes());
    hash_content(&mut hash, version.len, version.modified);
    quoted(hash.finalize())
}

fn hash_content(hash: &mut blake3::Hasher, len: u64, modified: Timestamp) {
    hash.update(&len.to_le_bytes());
    hash.update(&modified.secs.to_le_bytes());
    hash.update(&modified.nanos.to_le_bytes());
}

/// Returns the entity tag of a generated answer, such as a directory listing.
pub(super) fn tag_of(server: &Server, body: &[u8]) -> String {
    quoted(blake3::keyed_hash(&server.tag_key, body))
}

fn quoted(hash: blake3::Hash) -> String {
    format!("\"{}\"", &hash.to_hex()[..32])
}

/// True if the header `condition` names this tag, or `*`.
pub(crate) fn names_tag(headers: &HeaderMap, condition: &header::HeaderName, tag: &str) -> bool {
    let values = headers.get_all(condition).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    let strong = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tags.any(|one| one == "*" || strong(one) == strong(tag))
}

/// Outcome of a request's conditions for a file (RFC 9110, section 13.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request may go on.
    Holds,
    /// The client already has the present version (`If-None-Match` or `If-Modified-Since`).
    HasIt,
    /// A condition fails; the value is the reason.
    Fails(&'static str),
}

/// The tag and time of a file's present version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'a> {
    pub(super) tag: &'a str,
    pub(super) modified: Timestamp,
}

/// Checks the conditions of a request against the present version, if there is one. A valid HTTP date counts only
/// without the corresponding header with tags.
pub(super) fn evaluate_conditions(headers: &HeaderMap, present: Option<Present<'_>>) -> Verdict {
    let names = |condition| present.is_some_and(|it| names_tag(headers, &condition, it.tag));
    let is_newer = |condition| {
        let since = date(headers, &condition)?;
        Some(present?.modified.secs > since)
    };
    if headers.contains_key(header::IF_MATCH) {
        if !names(header::IF_MATCH) {
            return Verdict::Fails("the file has another version, or does not exist (If-Match)");
        }
    } else if is_newer(header::IF_UNMODIFIED_SINCE) == Some(true) {
        return Verdict::Fails("the file was modified later (If-Unmodified-Since)");
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        return if names(header::IF_NONE_MATCH) { Verdict::HasIt } else { Verdict::Holds };
    }
    match is_newer(header::IF_MODIFIED_SINCE) {
        Some(false) => Verdict::HasIt,
        _ => Verdict::Holds,
    }
}

/// Returns the date in a header, in seconds since 1970.
fn date(headers: &HeaderMap, name: &header::HeaderName) -> Option<i64> {
    let date = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
    i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// Checks the conditions of a change. Returns the version for which the conditions hold, or `None` if there is no
/// file. By the time of the change another version may be there.
pub(super) fn check_conditions(
    server: &Server,
    store: &LocalStore,
    file: &RelPath,
    headers: &HeaderMap,
) -> Result<Option<LocalSnapshot>, Problem> {
    let there = store.look(file)?;
    if there.as_ref().is_some_and(|meta| !meta.is_file()) {
        let why = format!("{file}: not a file");
        return Err(Problem::new(StatusCode::CONFLICT, why));
    }
    // Another client may remove the file between the two steps.
    let opened = match there.map(|_| store.open(file)).transpose() {
        Err(StoreError::NotFound { .. }) => None,
        opened => opened?,
    };
    let tag = opened.as_ref().map(|snapshot| tag(server, snapshot));
    let modified = opened.as_ref().map_or_else(Timestamp::default, |it| it.meta().modified);
    check_change(headers, tag.as_deref().map(|tag| Present { tag, modified }))?;
    Ok(opened)
}

/// Checks the conditions of a change against the present version, if there is one.
pub(super) fn check_change(
    headers: &HeaderMap,
    present: Option<Present<'_>>,
) -> Result<(), Problem> {
    // `If-Modified-Since` applies to GET and HEAD only.
    match evaluate_conditions(headers, present) {
        Verdict::HasIt if headers.contains_key(header::IF_NONE_MATCH) => {
            Err(failed("the file exists already (If-None-Match)"))
        }
        Verdict::Fails(why) => Err(failed(why)),
        Verdict::HasIt | Verdict::Holds => Ok(()),
    }
}

/// Returns the answer to a request with a failed condition: 412, Precondition Failed.
pub(super) fn failed(why: &str) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, why)
}

/// Returns the answer to a change that failed at its commit. If the request had conditions and another client
/// committed first, the answer is that of a failed condition.
pub(super) fn commit_problem(headers: &HeaderMap, error: StoreError) -> Problem {
    let is_lost = matches!(error, StoreError::Conflict { .. } | StoreError::NotFound { .. });
    match is_lost && has_conditions(headers) {
        true => failed("the file has changed meanwhile"),
        false => error.into(),
    }
}

/// True if the headers contain a condition for a change.
pub(super) fn has_conditions(headers: &HeaderMap) -> bool {
    CHANGE_CONDITIONS.iter().any(|name| headers.contains_key(name))
}

/// True if a change applies to one version of the file only.
pub(super) fn names_version(headers: &HeaderMap) -> bool {
    headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_UNMODIFIED_SINCE)
}

/// Conditions that the server checks for a change.
pub(super) const CHANGE_CONDITIONS: [header::HeaderName; 3] =
    [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_UNMODIFIED_SINCE];

/// Refuses a change without `If-Match`.
pub(super) fn need_condition(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::IF_MATCH) {
        return Ok(());
    }
    let why = "name the version to replace or delete: If-Match with its ETag, or *";
    Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn verdict(conditions: &[(header::HeaderName, &str)]) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in conditions {
            headers.append(name, value.parse().unwrap());
        }
        let modified = Timestamp { secs: 784_111_777, nanos: 500_000_000 };
        evaluate_conditions(&headers, Some(Present { tag: "\"a\"", modified }))
    }

    #[test]
    fn a_time_counts_where_there_is_no_tag_and_by_whole_seconds() {
        use header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
        assert_eq!(verdict(&[]), Verdict::Holds);
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, SAME)]), Verdict::HasIt);
        assert_eq!(verdict(&[(IF_MODIFIED_SINCE, OLD)]), Verdict::Holds);
        assert_eq!(verdict(&[(IF_UNMODIFIED_SINCE, SAME)]), Verdict::Holds);
        assert!(matches!(verdict(&[(IF_UNMODIFIED_SINCE, OLD)]), Verdict::Fails(_)));
        // Tags take precedence, and a value that is no date is ignored.
        let other = (IF_NONE_MATCH, "\"b\"");
        assert_eq!(verdict(&[other, (IF_MODIFIED_SINCE, SAME)]), Verdict::Holds);
        let same = (IF_MATCH, "\"a\"");
        assert_eq!(verdict(&[same, (IF_UNMODIFIED_SINCE, OLD)]), Verdict::Holds);
        for none in ["", "x", "784111777", "2026-01-01T00:00:00Z"] {
            assert_eq!(verdict(&[(IF_MODIFIED_SINCE, none)]), Verdict::Holds, "{none}");
            assert_eq!(verdict(&[(IF_UNMODIFIED_SINCE, none)]), Verdict::Holds, "{none}");
        }
    }

    #[test]
    fn of_no_file_only_a_tag_is_asked() {
        let one = |name, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        let evaluate_conditions = |headers| evaluate_conditions(&headers, None);
        assert!(matches!(evaluate_conditions(one(header::IF_MATCH, "*")), Verdict::Fails(_)));
        assert_eq!(evaluate_conditions(one(header::IF_NONE_MATCH, "*")), Verdict::Holds);
        assert_eq!(evaluate_conditions(one(header::IF_UNMODIFIED_SINCE, OLD)), Verdict::Holds);
        assert_eq!(evaluate_conditions(one(header::IF_MODIFIED_SINCE, SAME)), Verdict::Holds);
    }
}
