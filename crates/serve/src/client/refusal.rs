//! Reads a server's reason for a refusal, and the time to retry.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;

/// An HTTP error response (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

/// Returns the reason in the body of an answer, if the body is a problem document.
pub(super) fn detail(body: &[u8]) -> Option<String> {
    serde_json::from_slice(body).ok().map(|Problem { detail }| detail)
}

/// Returns the time to wait before a retry (`Retry-After`), if the header has a number of seconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    said.trim().parse::<u32>().ok().map(|secs| Duration::from_secs(secs.into()))
}
