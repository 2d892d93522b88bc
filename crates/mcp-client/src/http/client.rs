//! Sends HTTP requests to one server and maps failures and statuses to errors.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use mcp_core::jsonrpc::{self, METHOD_NOT_FOUND, Message};
use mcp_core::trace::PeerAddress;

use super::connector::Connector;
use super::endpoint::Endpoint;
use super::headers::HeaderList;
use super::is_event_stream;
use super::pool::{Body, Pool, SendError};
use super::session::SessionHeaders;
use crate::authorization::{Authorization, Refusal};
use crate::{Error, RpcError, unreachable};

/// Limit of the body of an error response.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The room for the headers that a request has of its own: those of its message, session and length.
const OWN_HEADERS: usize = 8;

impl Endpoint {
    /// Posts JSON to it, also if it is no MCP server, such as a webhook. Follows no redirect.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer with success.
    pub async fn post_json(self, json: String) -> Result<(), Error> {
        HttpClient::new(self)?.post_json(json).await
    }
}

/// An HTTP client of one server.
pub(crate) struct HttpClient {
    pool: Pool,
    endpoint: Endpoint,
    /// The target of requests: the path, or for a proxy the whole URL.
    path: Uri,
    /// The headers of every request.
    headers: HeaderMap,
    /// The headers of every POST.
    posting: HeaderMap,
}

