//! Errors as HTTP has them (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use deltic_store::StoreError;
use serde_json::json;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// What was tried, on what, and why it failed, for people.
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// No volume of that name for this token: unknown and forbidden look alike.
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
            StoreError::Changed { .. } => StatusCode::PRECONDITION_FAILED,
            StoreError::Denied { .. } | StoreError::OutsideRoot { .. } => StatusCode::FORBIDDEN,
            StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
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
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}
