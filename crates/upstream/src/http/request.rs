//! Requests with a credential, a timeout and a bounded response.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use mcp_core::trace::{self, ClientSpan, PeerAddress};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::client::ServiceProfile;
use super::failure::{ErrorResponse, Fault, HttpFailure, Peer};

/// A request that is not sent yet.
#[must_use]
pub struct Request {
    builder: RequestBuilder,
    peer: Peer,
    timeout: Duration,
    max_body: usize,
    target: (Method, Vec<String>),
    /// The request only reads, so that it may be sent again.
    is_repeatable: bool,
    has_credential: bool,
    /// A fault that is known before the request is sent.
    fault: Option<Fault>,
}

impl Request {
    pub(super) fn new(
        builder: RequestBuilder,
        peer: Peer,
        profile: &ServiceProfile,
        target: (Method, Vec<String>),
    ) -> Self {
        Self {
            builder,
            peer: peer.with_method(&target.0),
            timeout: profile.timeout,
            max_body: profile.max_body,
            is_repeatable: target.0.is_safe(),
            target,
            has_credential: false,
            fault: None,
        }
    }

    /// Adds escaped pairs to the query.
    pub fn query<Q: Serialize + ?Sized>(self, pairs: &Q) -> Self {
        self.with(|builder| builder.query(pairs))
    }

    /// Sets the body, as JSON.
    pub fn body<B: Serialize + ?Sized>(self, body: &B) -> Self {
        self.with(|builder| builder.json(body))
    }

    /// Changes the request in other ways: headers, a form, files.
    pub fn with(mut self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Sets the timeout, from connecting to the last byte.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request at most once, whatever its method: for a `GET` that changes something, such as a webhook.
    pub fn once(mut self) -> Self {
        self.is_repeatable = false;
        self
    }

    /// Sends the credential in this header, if there is one. If it cannot be read, the request fails
    /// before anything is sent.
    pub fn credential(self, header: &'static str, read: io::Result<Option<String>>) -> Self {
        match read {
            Ok(None) => self,
            read => self.required_credential(header, read),
        }
    }

    /// The same for a service that needs a credential: without one the request fails.
    pub fn required_credential(
        mut self,
        header: &'static str,
        read: io::Result<Option<String>>,
    ) -> Self {
        let value = read
            .map_err(Fault::CredentialUnreadable)
            .and_then(|key| key.ok_or(Fault::NoCredential))
            .and_then(|key| HeaderValue::try_from(key).map_err(|_| Fault::CredentialInvalid));
        match value {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.builder = self.builder.header(header, value);
                self.has_credential = true;
            }
            Err(fault) => self.fault = Some(fault),
        }
        self
    }

    /// Makes the request fail for this reason, before anything is sent.
    pub fn unusable(mut self, reason: &'static str) -> Self {
        self.fault = Some(Fault::Unusable(reason));
        self
    }

    /// Sends the request and parses the response as JSON; an empty body is `null`.
    ///
    /// # Errors
    /// The errors of [`Request::send`], and when the response is not such JSON.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, HttpFailure> {
        self.send().await?.json()
    }

    /// Sends the request.
    ///
    /// # Errors
    /// When there is no response, or one outside 2xx.
    pub async fn send(self) -> Result<Response, HttpFailure> {
        self.exchange(false).await
    }

    /// Sends the request and returns a response with any status.
    ///
    /// # Errors
    /// When there is no response, or it is too large.
    pub async fn send_any_status(self) -> Result<Response, HttpFailure> {
        self.exchange(true).await
    }

    async fn exchange(self, takes_any_status: bool) -> Result<Response, HttpFailure> {
        let (peer, limit, max_body) = (self.peer.clone(), self.timeout, self.max_body);
        let exchange = async {
            let mut response = self.answer(takes_any_status).await?;
            let body = read(&mut response, max_body).await?;
            Ok((response, body))
        };
        let ended = timeout(limit, exchange).await;
        match ended.unwrap_or(Err(Fault::Timeout(limit))) {
            Ok((mut response, body)) => Ok(Response {
                status: response.status(),
                headers: std::mem::take(response.headers_mut()),
                body,
                peer,
            }),
            Err(fault) => Err(peer.failure(fault)),
        }
    }

    /// Sends the request, and does not read the body of a success.
    ///
    /// # Errors
    /// When there is no response, or one outside 2xx.
    pub async fn send_unread(self) -> Result<(), HttpFailure> {
        let (peer, limit) = (self.peer.clone(), self.timeout);
        let answered = timeout(limit, self.answer(false)).await;
        let answered = answered.unwrap_or(Err(Fault::Timeout(limit)));
        answered.map(drop).map_err(|fault| peer.failure(fault))
    }

    /// Sends the request. The body of its response is not read, unless the status is outside 2xx and the caller does
    /// not take it.
    async fn answer(self, takes_any_status: bool) -> Result<reqwest::Response, Fault> {
        let mut response = dispatch(self.builder, self.fault, self.is_repeatable).await?;
        let status = response.status();
        if takes_any_status || status.is_success() {
            return Ok(response);
        }
        let body = read(&mut response, self.max_body).await?;
        let (method, path) = self.target;
        Err(Fault::Refused(Box::new(ErrorResponse {
            status,
            method,
            path,
            has_credential: self.has_credential,
            headers: std::mem::take(response.headers_mut()),
            body,
        })))
    }
}

