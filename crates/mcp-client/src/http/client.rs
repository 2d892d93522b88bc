//! Sends HTTP requests to one server and maps failures and statuses to errors.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_core::jsonrpc::{self, METHOD_NOT_FOUND, Message};
use mcp_core::trace::PeerAddress;
use parking_lot::Mutex;
use reqwest::{Client, ClientBuilder, Request, Response, redirect, retry};
use rustls::ClientConfig;
use url::Url;

use super::endpoint::{Authorization, Endpoint, TokenRefusal};
use super::headers::SESSION_ID;
use super::is_event_stream;
use crate::error::{self, FailureInWords};
use crate::message::HeaderList;
use crate::proxy::{Proxy, UsedProxy};
use crate::tls::{self, TlsContents, TlsFiles};
use crate::{Error, RpcError};

/// Timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of TCP keepalive probes: without them a silent stream would not notice that its server is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Idle time after which a connection is closed. Node and uvicorn close theirs after 5 s, and a
/// request at that moment is lost with its outcome unknown: ours must be shorter, also on a busy machine.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the body of an error response.
const MAX_SMALL_BODY: usize = 64 << 10;
/// Limit of an answer to a [`Poster`], also with metadata or tokens.
const MAX_FETCHED: usize = 256 << 10;
/// Timeout of a request for metadata or tokens.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

pub(crate) struct HttpClient {
    connections: Connections,
    endpoint: Endpoint,
    proxy: Option<UsedProxy>,
}

enum Connections {
    Fixed(Client),
    /// The TLS configuration is made of the endpoint's files, and both are made again when one of them has changed.
    Followed(Mutex<Option<(TlsContents, Client)>>),
}

impl HttpClient {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, Error> {
        let proxy = endpoint.proxy.to(&endpoint.url)?;
        let scheme = endpoint.url.scheme();
        let connections = match scheme == "https" && endpoint.tls != TlsFiles::default() {
            true => Connections::Followed(Mutex::default()),
            false => Connections::Fixed(build(tls::config_for(scheme)?, proxy.as_ref())?),
        };
        Ok(Self {
            connections,
            endpoint,
            proxy,
        })
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.endpoint.origin
    }

