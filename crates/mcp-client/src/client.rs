//! One connection to one server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::agreed::Agreed;
use crate::http::{Annotations, request_headers};
use crate::inbound::Inbound;
use crate::meta::Params;
use crate::transport::Transport;
use crate::{Counters, EraChoice, Error, Options, ServerInfo, outgoing};

/// An MCP client: one server, any number of requests at the same time. Clones share everything.
///
/// Dropping the last clone ends the connection; a child process is killed unless [`Client::close`]
/// let it end in peace.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) transport: Transport,
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) defaults: Defaults,
    /// One handshake at a time.
    pub(crate) connecting: tokio::sync::Mutex<()>,
    /// What the tools want in headers.
    pub(crate) annotations: Annotations,
    next_id: AtomicU64,
    agreed: Mutex<Arc<Agreed>>,
}

/// The defaults of a client, which a request may override.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// Timeout of an answer.
    pub(crate) timeout: Duration,
    /// Timeout of a whole connect.
    pub(crate) connect_timeout: Duration,
    pub(crate) era: EraChoice,
}

impl Client {
    pub(crate) fn new(transport: Transport, inbound: Arc<Inbound>, defaults: Defaults) -> Self {
        Self(Arc::new(Inner {
            transport,
            inbound,
            defaults,
            connecting: tokio::sync::Mutex::default(),
            annotations: Annotations::default(),
            next_id: AtomicU64::new(1),
            agreed: Mutex::default(),
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

    /// Sends a request in a way of its own. The result is what the server wrote, byte for byte; so
    /// are the parameters except for `_meta`, which says what the server's era wants there.
    ///
    /// Dropping the future cancels the request at the server: by `notifications/cancelled`, or over
    /// HTTP in the modern era by closing the stream.
    ///
    /// A request that meets a session which the server has forgotten was not accepted: it is
    /// repeated once after a new handshake. Nothing else is repeated.
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
        self.call_in_time(method, params, &options).await
    }

    /// The same for parameters that somebody else wrote and that were taken apart already.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn request_members(
        &self,
        method: &str,
        params: &Members,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let params = Params::Members(params);
        self.call_in_time(method, params, options).await
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
        let agreed = self.agreed();
        let headers = request_headers(agreed.is_modern(), method, None, &[]);
        let message = outgoing::notification(method, params.as_deref());
        let sending = self.0.transport.send(message, headers);
        self.in_time(self.timeout(), sending).await
    }

    /// What the server said about itself; `None` before [`Client::connect`].
    pub fn server(&self) -> Option<Arc<ServerInfo>> {
        self.agreed().server.clone()
    }

    /// The era of the connection; plain before [`Client::connect`].
    pub fn era(&self) -> Era {
        self.agreed()
            .server
            .as_ref()
            .map_or(Era::Unversioned, |s| s.era)
    }

    /// What the server did wrong so far, and was skipped.
    pub fn counters(&self) -> Counters {
        self.0.inbound.counting.read()
    }

    /// The server's name in errors and logs: the origin of its URL, or its program.
    pub fn peer(&self) -> &str {
        self.0.transport.peer()
    }

    /// The process id of a child, as long as it runs.
    pub fn pid(&self) -> Option<u32> {
        self.0.transport.pid()
    }

    /// Waits until a child has ended, or the client was closed; says why. Its processes are gone
    /// then.
    pub async fn closed(&self) -> String {
        self.0.transport.ended().await
    }

    /// Ends the session over HTTP. Ends a child process in peace: closes its stdin, waits, and only
    /// then sends signals. Requests that are still waiting fail with [`Error::Closed`] where the
    /// transport ends with them.
    pub async fn close(&self) {
        self.0.transport.close().await;
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn agreed(&self) -> Arc<Agreed> {
        // Nothing that panics runs under this lock.
        let agreed = self.0.agreed.lock();
        agreed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn agree(&self, agreed: Agreed) {
        let mut current = self.0.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(agreed);
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.defaults.timeout
    }
}
