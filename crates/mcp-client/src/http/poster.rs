//! Posts to an address that does not speak MCP.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use http_body_util::Full;

use super::client::HttpClient;
use super::endpoint::Endpoint;
use crate::Error;

/// Limit of an answer.
const MAX_BODY: usize = 64 << 10;

/// Posts to one address outside of the protocol of MCP, such as a collector of telemetry. Keeps its connection.
pub struct Poster(HttpClient);

impl Poster {
    /// Prepares to send to this address. Does not connect.
    ///
    /// # Errors
    /// If TLS or the proxy cannot be used.
    pub fn new(endpoint: Endpoint) -> Result<Self, Error> {
        Ok(Self(HttpClient::new(endpoint)?))
    }

    /// The origin of the address, which may be shown.
    #[must_use]
    pub fn peer(&self) -> &Arc<str> {
        self.0.peer()
    }

    /// Sends a body with these headers. Follows no redirect. Has no timeout.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Response<Bytes>, Error> {
        let mut request = self.0.bare_request(Method::POST);
        request.headers_mut().extend(headers);
        *request.body_mut() = Full::from(body);
        let (head, body) = self.0.send_once(request).await?.into_parts();
        // Read to its end, so that the connection can be used again.
        let body = self.0.read(body, MAX_BODY).await?;
        Ok(Response::from_parts(head, body))
    }
}
