//! Posts to an address that does not speak MCP.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::Full;

use super::client::HttpClient;
use super::endpoint::Endpoint;
use crate::Error;

/// Limit of an answer.
const MAX_BODY: usize = 64 << 10;

/// Posts to one address outside of the protocol of MCP, such as a collector of telemetry. Keeps its connection.
pub struct Poster {
    client: HttpClient,
    content_type: HeaderValue,
}

/// The answer to a POST.
#[derive(Clone, Debug)]
pub struct PostAnswer {
    /// The status.
    pub status: u16,
    /// `Retry-After`, if it is given in seconds.
    pub retry_after: Option<Duration>,
    /// Its body.
    pub body: Bytes,
}

impl Poster {
    /// Prepares to send bodies of this type. Does not connect.
    ///
    /// # Errors
    /// If TLS or the proxy cannot be used.
    pub fn new(endpoint: Endpoint, content_type: &'static str) -> Result<Self, Error> {
        let content_type = HeaderValue::from_static(content_type);
        let client = HttpClient::new(endpoint)?;
        Ok(Self {
            client,
            content_type,
        })
    }

    /// The origin of the address, which may be shown.
    #[must_use]
    pub fn peer(&self) -> &Arc<str> {
        self.client.peer()
    }

    /// Sends a body. Follows no redirect. Has no timeout.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post(&self, body: Bytes) -> Result<PostAnswer, Error> {
        let mut request = self.client.bare_request(Method::POST);
        let content_type = self.content_type.clone();
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        *request.body_mut() = Full::from(body);
        let response = self.client.send_once(request).await?;
        let (status, retry_after) = (response.status(), seconds(response.headers()));
        // Read to its end, so that the connection can be used again.
        let body = self.client.read(response.into_body(), MAX_BODY).await?;
        Ok(PostAnswer {
            status: status.as_u16(),
            retry_after,
            body,
        })
    }
}

fn seconds(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.parse().ok().map(Duration::from_secs)
}
