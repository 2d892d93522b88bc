//! One connection to one server, and its settings.

mod connect;
mod list;
mod request;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;

pub use self::list::{CallToolResult, ContentItem, NotificationStream, Tool};
use self::request::Params;
use crate::handler::DefaultHandler;
use crate::http::{HeaderParamCache, Http, request_headers};
use crate::inbound::{Inbound, ResponseRoutes};
use crate::message::{self, HeaderList, Outgoing, message};
use crate::stdio::Stdio;
use crate::{
    ClientInfo, Command, Counters, Endpoint, EraChoice, Error, Handler, Options, ServerInfo, sse,
};

/// An MCP client: one server, any number of requests at the same time. Clones share everything.
///
/// Dropping the last clone ends the connection. A child process is then killed; call
/// [`Client::close`] first to let it exit by itself.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) defaults: Defaults,
    /// Allows one handshake at a time.
    pub(crate) connecting: tokio::sync::Mutex<()>,
    pub(crate) header_params: HeaderParamCache,
    next_id: AtomicU64,
    negotiated: Mutex<Arc<Negotiated>>,
}

/// The defaults of a client, which a request may override.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// Timeout of a response.
    pub(crate) timeout: Duration,
    /// Timeout of a whole connect.
    pub(crate) connect_timeout: Duration,
    pub(crate) era: EraChoice,
}

/// The result of the negotiation; empty before it and in the unversioned era.
#[derive(Default)]
pub(crate) struct Negotiated {
    /// Kept for a new handshake, and sent with every request of the modern era.
    pub(crate) client_info: Option<ClientInfo>,
    pub(crate) server: Option<Arc<ServerInfo>>,
    pub(crate) is_modern: bool,
}

impl Negotiated {
    /// The client in `_meta` of every request of the modern era; `None` in the others.
    pub(crate) fn envelope(&self) -> Option<&ClientInfo> {
        self.client_info.as_ref().filter(|_| self.is_modern)
    }
}

impl Client {
    /// Sends a request and waits for its result. `params` that serialise to `null` are left out.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
    ) -> Result<Box<RawValue>, Error> {
        self.request_with(method, params, Options::default()).await
    }

    /// Sends a request with its own options. The result is what the server wrote, byte for byte. The
    /// parameters are sent byte for byte too, except for `_meta`, which is adapted to the server's
    /// era.
    ///
    /// Dropping the future cancels the request at the server: by `notifications/cancelled`, or over
    /// HTTP in the modern era by closing the stream.
    ///
    /// If the server no longer knows the session, it did not accept the request: the client opens a
    /// new session and repeats the request once. The request is also repeated once if the server has told that parameter
    /// headers are missing, or has refused a token that could be renewed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request_with(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
        options: Options,
    ) -> Result<Box<RawValue>, Error> {
        let params = message::params(params)?;
        let params = Params::Text(params.as_deref());
        self.call_with_timeout(method, params, &options).await
    }

    /// Sends a request whose parameters are already split into members, for relays.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn request_members<'a>(
        &'a self,
        method: &'a str,
        params: &'a Members,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<RawValue>, Error>> {
        self.call_with_timeout(method, Params::Members(params), options)
    }

    /// Sends a notification. Over HTTP it waits until the server has accepted it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn notify(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
    ) -> Result<(), Error> {
        let params = message::params(params)?;
        let headers = request_headers(self.negotiated().is_modern, method, None, &[]);
        let message = message(None, method, params.as_deref());
        let sending = self.0.transport.send(message, headers);
        self.with_timeout(self.timeout(), sending).await
    }

    /// The server's description of itself; `None` before [`Client::connect`].
    pub fn server(&self) -> Option<Arc<ServerInfo>> {
        self.negotiated().server.clone()
    }

    /// The era of the connection; unversioned before [`Client::connect`].
    pub fn era(&self) -> Era {
        self.server().map_or(Era::Unversioned, |server| server.era)
    }

    /// Counters of the server's invalid and unmatched messages, which were skipped.
    pub fn counters(&self) -> Counters {
        self.0.inbound.counters()
    }

    /// The server's name in errors and logs: the origin of its URL, or the name of its program.
    pub fn peer(&self) -> &str {
        self.0.transport.peer()
    }

    /// Waits until the child and its processes have ended, or the client was closed. Returns the
    /// reason.
    pub async fn closed(&self) -> String {
        self.0.transport.closed().await
    }

    /// Ends the session over HTTP. For a child process it closes stdin, waits for the exit, and sends
    /// signals only after the grace period. Requests that are still waiting fail with
    /// [`Error::Closed`] if the transport ends with them.
    pub async fn close(&self) {
        self.0.transport.close().await;
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn negotiated(&self) -> Arc<Negotiated> {
        self.0.negotiated.lock().clone()
    }

    pub(crate) fn set_negotiated(&self, negotiated: Negotiated) {
        *self.0.negotiated.lock() = Arc::new(negotiated);
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.defaults.timeout
    }
}

/// Default timeout of a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that a call takes at most, unless the builder knows better. Most servers do not answer a cancelled call, so its
/// end cannot be seen: twice the default timeout is left for it.
const USUAL_CALL: Duration = Duration::from_secs(60);
/// Default timeout of a whole connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The defaults of a [`Client`], and the handler of the server's own messages.
#[must_use]
pub struct Builder {
    defaults: Defaults,
    handler: Arc<dyn Handler>,
    longest_call: Option<Duration>,
}

