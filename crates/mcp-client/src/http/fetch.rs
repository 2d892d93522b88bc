//! One request outside of the protocol of MCP: for metadata and tokens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::Full;

use super::client::{HttpClient, refusal};
use super::endpoint::Endpoint;
use crate::Error;
use crate::authorization::Refusal;

/// Limit of an answer.
const MAX_BODY: usize = 256 << 10;
/// Timeout of the whole request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request, and with it the method.
pub(crate) enum Content {
    /// GET.
    None,
    Form(String),
    Json(String),
}

/// Sends a request. Follows no redirect: its target was not checked.
pub(crate) async fn fetch(
    endpoint: Endpoint,
    content: Content,
    authorization: Option<HeaderValue>,
) -> Result<(StatusCode, Bytes), Error> {
    let client = HttpClient::new(endpoint)?;
    let (method, kind, body) = match content {
        Content::None => (Method::GET, None, String::new()),
        Content::Form(text) => (
            Method::POST,
            Some("application/x-www-form-urlencoded"),
            text,
        ),
        Content::Json(text) => (Method::POST, Some("application/json"), text),
    };
    let mut request = client.bare_request(method);
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(authorization) = authorization {
        headers.insert(header::AUTHORIZATION, authorization);
    }
    *request.body_mut() = Full::from(body);
    let answered = async {
        let response = client.send_once(request).await?;
        let status = response.status();
        Ok((status, client.read(response.into_body(), MAX_BODY).await?))
    };
    in_time(client.peer(), answered).await
}

async fn in_time<T>(
    peer: &Arc<str>,
    answered: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let timeout = |_| Error::Timeout {
        peer: peer.clone(),
        after: TIMEOUT,
    };
    let answered = tokio::time::timeout(TIMEOUT, answered).await;
    answered.map_err(timeout)?
}

/// Posts a message without a token, and returns what the server says about the token that it wants.
pub(crate) async fn challenges(endpoint: Endpoint, message: String) -> Result<Refusal, Error> {
    let client = HttpClient::new(endpoint)?;
    let mut request = client.bare_request(Method::POST);
    let headers = request.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    let accept = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(header::ACCEPT, accept);
    *request.body_mut() = Full::from(message);
    let response = in_time(client.peer(), client.send_once(request)).await?;
    Ok(refusal(&response, None, false).unwrap_or(Refusal {
        status: response.status(),
        challenges: Vec::new(),
        used: None,
        is_repeated: false,
    }))
}