impl HttpClient {
    pub(crate) fn new(mut endpoint: Endpoint) -> Result<Self, Error> {
        let tls = std::mem::take(&mut endpoint.tls);
        let connector = Connector::new(endpoint.url.clone(), tls, &endpoint.proxy)?;
        let mut headers = endpoint.all_headers();
        let proxy = connector.reading_proxy();
        if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization.clone()) {
            headers.insert(header::PROXY_AUTHORIZATION, authorization);
        }
        let path = match proxy {
            Some(_) => endpoint.url.clone(),
            None => endpoint.path(),
        };
        let mut posting = headers.clone();
        let json = HeaderValue::from_static("application/json");
        posting.insert(header::CONTENT_TYPE, json);
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        posting.insert(header::ACCEPT, accept);
        Ok(Self {
            pool: Pool::new(connector),
            path,
            headers,
            posting,
            endpoint,
        })
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.endpoint.origin
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> Option<PeerAddress<'_>> {
        let url = &self.endpoint.url;
        let is_tls = url.scheme_str() == Some("https");
        Some(PeerAddress {
            host: url.host()?,
            port: url.port_u16().or(Some(if is_tls { 443 } else { 80 })),
        })
    }

    pub(crate) fn max_message(&self) -> usize {
        self.endpoint.max_message
    }

    pub(crate) fn protocol_error(&self, fault: impl Into<String>) -> Error {
        Error::protocol(self.peer(), fault)
    }

    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::closed(self.peer(), reason)
    }

    /// Sends a message. No `async fn`: its future would hold the request twice; see `send`.
    pub(super) fn post<'a>(
        &'a self,
        message: String,
        extra: HeaderList,
        session: &'a SessionHeaders,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + 'a {
        let mut request = self.request(Method::POST, &self.posting, session);
        *request.body_mut() = Full::from(message);
        for (name, value) in extra {
            request.headers_mut().insert(name, value);
        }
        self.send(request, session)
    }

    /// Opens the stream of an HTTP+SSE server.
    pub(crate) async fn open_event_stream(&self) -> Result<Body, Error> {
        let session = SessionHeaders::default();
        let response = self.open_stream(None, &session).await?;
        match is_event_stream(response.headers()) {
            true => Ok(response.into_body()),
            false => Err(self.protocol_error("its response to GET is not an event stream")),
        }
    }

    /// Posts a message to another path of the server.
    pub(crate) async fn post_to(&self, path: &Uri, message: String) -> Result<(), Error> {
        let session = SessionHeaders::default();
        let mut request = self.request(Method::POST, &self.posting, &session);
        *request.uri_mut() = self.target(path);
        *request.body_mut() = Full::from(message);
        self.send(request, &session).await.map(drop)
    }

    /// Posts JSON to the URL of the endpoint. The response is not read.
    pub(super) async fn post_json(&self, json: String) -> Result<(), Error> {
        self.post_to(&self.path.clone(), json).await
    }

    /// Returns the path of an address that the server names; `None` if it is of another server.
    pub(crate) fn path_of(&self, address: &str) -> Option<Uri> {
        self.endpoint.resolve(address.trim())
    }

    /// The target of a request for this path: with the scheme and host if those of every request have them.
    fn target(&self, path: &Uri) -> Uri {
        let mut parts = self.path.clone().into_parts();
        parts.path_and_query = path.path_and_query().cloned();
        Uri::from_parts(parts).unwrap_or_else(|_| path.clone())
    }

    /// Opens the server's own stream, or resumes a stream after `last_event`.
    pub(super) async fn open_stream(
        &self,
        last_event: Option<&[u8]>,
        session: &SessionHeaders,
    ) -> Result<Response<Body>, Error> {
        let mut request = self.request(Method::GET, &self.headers, session);
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        if let Some(last_event) = last_event {
            let last_event = HeaderValue::from_bytes(last_event)
                .map_err(|_| self.protocol_error("its event names contain control characters"))?;
            headers.insert("last-event-id", last_event);
        }
        self.send(request, session).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, session: &SessionHeaders) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &self.headers, session);
        self.send(request, session).await.map(drop)
    }

    fn request(
        &self,
        method: Method,
        headers: &HeaderMap,
        session: &SessionHeaders,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = self.path.clone();
        // A clone has no room, and would grow with the first header of the request.
        *request.headers_mut() = HeaderMap::with_capacity(headers.len() + OWN_HEADERS);
        let common = headers.iter();
        let common = common.map(|(name, value)| (name.clone(), value.clone()));
        request.headers_mut().extend(common);
        session.add_to(request.headers_mut());
        request
    }

    /// Sends a request. A status outside 2xx is an error. Redirects are not followed: they would send
    /// the headers, and with them the token, to any host that the server names.
    ///
    /// No `async fn`: its future would hold the request in addition to the pool's future.
    fn send<'a>(
        &'a self,
        request: Request<Full<Bytes>>,
        session: &'a SessionHeaders,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + 'a {
        let check = async move |sent: Result<Response<Body>, SendError>| match sent {
            Ok(response) if response.status().is_success() => Ok(response),
            // Boxed to keep the common future small.
            Ok(response) => Err(Box::pin(self.status_error(response, session)).await),
            Err(error) => Err(self.send_error(error)),
        };
        match &self.endpoint.authorization {
            None => Either::Left(self.pool.send(request).then(check)),
            Some(authorization) => {
                let sent = self.send_authorized(request, session, authorization.as_ref());
                Either::Right(sent.boxed())
            }
        }
    }

    /// Sends a request with a token, and once more with another one if the server refuses it.
    async fn send_authorized(
        &self,
        request: Request<Full<Bytes>>,
        session: &SessionHeaders,
        authorization: &dyn Authorization,
    ) -> Result<Response<Body>, Error> {
        let mut is_repeated = false;
        loop {
            let used = authorization.header().await?;
            let mut sent = request.clone();
            if let Some(token) = used.clone() {
                sent.headers_mut().insert(header::AUTHORIZATION, token);
            }
            let response = self.send_once(sent).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            match refusal(&response, used, is_repeated) {
                Some(refusal) => authorization.refused(refusal).await?,
                None => return Err(Box::pin(self.status_error(response, session)).await),
            }
            if std::mem::replace(&mut is_repeated, true) {
                return Err(Box::pin(self.status_error(response, session)).await);
            }
        }
    }

    /// Sends a request, and returns its answer with any status.
    pub(super) async fn send_once(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Error> {
        let sent = self.pool.send(request).await;
        sent.map_err(|error| self.send_error(error))
    }

    /// A request with the headers of every request.
    pub(super) fn bare_request(&self, method: Method) -> Request<Full<Bytes>> {
        self.request(method, &self.headers, &SessionHeaders::default())
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(super) async fn read(&self, mut body: Body, limit: usize) -> Result<Bytes, Error> {
        let too_long = || self.protocol_error(format!("its message is longer than {limit} bytes"));
        let announced = usize::try_from(body.announced()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(too_long());
        }
        let mut bytes = BytesMut::with_capacity(announced);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.cut_off(&error))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + data.len() > limit {
                return Err(too_long());
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes.freeze())
    }

    pub(crate) fn cut_off(&self, error: &hyper::Error) -> Error {
        tracing::debug!(peer = %self.peer(), %error, "answer cut off");
        self.closed("the connection broke in the middle of the answer")
    }

    fn send_error(&self, error: SendError) -> Error {
        match error {
            SendError::NotSent(source) => Error::Unreachable {
                peer: self.peer().clone(),
                source,
            },
            // TLS 1.3 refuses a client certificate after the handshake.
            SendError::OutcomeUnknown(error) if unreachable::reason(&error).is_some() => {
                Error::Unreachable {
                    peer: self.peer().clone(),
                    source: error.into(),
                }
            }
            SendError::OutcomeUnknown(error) => {
                let fault = http_fault(&error);
                let error: &dyn std::error::Error = &error;
                tracing::debug!(peer = %self.peer(), error, "no answer");
                match fault {
                    Some(fault) => self.protocol_error(fault),
                    None => self.closed("the connection broke before the answer"),
                }
            }
        }
    }

    async fn status_error(&self, response: Response<Body>, session: &SessionHeaders) -> Error {
        let status = response.status();
        let peer = self.peer().clone();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = self.read(response.into_body(), MAX_ERROR_BODY).await;
        let error = body.ok().and_then(|body| rpc_error(&body));
        if session.id.is_some() && is_about_session(status, error.as_ref()) {
            return Error::SessionLost { peer };
        }
        Error::Http {
            peer,
            status: status.as_u16(),
            retry_after,
            error,
        }
    }
}

