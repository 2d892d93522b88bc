//! Requests to one server, and what a status means.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use mcp_core::jsonrpc::{self, METHOD_NOT_FOUND, Message};

use super::endpoint::Endpoint;
use super::headers::Fields;
use super::pool::{Body, Failure, Pool};
use super::session::Headers;
use crate::{Error, RpcError, tls};

/// What opening a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection may be silent before the operating system looks whether it still is one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// More of an error's body is not worth reading.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The way to one server.
pub(super) struct Connection {
    pool: Pool,
    endpoint: Endpoint,
    /// Where it is asked.
    path: Uri,
    /// The headers of every request.
    headers: HeaderMap,
    /// And of those that send a message.
    posting: HeaderMap,
}

impl Connection {
    pub(super) fn new(mut endpoint: Endpoint) -> Result<Self, Error> {
        let tls = match endpoint.tls.take() {
            Some(config) => config,
            None => tls::config_for(endpoint.url.scheme_str().unwrap_or_default())?,
        };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        // A stream on which nothing comes would not notice that its server is gone.
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_interval(Some(KEEP_ALIVE));
        let connector = HttpsConnector::from((connector, tls));
        let headers = endpoint.all_headers();
        let mut posting = headers.clone();
        let json = HeaderValue::from_static("application/json");
        posting.insert(header::CONTENT_TYPE, json);
        let both = HeaderValue::from_static("application/json, text/event-stream");
        posting.insert(header::ACCEPT, both);
        Ok(Self {
            pool: Pool::new(connector, endpoint.url.clone()),
            path: endpoint.path(),
            headers,
            posting,
            endpoint,
        })
    }

    pub(super) fn peer(&self) -> &Arc<str> {
        &self.endpoint.origin
    }

    pub(super) fn max_message(&self) -> usize {
        self.endpoint.max_message
    }

    pub(super) fn broken(&self, fault: impl Into<String>) -> Error {
        Error::Protocol {
            peer: self.peer().clone(),
            fault: fault.into(),
        }
    }

    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::Closed {
            peer: self.peer().clone(),
            reason: reason.to_owned(),
        }
    }

    /// Sends a message.
    pub(super) fn post<'a>(
        &'a self,
        message: String,
        extra: Fields,
        session: &'a Headers,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + 'a {
        let mut request = self.request(Method::POST, &self.posting, session);
        *request.body_mut() = Full::from(message);
        let headers = request.headers_mut();
        headers.reserve(extra.len());
        for (name, value) in extra {
            headers.insert(name, value);
        }
        self.send(request, session)
    }

    /// Opens a stream of what the server says of its own accord, or of what came after an event.
    pub(super) async fn resume(
        &self,
        last_event: Option<&[u8]>,
        session: &Headers,
    ) -> Result<Response<Body>, Error> {
        let mut request = self.request(Method::GET, &self.headers, session);
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        if let Some(last_event) = last_event {
            let last_event = HeaderValue::from_bytes(last_event)
                .map_err(|_| self.broken("it names its events with control characters"))?;
            headers.insert("last-event-id", last_event);
        }
        self.send(request, session).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, session: &Headers) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &self.headers, session);
        self.send(request, session).await.map(drop)
    }

    fn request(
        &self,
        method: Method,
        headers: &HeaderMap,
        session: &Headers,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = self.path.clone();
        request.headers_mut().clone_from(headers);
        session.add_to(request.headers_mut());
        request
    }

    /// Sends a request. A status outside 2xx is an error. Redirects are not followed: they would carry
    /// the headers, and with them the token, to whomever the server names.
    ///
    /// No `async fn`, nor is `post`: their futures would keep the request beside that of the pool.
    fn send<'a>(
        &'a self,
        request: Request<Full<Bytes>>,
        session: &'a Headers,
    ) -> impl Future<Output = Result<Response<Body>, Error>> + 'a {
        let judge = async move |sent: Result<Response<Body>, Failure>| match sent {
            Ok(response) if response.status().is_success() => Ok(response),
            // Seldom, and large: not in every request's future.
            Ok(response) => Err(Box::pin(self.refused(response, session)).await),
            Err(failure) => Err(self.failed(failure)),
        };
        self.pool.send(request).then(judge)
    }

    /// Reads a whole body, as far as the limit allows.
    pub(super) async fn read(&self, mut body: Body, limit: usize) -> Result<Bytes, Error> {
        let announced = usize::try_from(body.announced()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(self.broken(format!("its message is longer than {limit} bytes")));
        }
        let mut bytes = BytesMut::with_capacity(announced);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.cut_off(&error))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + data.len() > limit {
                return Err(self.broken(format!("its message is longer than {limit} bytes")));
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes.freeze())
    }

    pub(super) fn cut_off(&self, error: &hyper::Error) -> Error {
        tracing::debug!(peer = %self.peer(), %error, "answer cut off");
        self.closed("the connection broke in the middle of the answer")
    }

    fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::NotSent(source) => Error::Unreachable {
                peer: self.peer().clone(),
                source,
            },
            Failure::Broken(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(peer = %self.peer(), error, "no answer");
                self.closed("the connection broke before the answer")
            }
        }
    }

    async fn refused(&self, response: Response<Body>, session: &Headers) -> Error {
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

/// A 404 to a request with a session means the session, unless it says that it means the method.
/// Servers made after the example of the TypeScript SDK say with 400 and a sentence that a session
/// is not theirs.
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