impl Builder {
    /// Sets the timeout of a response; 30 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.defaults.timeout = timeout;
        self
    }

    /// Sets the timeout of [`Client::connect`] with all of its attempts; 10 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.defaults.connect_timeout = timeout;
        self
    }

    /// Sets the eras that [`Client::connect`] tries; [`EraChoice::Newest`] by default.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.defaults.era = era;
        self
    }

    /// Sets the handler of the server's notifications and requests. Without one, notifications are
    /// ignored and requests refused.
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = handler;
        self
    }

    /// Sets the longest time for which a call may run; by default a minute, or the timeout of a response if that is longer.
    /// The server may ask its questions so long after the caller has gone.
    pub fn longest_call(mut self, time: Duration) -> Self {
        self.longest_call = Some(time);
        self
    }

    fn client(
        self,
        connect: impl FnOnce(Arc<Inbound>) -> Result<Transport, Error>,
    ) -> Result<Client, Error> {
        let usual = self.defaults.timeout.max(USUAL_CALL);
        let longest_call = self.longest_call.unwrap_or(usual);
        let inbound = Arc::new(Inbound::new(self.handler, longest_call));
        Ok(Client(Arc::new(Inner {
            transport: connect(inbound.clone())?,
            inbound,
            defaults: self.defaults,
            connecting: tokio::sync::Mutex::default(),
            header_params: HeaderParamCache::default(),
            next_id: AtomicU64::new(1),
            negotiated: Mutex::default(),
        })))
    }

    /// Makes a client of the server behind a URL. Connects when there is something to send.
    ///
    /// # Errors
    /// The errors of [`tls::config_for`](crate::tls::config_for).
    pub fn http(self, endpoint: Endpoint) -> Result<Client, Error> {
        self.client(|inbound| Http::new(endpoint, inbound).map(Transport::Http))
    }

    /// Makes a client of a server that speaks HTTP+SSE, the transport of 2024-11-05, at the URL of its event
    /// stream. Connects at once.
    ///
    /// # Errors
    /// The errors of [`tls::config_for`](crate::tls::config_for); [`Error::Invalid`] outside of a Tokio runtime.
    pub fn sse(self, endpoint: Endpoint) -> Result<Client, Error> {
        self.client(|inbound| sse::connect(endpoint, inbound).map(Transport::Stdio))
    }

    /// Starts a server and makes a client of it.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the program cannot be started; [`Error::Invalid`] outside of a
    /// Tokio runtime.
    pub fn stdio(self, command: Command) -> Result<Client, Error> {
        self.client(|inbound| Stdio::spawn(command, inbound).map(Transport::Stdio))
    }
}

impl Client {
    /// Returns a builder, for a client with other than the default settings.
    pub fn builder() -> Builder {
        Builder {
            defaults: Defaults {
                timeout: REQUEST_TIMEOUT,
                connect_timeout: CONNECT_TIMEOUT,
                era: EraChoice::default(),
            },
            handler: Arc::new(DefaultHandler),
            longest_call: None,
        }
    }

    /// Makes a client of the server behind a URL; see [`Builder::http`].
    ///
    /// # Errors
    /// The errors of [`Builder::http`].
    pub fn http(endpoint: Endpoint) -> Result<Self, Error> {
        Self::builder().http(endpoint)
    }

    /// Starts a server and makes a client of it; see [`Builder::stdio`].
    ///
    /// # Errors
    /// The errors of [`Builder::stdio`].
    pub fn stdio(command: Command) -> Result<Self, Error> {
        Self::builder().stdio(command)
    }
}

/// A transport to one server.
pub(crate) enum Transport {
    Http(Http),
    /// Also HTTP+SSE, which is used in the same way.
    Stdio(Stdio),
}

impl Transport {
    pub(crate) fn peer(&self) -> &Arc<str> {
        match self {
            Self::Http(http) => http.peer(),
            Self::Stdio(stdio) => stdio.peer(),
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: Arc<ResponseRoutes>,
    ) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Http(http) => http.exchange(request, routes).await,
            Self::Stdio(stdio) => stdio.exchange(request).await,
        }
    }

    /// Sends a message without a response.
    pub(crate) async fn send(&self, message: String, headers: HeaderList) -> Result<(), Error> {
        match self {
            Self::Http(http) => http.send(message, headers).await,
            Self::Stdio(stdio) => stdio.send((None, message, headers)).await,
        }
    }

    /// Sends a cancellation without waiting; best effort.
    pub(crate) fn cancel(&self, message: String) {
        match self {
            Self::Http(http) => http.cancel(message),
            Self::Stdio(stdio) => stdio.cancel(message),
        }
    }

    /// Waits until a child has ended, or the connection was closed; returns the reason.
    pub(crate) async fn closed(&self) -> String {
        match self {
            Self::Http(http) => http.closed().await,
            Self::Stdio(stdio) => stdio.closed().await,
        }
    }

    /// Ends the session, or the child process.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Stdio(stdio) => stdio.close().await,
        }
    }
}