/// Returns the refusal of a token, if the answer is one.
pub(super) fn refusal(
    response: &Response<Body>,
    used: Option<HeaderValue>,
    is_repeated: bool,
) -> Option<Refusal> {
    let values = response.headers().get_all(header::WWW_AUTHENTICATE);
    let values = values.iter().filter_map(|value| value.to_str().ok());
    let challenges: Vec<String> = values.map(str::to_owned).collect();
    let status = response.status();
    let is_refusal = match status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => {
            let mut challenges = challenges.iter();
            challenges.any(|challenge| challenge.contains("insufficient_scope"))
        }
        _ => false,
    };
    is_refusal.then_some(Refusal {
        status,
        challenges,
        used,
        is_repeated,
    })
}

/// Returns how an answer violates HTTP; `None` if there was no answer.
fn http_fault(error: &hyper::Error) -> Option<&'static str> {
    // A method that says so comes with hyper's server only.
    if error.is_parse() && error.to_string().contains("too large") {
        Some("the headers of its answer are too large")
    } else if error.is_parse() {
        Some("its answer is not HTTP")
    } else {
        None
    }
}

/// Returns true if the server does not know the session. A 404 to a request with a session means
/// that, unless the error code is that of an unknown method. Servers modelled on the TypeScript SDK
/// answer with 400 and a message about the session.
fn is_about_session(status: StatusCode, error: Option<&RpcError>) -> bool {
    let code = error.map(|error| error.code);
    match status {
        StatusCode::NOT_FOUND => code != Some(METHOD_NOT_FOUND.into()),
        StatusCode::BAD_REQUEST => error.is_some_and(|error| {
            (-32099..=-32000).contains(&error.code)
                && error.message.to_lowercase().contains("session")
        }),
        _ => false,
    }
}

fn rpc_error(body: &[u8]) -> Option<RpcError> {
    let Ok(Message::Response(response)) = jsonrpc::decode(body) else {
        return None;
    };
    serde_json::from_str(response.outcome.err()?.get()).ok()
}
