//! The reasons why a message is refused before it is read, or as it cannot be.

use http::header::HeaderMap;
use http::{Response, StatusCode};
use mcp_core::error::{Credentials, Error};

use super::super::body::BodyError;
use super::super::reply::{self, Reply};
use super::{Authenticated, McpEndpoint};

/// The reason why a request is refused.
pub(super) enum Refusal {
    AtLimit,
    Unauthorized,
    NotJson,
    Encoded,
    Body(BodyError),
    SessionNotFound,
}

impl McpEndpoint {
    /// Returns the response to a message that is refused.
    pub(super) fn refuse_post(
        &self,
        headers: &HeaderMap,
        client: &Authenticated,
        refusal: Refusal,
    ) -> Response<Reply> {
        let error = match refusal {
            Refusal::AtLimit => return reply::busy(),
            Refusal::NotJson => {
                return reply::unsupported("send the message as Content-Type: application/json");
            }
            Refusal::Encoded => {
                return reply::unsupported("send the message without Content-Encoding");
            }
            Refusal::Body(BodyError::TooSlow) => {
                return reply::because("slow_body", reply::empty(StatusCode::REQUEST_TIMEOUT));
            }
            Refusal::Body(BodyError::Broken) => {
                return reply::because("broken_body", reply::empty(StatusCode::BAD_REQUEST));
            }
            Refusal::Body(BodyError::TooLarge) => Error::TooLarge(self.limits.max_body_bytes),
            Refusal::Unauthorized => Error::Unauthorized(Credentials::Invalid),
            Refusal::SessionNotFound => Error::SessionNotFound,
        };
        let view = client.view().map(|view| &**view);
        self.refuse(headers, &error, view)
    }
}
