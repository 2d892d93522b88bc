//! Connections that are kept for the next request.
//!
//! The client of hyper-util has a pool of its own. It takes every URL apart and puts it together
//! again, and has a task for every answer that waits until its connection is free: a twelfth of all
//! that a relayed call costs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::runtime::{self, Handle};
use tower_service::Service as _;

/// How long a connection is kept. Node and uvicorn close theirs after 5 s, and a request that meets
/// that moment is lost with its outcome unknown: we have to be earlier.
const IDLE: Duration = Duration::from_secs(4);

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one server.
pub(super) struct Pool {
    connector: HttpsConnector<HttpConnector>,
    /// The server: scheme and authority matter.
    server: Uri,
    idle: Arc<Idle>,
}

/// Those that may be free; the newest last.
#[derive(Default)]
struct Idle(Mutex<Vec<Kept>>);

struct Kept {
    sender: Sender,
    /// Where it was opened: there it works, and a request from elsewhere would have to wake that
    /// and be woken by it.
    runtime: runtime::Id,
    /// When it was used last.
    since: Instant,
}

/// Why there is no response.
pub(super) enum Failure {
    /// Nothing of the request was sent.
    NotSent(Box<dyn std::error::Error + Send + Sync>),
    /// What became of the request is not known.
    Broken(hyper::Error),
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, server: Uri) -> Self {
        Self {
            connector,
            server,
            idle: Arc::default(),
        }
    }

    /// Sends a request, whose URI is a path.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Failure> {
        let here = Handle::current().id();
        loop {
            let kept = self.idle.take(here);
            let is_new = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                // Seldom, and large: not in every request's future.
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
                // It was closed while nobody used it.
                Some(unsent) if !is_new => request = unsent,
                Some(_) => return Err(Failure::NotSent(failed.into_error().into())),
                None => return Err(Failure::Broken(failed.into_error())),
            }
        }
    }

    async fn open(&self) -> Result<Sender, Failure> {
        let stream = self.connector.clone().call(self.server.clone()).await;
        let stream = stream.map_err(Failure::NotSent)?;
        let (sender, connection) = http1::Builder::new()
            // Requests are small: one piece costs the kernel less than two.
            .writev(false)
            .handshake(stream)
            .await
            .map_err(|error| Failure::NotSent(error.into()))?;
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
                tokio::time::sleep(IDLE).await;
                let Some(idle) = idle.upgrade() else { return };
                idle.lock().retain(Kept::is_of_use);
            }
        });
        Ok(sender)
    }
}

impl Idle {
    fn take(&self, here: runtime::Id) -> Option<Sender> {
        let mut idle = self.lock();
        let is_free =
            |kept: &Kept| kept.runtime == here && kept.sender.is_ready() && kept.is_of_use();
        let at = idle.iter().rposition(is_free)?;
        Some(idle.remove(at).sender)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        // Nothing that panics runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_of_use(&self) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < IDLE
    }
}

/// The body of a response. When it is dropped its connection is kept: that of one which was not read
/// to its end never becomes free again, and closes.
pub(super) struct Body {
    body: Incoming,
    lease: Option<(Arc<Idle>, runtime::Id, Sender)>,
}

impl Body {
    /// The next part; `None` at the end.
    pub(super) async fn frame(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        self.body.frame().await
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.body.is_end_stream()
    }

    /// The bytes that are still to come, at least.
    pub(super) fn announced(&self) -> u64 {
        self.body.size_hint().lower()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some((idle, runtime, sender)) = self.lease.take() {
            let since = Instant::now();
            idle.lock().push(Kept {
                sender,
                runtime,
                since,
            });
        }
    }
}