/// Sends the request with at most one `Authorization`: a credential of the request takes the place of the
/// user in the address.
async fn dispatch(
    builder: RequestBuilder,
    fault: Option<Fault>,
    is_repeatable: bool,
) -> Result<reqwest::Response, Fault> {
    if let Some(fault) = fault {
        return Err(fault);
    }
    let (http, request) = builder.build_split();
    let mut request = request?;
    escape_query(request.url_mut());
    let headers = request.headers_mut();
    let last = headers.get_all(AUTHORIZATION).iter().next_back().cloned();
    if let Some(last) = last {
        headers.insert(AUTHORIZATION, last);
    }
    let Some(parent) = trace::current() else {
        return Ok(execute(&http, request, is_repeatable).await?);
    };
    let (method, url) = (request.method().clone(), request.url().clone());
    let peer = PeerAddress {
        host: url.host_str().unwrap_or_default(),
        port: url.port_or_known_default(),
    };
    let method = method.as_str();
    let span = ClientSpan::http(parent, method, peer);
    for (name, value) in span.context().fields() {
        if let Ok(value) = HeaderValue::from_str(&value) {
            request.headers_mut().insert(name, value);
        }
    }
    // Boxed, since it is large.
    let response = Box::pin(execute(&http, request, is_repeatable)).await;
    let status = response.as_ref().map(|response| response.status().as_u16());
    span.end_http(status.ok());
    Ok(response?)
}

/// Sends the request, and again if it may be repeated and the connection ended without a response: the service
/// may have closed an idle connection while the request was on its way (RFC 9110, section 9.2.2).
async fn execute(
    http: &reqwest::Client,
    request: reqwest::Request,
    is_repeatable: bool,
) -> reqwest::Result<reqwest::Response> {
    let again = match is_repeatable {
        true => request.try_clone(),
        false => None,
    };
    match (http.execute(request).await, again) {
        (Err(error), Some(again)) if !error.is_connect() => http.execute(again).await,
        (response, _) => response,
    }
}

/// Escapes the query as a URL, not as a form: a form's `+` for a space and its plain `*` are refused, or
/// read as they are, by services that keep to RFC 3986. Both are escapes of [`Request::query`]: those
/// characters themselves are `%2B` and, unescaped, `*` there.
fn escape_query(url: &mut Url) {
    let escaped = url.query().filter(|query| query.contains(['+', '*']));
    if let Some(escaped) = escaped.map(|query| query.replace('+', "%20").replace('*', "%2A")) {
        url.set_query(Some(&escaped));
    }
}

/// Reads a body of at most `max` bytes.
async fn read(response: &mut reqwest::Response, max: usize) -> Result<Vec<u8>, Fault> {
    if response.content_length().unwrap_or_default() > max as u64 {
        return Err(Fault::TooLarge(max));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max {
            return Err(Fault::TooLarge(max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A complete response.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    peer: Peer,
}

impl Response {
    /// The body as JSON; an empty one is `null`.
    ///
    /// # Errors
    /// When the body is not such JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpFailure> {
        let body = match &self.body[..] {
            [] => Cow::Borrowed(&b"null"[..]),
            body => whole_characters(body),
        };
        let mut deserializer = serde_json::Deserializer::from_slice(&body);
        let value = serde_path_to_error::deserialize(&mut deserializer);
        value.map_err(|error| self.peer.failure(Fault::Unreadable(error)))
    }
}

/// JSON with U+FFFD in place of each half of a character: JavaScript cuts texts in the middle of an emoji, and writes
/// the half as an escape such as `\ud83d`, which is no character.
pub fn whole_characters(json: &[u8]) -> Cow<'_, [u8]> {
    let is_half = |escape: &[u8]| escape[1] == b'u' && matches!(escape[2], b'd' | b'D');
    if !json
        .windows(3)
        .any(|escape| escape[0] == b'\\' && is_half(escape))
    {
        return Cow::Borrowed(json);
    }
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut whole, mut at) = (json.to_vec(), 0);
    while at < json.len() {
        at += match (json[at], unit(at), unit(at + 6)) {
            (b'\\', Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (b'\\', Some(0xd800..0xe000), _) => {
                whole[at..at + 6].copy_from_slice(b"\\ufffd");
                6
            }
            (b'\\', ..) => 2,
            _ => 1,
        };
    }
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests;
