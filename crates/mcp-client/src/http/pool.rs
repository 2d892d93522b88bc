//! A pool of idle connections.
//!
//! hyper-util's client has a pool too. But it parses and rebuilds every URL, and spawns a task per
//! response that waits until the connection is free: a twelfth of the cost of a relayed call.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use tokio::runtime::{self, Handle};

use super::connector::Connector;
use crate::sync::lock;

/// Idle time after which a connection is closed. Node and uvicorn close theirs after 5 s, and a
/// request at that moment is lost with its outcome unknown: ours must be shorter.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one server.
pub(super) struct Pool {
    connector: Connector,
    idle: Arc<IdleList>,
}

/// The connections that are not in use, newest last.
#[derive(Default)]
struct IdleList(Mutex<Vec<IdleConnection>>);

struct IdleConnection {
    sender: Sender,
    /// The runtime that drives the connection. A request on another runtime would need two wake-ups
    /// across threads.
    runtime: runtime::Id,
    last_used: Instant,
}

/// The reason why there is no response.
pub(super) enum SendError {
    /// Nothing of the request was sent.
    NotSent(Box<dyn std::error::Error + Send + Sync>),
    /// The request may have been carried out.
    OutcomeUnknown(hyper::Error),
}

impl Pool {
    pub(super) fn new(connector: Connector) -> Self {
        Self {
            connector,
            idle: Arc::default(),
        }
    }

    /// Sends a request whose URI is a path, or for a proxy the whole URL.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, SendError> {
        let here = Handle::current().id();
        loop {
            let kept = self.idle.take(here);
            let is_new = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                // Boxed to keep the common future small.
                None => Box::pin(self.open()).await?,
            };
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => {
                    let lease = (Arc::clone(&self.idle), here, sender);
                    return Ok(response.map(|body| Body {
                        body,
                        lease: Some(lease),
                    }));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                // The server closed the connection while it was idle.
                Some(unsent) if !is_new => request = unsent,
                Some(_) => return Err(SendError::NotSent(failed.into_error().into())),
                None => return Err(SendError::OutcomeUnknown(failed.into_error())),
            }
        }
    }

    async fn open(&self) -> Result<Sender, SendError> {
        let stream = self.connector.connect().await.map_err(SendError::NotSent)?;
        let (sender, connection) = http1::Builder::new()
            // Requests are small: one buffer costs the kernel less than two.
            .writev(false)
            .handshake(stream)
            .await
            .map_err(|error| SendError::NotSent(error.into()))?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "connection broken"
                );
            }
        });
        let idle = Arc::downgrade(&self.idle);
        tokio::spawn(async move {
            while !connection.is_finished() {
                tokio::time::sleep(IDLE_TIMEOUT).await;
                let Some(idle) = idle.upgrade() else { return };
                idle.lock().retain(IdleConnection::is_usable);
            }
        });
        Ok(sender)
    }
}

impl IdleList {
    fn take(&self, here: runtime::Id) -> Option<Sender> {
        let mut idle = self.lock();
        let is_free = |kept: &IdleConnection| {
            kept.runtime == here && kept.sender.is_ready() && kept.is_usable()
        };
        let at = idle.iter().rposition(is_free)?;
        Some(idle.remove(at).sender)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        lock(&self.0)
    }
}

impl IdleConnection {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.last_used.elapsed() < IDLE_TIMEOUT
    }
}

/// The body of a response. Dropping it returns the connection to the pool; if the body was not read
/// to its end, the connection never becomes ready again, and is closed.
pub(crate) struct Body {
    body: Incoming,
    lease: Option<(Arc<IdleList>, runtime::Id, Sender)>,
}

impl Body {
    /// The next frame; `None` at the end.
    pub(crate) async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.body.frame().await
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The least number of bytes that are still to come.
    pub(super) fn announced(&self) -> u64 {
        self.body.size_hint().lower()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some((idle, runtime, sender)) = self.lease.take() {
            let last_used = Instant::now();
            idle.lock().push(IdleConnection {
                sender,
                runtime,
                last_used,
            });
        }
    }
}
