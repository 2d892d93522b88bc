//! One connection to one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::http::{HeaderParamCache, request_headers};
use crate::inbound::Inbound;
use crate::meta::{Envelope, Params};
use crate::transport::Transport;
use crate::{ClientInfo, Counters, EraChoice, Error, Options, ServerInfo, outgoing};

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
    /// Kept for a new handshake.
    pub(crate) client_info: Option<ClientInfo>,
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// Sent with every request of the modern era; `None` in the others.
    pub(crate) envelope: Option<Envelope>,
}

impl Negotiated {
    pub(crate) fn is_modern(&self) -> bool {
        self.envelope.is_some()
    }
}

impl Client {
    pub(crate) fn new(transport: Transport, inbound: Arc<Inbound>, defaults: Defaults) -> Self {
        Self(Arc::new(Inner {
            transport,
            inbound,
            defaults,
            connecting: tokio::sync::Mutex::default(),
            header_params: HeaderParamCache::default(),
            next_id: AtomicU64::new(1),
            negotiated: Mutex::default(),
        }))
    }

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
    /// new session and repeats the request once. Nothing else is repeated.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request_with(
        &self,
        method: &str,
        params: &(impl Serialize + Sync + ?Sized),
        options: Options,
    ) -> Result<Box<RawValue>, Error> {
        let params = outgoing::params(params)?;
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
        let params = outgoing::params(params)?;
        let headers = request_headers(self.negotiated().is_modern(), method, None, &[]);
        let message = outgoing::notification(method, params.as_deref());
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

    /// The process id of a child, as long as it runs.
    pub fn pid(&self) -> Option<u32> {
        self.0.transport.pid()
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