    pub(crate) fn address(&self) -> Option<PeerAddress<'_>> {
        let url = &self.endpoint.url;
        Some(PeerAddress {
            host: url.host_str()?,
            port: url.port_or_known_default(),
        })
    }

    pub(crate) fn protocol_error(&self, fault: impl Into<String>) -> Error {
        Error::protocol(self.peer(), fault)
    }

    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::closed(self.peer(), reason)
    }

    /// Sends a message.
    pub(super) async fn post(
        &self,
        message: String,
        extra: HeaderList,
        session: &HeaderMap,
    ) -> Result<Response, Error> {
        let request = self.posting(message, extra, session);
        self.send(request).await
    }

    /// Posts a message to another URL of the server. The response is not read.
    pub(crate) async fn post_to(
        &self,
        url: &Url,
        message: String,
        extra: HeaderList,
    ) -> Result<(), Error> {
        let mut request = self.posting(message, extra, &HeaderMap::new());
        request.url_mut().clone_from(url);
        self.send(request).await.map(drop)
    }

    /// Returns the URL of an address that the server names; `None` if it is of another server.
    pub(crate) fn url_of(&self, address: &str) -> Option<Url> {
        self.endpoint.resolve(address.trim())
    }

    /// Opens the server's own stream, or resumes a stream after `last_event`.
    pub(crate) async fn open_stream(
        &self,
        last_event: Option<&str>,
        session: &HeaderMap,
    ) -> Result<Response, Error> {
        let mut request = self.request(Method::GET, session);
        request.headers_mut().insert(header::ACCEPT, EVENT_STREAM);
        if let Some(last_event) = last_event {
            let last_event = HeaderValue::from_str(last_event)
                .map_err(|_| self.protocol_error("its event names contain control characters"))?;
            request.headers_mut().insert("last-event-id", last_event);
        }
        let response = self.send(request).await?;
        match is_event_stream(response.headers()) {
            true => Ok(response),
            false => Err(self.protocol_error("its response to GET is not an event stream")),
        }
    }

    pub(super) async fn delete(&self, session: &HeaderMap) -> Result<(), Error> {
        let request = self.request(Method::DELETE, session);
        self.send(request).await.map(drop)
    }

    fn request(&self, method: Method, session: &HeaderMap) -> Request {
        let mut request = Request::new(method, self.endpoint.url.clone());
        request.headers_mut().clone_from(&self.endpoint.headers);
        request.headers_mut().extend(session.clone());
        request
    }

    fn posting(&self, message: String, extra: HeaderList, session: &HeaderMap) -> Request {
        let mut request = self.request(Method::POST, session);
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, JSON_OR_EVENTS);
        for (name, value) in extra {
            headers.insert(name, value);
        }
        *request.body_mut() = Some(message.into());
        request
    }

    /// Sends a request. A status outside 2xx is an error. With an authorization the request has a token,
    /// and is sent once more with another one if the server refuses it.
    async fn send(&self, request: Request) -> Result<Response, Error> {
        let in_session = request.headers().contains_key(SESSION_ID);
        let response = match self.endpoint.authorization.clone() {
            None => self.send_once(request).await?,
            Some(authorization) => self.send_authorized(request, &*authorization).await?,
        };
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.status_error(response, in_session).await),
        }
    }

    async fn send_authorized(
        &self,
        request: Request,
        authorization: &dyn Authorization,
    ) -> Result<Response, Error> {
        let mut is_repeated = false;
        loop {
            let used = authorization.header().await?;
            let cannot = || Error::Invalid("the request cannot be sent again".to_owned());
            let mut sent = request.try_clone().ok_or_else(cannot)?;
            if let Some(token) = used.clone() {
                sent.headers_mut().insert(header::AUTHORIZATION, token);
            }
            let response = self.send_once(sent).await?;
            let Some(refusal) = refusal(&response, used, is_repeated) else {
                return Ok(response);
            };
            authorization.refused(refusal).await?;
            if std::mem::replace(&mut is_repeated, true) {
                return Ok(response);
            }
        }
    }

    /// Sends a request, and returns its answer with any status.
    async fn send_once(&self, request: Request) -> Result<Response, Error> {
        let client = self.client().await?;
        let sent = client.execute(request).await;
        sent.map_err(|error| self.send_error(error))
    }

    /// The client for the next request.
    async fn client(&self) -> Result<Client, Error> {
        let last = match &self.connections {
            Connections::Fixed(client) => return Ok(client.clone()),
            Connections::Followed(last) => last,
        };
        let files = self.endpoint.tls.clone();
        let contents = tokio::task::spawn_blocking(move || files.read()).await;
        let contents = contents.map_err(|error| self.unreachable(error))?;
        let contents = contents.map_err(|error| self.unreachable(error))?;
        let mut last = last.lock();
        if let Some((known, client)) = &*last
            && *known == contents
        {
            return Ok(client.clone());
        }
        let config = self.endpoint.tls.config(&contents);
        let config = config.map_err(|error| self.unreachable(error))?;
        let client = build(config, self.proxy.as_ref())?;
        *last = Some((contents, client.clone()));
        Ok(client)
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(super) async fn read(&self, mut body: Response, limit: usize) -> Result<Bytes, Error> {
        let too_long = || self.protocol_error(format!("its message is longer than {limit} bytes"));
        let announced = body.content_length().unwrap_or_default();
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(too_long());
        }
        let mut bytes = BytesMut::with_capacity(announced);
        let cut_off = |error| cut_off(self.peer(), &error);
        while let Some(data) = body.chunk().await.map_err(cut_off)? {
            if bytes.len() + data.len() > limit {
                return Err(too_long());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    }

    fn unreachable(&self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::unreachable(self.peer(), source)
    }

    fn send_error(&self, error: reqwest::Error) -> Error {
        // It may hold a secret in its path.
        let error = error.without_url();
        let fault = error::find::<hyper::Error>(&error);
        // TLS 1.3 refuses a client certificate after the handshake.
        if error::find::<rustls::Error>(&error).is_some() {
            return self.unreachable(error);
        }
        if let Some(proxy) = self.proxy.as_ref().filter(|_| error.is_connect()) {
            // The two outer errors only say that there is no connection.
            let cause = error.source().and_then(StdError::source);
            let cause = cause.unwrap_or(&error);
            let text = format!("through the proxy {}: {cause}", proxy.name());
            return self.unreachable(FailureInWords(text));
        }
        let is_cancelled = fault.is_some_and(hyper::Error::is_canceled);
        if error.is_connect() || error.is_builder() || is_cancelled {
            return self.unreachable(error);
        }
        let fault = fault.and_then(http_fault);
        let error: &dyn StdError = &error;
        tracing::debug!(peer = %self.peer(), error, "no answer");
        match fault {
            Some(fault) => self.protocol_error(fault),
            None => self.closed("the connection broke before the answer"),
        }
    }

    async fn status_error(&self, response: Response, in_session: bool) -> Error {
        let status = response.status();
        let peer = self.peer().clone();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = self.read(response, MAX_SMALL_BODY).await;
        let error = body.ok().and_then(|body| rpc_error(&body));
        if in_session && is_about_session(status, error.as_ref()) {
            return Error::SessionLost { peer };
        }
        Error::Http {
            peer,
            status: status.as_u16(),
            retry_after,
            error,
        }
    }

    async fn in_time<T>(
        &self,
        answered: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let timeout = |_| Error::Timeout {
            peer: self.peer().clone(),
            after: FETCH_TIMEOUT,
        };
        let answered = tokio::time::timeout(FETCH_TIMEOUT, answered).await;
        answered.map_err(timeout)?
    }
}

/// Begins the HTTP client of `server`, also of one that is no MCP server: with the proxy that the environment names for
/// it and the certificates of this machine. It follows no redirect, which would send the headers, and with them the token,
/// to any host that the server names, and repeats no request.
///
/// # Errors
/// [`Error::Invalid`] if TLS or the proxy cannot be used.
pub fn http_client(server: &Url) -> Result<ClientBuilder, Error> {
    let proxy = Proxy::Environment.to(server)?;
    begin(tls::config_for(server.scheme())?, proxy.as_ref())
}

fn build(tls: ClientConfig, proxy: Option<&UsedProxy>) -> Result<Client, Error> {
    begin(tls, proxy)?.build().map_err(unusable)
}

fn begin(tls: ClientConfig, proxy: Option<&UsedProxy>) -> Result<ClientBuilder, Error> {
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_keepalive(KEEPALIVE_INTERVAL)
        .tcp_keepalive_interval(KEEPALIVE_INTERVAL)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .tls_backend_preconfigured(tls)
        .no_proxy();
    Ok(match proxy {
        Some(proxy) => builder.proxy(proxy.of_reqwest().map_err(unusable)?),
        None => builder,
    })
}

fn unusable(error: reqwest::Error) -> Error {
    Error::Invalid(error.without_url().to_string())
}

/// The type and the text of a body.
pub(crate) type Content = (HeaderValue, String);

/// Sends a request for metadata or tokens: a GET without content, else a POST. Follows no redirect: its target was not
/// checked.
pub(crate) async fn fetch(
    endpoint: Endpoint,
    content: Option<Content>,
    authorization: Option<HeaderValue>,
) -> Result<(StatusCode, Bytes), Error> {
    let poster = Poster::new(endpoint)?;
    let mut headers = HeaderMap::from_iter([(header::ACCEPT, JSON)]);
    headers.extend(authorization.map(|it| (header::AUTHORIZATION, it)));
    let (method, body) = match content {
        None => (Method::GET, String::new()),
        Some((kind, body)) => {
            headers.insert(header::CONTENT_TYPE, kind);
            (Method::POST, body)
        }
    };
    let answer = poster.0.in_time(poster.send(method, headers, body.into()));
    let (head, body) = answer.await?.into_parts();
    Ok((head.status, body))
}

/// Posts a message without a token, and returns what the server says about the token that it wants.
pub(crate) async fn challenges(endpoint: Endpoint, message: String) -> Result<Vec<String>, Error> {
    let client = HttpClient::new(endpoint)?;
    let request = client.posting(message, HeaderList::new(), &HeaderMap::new());
    let response = client.in_time(client.send_once(request)).await?;
    let refused = refusal(&response, None, false);
    Ok(refused
        .map(|refused| refused.challenges)
        .unwrap_or_default())
}

impl Endpoint {
    /// Posts JSON to it, also if it is no MCP server, such as a webhook. Follows no redirect.
    ///
    /// # Errors
    /// When it cannot be reached, or does not answer with success.
    pub async fn post_json(self, json: String) -> Result<(), Error> {
        let client = HttpClient::new(self)?;
        let request = client.posting(json, HeaderList::new(), &HeaderMap::new());
        client.send(request).await.map(drop)
    }

    /// Gets a document of at most 256 KiB from it within 10 s, such as the keys of an authorization server. Returns the
    /// status, too. Follows no redirect: its target was not checked.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub async fn get(self) -> Result<(StatusCode, Bytes), Error> {
        fetch(self, None, None).await
    }
}

/// Asks one address outside of the protocol of MCP, such as a collector of telemetry. Keeps its connection.
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

    /// Sends a request with these headers. Follows no redirect. Has no timeout.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<http::Response<Bytes>, Error> {
        let mut request = self.0.request(method, &headers);
        *request.body_mut() = (!body.is_empty()).then(|| body.into());
        let mut answer = self.0.send_once(request).await?;
        let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        // Read to its end, so that the connection can be used again.
        let mut answer = http::Response::new(self.0.read(answer, MAX_FETCHED).await?);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

/// The error of an answer that ends too early.
pub(super) fn cut_off(peer: &Arc<str>, error: &reqwest::Error) -> Error {
    tracing::debug!(%peer, error = error as &dyn StdError, "answer cut off");
    Error::closed(peer, "the connection broke in the middle of the answer")
}

/// Returns the refusal of a token, if the answer is one.
fn refusal(
    response: &Response,
    used: Option<HeaderValue>,
    is_repeated: bool,
) -> Option<TokenRefusal> {
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
    is_refusal.then_some(TokenRefusal {
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
