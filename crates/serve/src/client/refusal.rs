//! Why a server refuses a request, and when to ask again.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;

/// An error as HTTP has it (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

/// The reason in the body of an answer, if a deltic wrote it.
pub(super) fn detail(body: &[u8]) -> Option<String> {
    serde_json::from_slice(body).ok().map(|Problem { detail }| detail)
}

/// Time after which a server says to ask again, if it does: a number of seconds alone.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    said.trim().parse::<u32>().ok().map(|secs| Duration::from_secs(secs.into()))
}
