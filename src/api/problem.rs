//! Errors as problem documents (RFC 9457): what happened, and what to do next.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// An error as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// What happened, and what to do.
    pub detail: String,
}

impl Problem {
    /// A problem of a status.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, kind, body.to_string()).into_response()
    }
}
