//! HTTP error responses (RFC 9457).

use std::io;
use std::time::Duration;

use axum::body::to_bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use deltic_store::StoreError;
use serde_json::json;

/// Default pause before another attempt.
pub(crate) const BUSY: Duration = Duration::from_secs(4);

/// Media type of a problem document.
const MEDIA_TYPE: &str = "application/problem+json";
/// Longest body of another error response that becomes the text of a problem, in bytes.
const MAX_TEXT: usize = 4 << 10;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Text for people: the action, its object, and the reason of the failure.
    pub(crate) detail: String,
    /// Seconds after which another attempt may succeed.
    pub(crate) retry_secs: Option<u32>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_secs: None }
    }

    /// Adds the time after which another attempt may succeed.
    pub(crate) fn after(self, wait: Duration) -> Self {
        let secs = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Self { retry_secs: Some(secs), ..self }
    }

    /// Error 503: the server has no room at the moment.
    pub(crate) fn busy(why: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why).after(BUSY)
    }

    /// Error 404: the token has no volume of that name. Missing and forbidden volumes look alike.
    pub(crate) fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such volume, or not for this token")
    }

    pub(crate) fn not_let_in() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "a token of this server is needed (Authorization: Bearer dlt_…)",
        )
    }

    pub(crate) fn forbidden(what: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, format!("{what} is not allowed here with this token"))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::NotFound { .. } | StoreError::NotADir { .. } => StatusCode::NOT_FOUND,
            StoreError::NotAFile { .. }
            | StoreError::NotEmpty { .. }
            | StoreError::Conflict { .. } => StatusCode::CONFLICT,
            StoreError::Changed { .. } | StoreError::InUse { .. } => {
                StatusCode::PRECONDITION_FAILED
            }
            StoreError::Denied { .. } | StoreError::OutsideRoot { .. } => StatusCode::FORBIDDEN,
            StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            StoreError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock => {
                return Self::busy(&error.to_string());
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(secs) = self.retry_secs {
            headers.insert(header::RETRY_AFTER, secs.into());
        }
        response
    }
}

/// Turns other error responses into problem documents, for example for a wrong method, an invalid query or an
/// unsatisfiable range. Other headers of the response stay.
pub(super) async fn as_problem_document(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_ours = response.headers().get(header::CONTENT_TYPE).is_some_and(|is| is == MEDIA_TYPE);
    if !is_error || is_ours {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = to_bytes(body, MAX_TEXT).await.unwrap_or_default();
    let detail = match status {
        StatusCode::METHOD_NOT_ALLOWED => "method not allowed; see `Allow`".into(),
        StatusCode::RANGE_NOT_SATISFIABLE => "the range begins behind the end of the file".into(),
        _ if text.is_empty() => status.canonical_reason().unwrap_or("it failed").to_lowercase(),
        _ => String::from_utf8_lossy(&text).into_owned(),
    };
    let (own, body) = Problem::new(status, detail).into_response().into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.extend(own.headers);
    Response::from_parts(head, body)
}
