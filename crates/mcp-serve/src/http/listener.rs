//! The accept loop: opens, serves and closes connections.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{
    ClientConnection, HeadTimer, OpenConnections, ROOM_GRACE, Socket, Takeover, WorkerSlot,
    Workers, WriteTimeout,
};
use super::limits::Limits;
use super::open_files;
use super::reply::BodyNotRead;
use super::router::Router;
use super::service::HttpService;
use crate::Tls;

/// Bytes of the head of one request; a larger head is answered with 431.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Interval after which accepting is retried.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time for the first request on a connection that was accepted just before the port was closed.
const LAST_REQUEST_TIME: Duration = Duration::from_millis(300);

/// Longest wait for the end of a connection that makes room, longer than its grace period.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval at which a listener without any room looks for a connection that could make some.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for the head of a request on a reserved connection, so that it is free again soon.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// An open port that is not served yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    router: Arc<Router>,
    limits: Limits,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    /// If the port is in use or the address is not an address of this machine.
    pub async fn bind(address: SocketAddr, service: HttpService) -> anyhow::Result<Self> {
        let socket = TcpListener::bind(address)
            .await
            .with_context(|| match address.port() {
                0 => format!("cannot listen on {address}"),
                port => format!(
                    "cannot listen on {address} (is port {port} in use? --port chooses another)"
                ),
            })?;
        let HttpService(router) = service;
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            limits: *router.limits(),
            router,
            tls: None,
        })
    }

    /// Serves HTTPS instead of HTTP. A client has the timeout of a head for its handshake.
    #[must_use]
    pub fn tls(mut self, tls: Arc<Tls>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The address that it listens on, with the real port where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then waits for requests in flight until the grace period is over. Connections
    /// run on the `workers`, or in the runtime of the caller; work that still runs after the grace period
    /// is detached.
    pub async fn serve(self, workers: Option<&Workers>, stop: CancellationToken) {
        let connections = TaskTracker::new();
        open_files::allow(self.limits.max_connections + self.limits.reserved_connections);
        let permits = Permits::new(&self.limits, Arc::clone(&self.router));
        let following = self.tls.clone().map(|tls| tokio::spawn(tls.follow()));
        let closing = CancellationToken::new();
        let serve = |(stream, peer, permit): Accepted| {
            let slot = workers.map(Workers::take_slot);
            let runtime = slot
                .as_ref()
                .map_or_else(Handle::current, WorkerSlot::runtime);
            let client = Arc::new(ClientConnection::new(peer.ip()));
            let entry = (!permit.is_reserved).then(|| permits.open.add(Arc::clone(&client)));
            let client = (client, permit.is_reserved);
            let connection = connection(
                &self.router,
                self.tls.as_ref(),
                stream,
                client,
                closing.clone(),
            );
            let connection = async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection broke");
                }
                drop((entry, permit, slot));
            };
            connections.spawn_on(connection, &runtime);
        };
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.socket, &permits) => accepted,
            };
            match accepted {
                Ok(accepted) => serve(accepted),
                Err(error) => {
                    // Most likely out of file descriptors: wait until some are closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
        let socket = self.socket.into_std();
        if self.router.is_draining() {
            // Those that wait to be accepted would be reset when the port is closed.
            let next = || {
                let (stream, peer) = socket.as_ref().ok()?.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                let permit = permits.acquire().now_or_never()?.ok()?;
                Some((stream, peer, permit))
            };
            std::iter::from_fn(next).for_each(serve);
            drop(socket);
            tokio::time::sleep(LAST_REQUEST_TIME).await;
        } else {
            drop(socket);
        }
        closing.cancel();
        following.inspect(JoinHandle::abort);
        connections.close();
        if tokio::time::timeout(self.limits.shutdown_grace, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                left = connections.len(),
                "not all requests finished before the shutdown timeout"
            );
        }
    }
}

/// Serves a connection until `stop`, or until its client closes it.
fn connection(
    router: &Arc<Router>,
    tls: Option<&Arc<Tls>>,
    stream: std::net::TcpStream,
    (client, is_reserved): (Arc<ClientConnection>, bool),
    stop: CancellationToken,
) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static {
    let (router, tls) = (Arc::clone(router), tls.cloned());
    let limits = *router.limits();
    async move {
        let stream = TcpStream::from_std(stream)?;
        // Answers are small; Nagle's algorithm would delay each by 40 ms.
        let _ = stream.set_nodelay(true);
        let head_timeout = match is_reserved {
            true => limits.head_timeout.min(RESERVED_HEAD_TIMEOUT),
            false => limits.head_timeout,
        };
        let socket = match tls {
            None => Socket::Plain(stream),
            // Boxed: it is large, and connections without TLS have none.
            Some(tls) => {
                let handshake = Box::pin(tls.acceptor().accept(stream));
                tokio::select! {
                    done = tokio::time::timeout(head_timeout, handshake) => {
                        Socket::Tls(Box::new(done??))
                    }
                    () = stop.cancelled() => return Ok(()),
                    () = client.ending() => return Ok(()),
                }
            }
        };
        let (stream, writer) = WriteTimeout::new(socket, limits.write_timeout, head_timeout);
        let shared = Arc::new((router, Arc::clone(&client), writer.clone()));
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            let version = request.version();
            async move {
                let (router, connection, writer) = &*shared;
                let _request = connection.open_request();
                let response = match is_reserved {
                    true => router.answer_at_limit(request, connection).await,
                    false => router.answer(request, connection).await,
                };
                if response.extensions().get::<BodyNotRead>().is_some() {
                    writer.client_is_sending();
                }
                Takeover::check(response, version)
            }
        });
        let mut connection = http1::Builder::new()
            .timer(HeadTimer::default())
            .header_read_timeout(head_timeout)
            .keep_alive(!is_reserved)
            // No `max_headers`: hyper's default of 100 fields is on the stack, any other limit is
            // allocated for each request.
            .max_buf_size(MAX_HEAD_BYTES)
            // No `pipeline_flush`: it delays a response until the next request is there, and never
            // sends the response to an invalid head.
            .serve_connection(TokioIo::new(stream), service);
        let mut stopping = std::pin::pin!(async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = client.ending() => {}
            }
        });
        let (mut is_waiting, mut is_stopping) = (false, false);
        let mut grace = None;
        let ended = poll_fn(|cx| {
            let mut ended = Pin::new(&mut connection).poll(cx);
            let mut is_stopped = || {
                // Only this task polls, so its waker is registered once.
                match std::mem::replace(&mut is_waiting, true) {
                    true => client.is_ending() || stop.is_cancelled(),
                    false => stopping.as_mut().poll(cx).is_ready(),
                }
            };
            if ended.is_pending() && !is_stopping && is_stopped() {
                is_stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
                ended = Pin::new(&mut connection).poll(cx);
            }
            // hyper waits for the head of a first request, and the client may not read.
            if ended.is_pending() && client.is_ending() {
                let grace = grace.get_or_insert_with(|| Box::pin(tokio::time::sleep(ROOM_GRACE)));
                if grace.as_mut().poll(cx).is_ready() && client.is_idle() {
                    return Poll::Ready(Err("it was idle at the limit of connections".into()));
                }
            }
            // hyper has nothing left to do: flush all buffered responses.
            match writer.poll_send(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                _ => ended.map_err(Box::<dyn Error + Send + Sync>::from),
            }
        });
        let ended = ended.await;
        let error = ended.as_ref().err();
        match error.and_then(|error| Takeover::from_error(&**error)) {
            Some(events) => {
                let stream = connection.into_parts().io.into_inner();
                Ok(events.send(stream, writer).await?)
            }
            None => ended,
        }
    }
}

/// The permits of connections.
struct Permits {
    usual: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    open: Arc<OpenConnections>,
    router: Arc<Router>,
}

struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    is_reserved: bool,
}

impl Permits {
    fn new(limits: &Limits, router: Arc<Router>) -> Self {
        Self {
            usual: Arc::new(Semaphore::new(limits.max_connections)),
            reserved: Arc::new(Semaphore::new(limits.reserved_connections)),
            open: Arc::default(),
            router,
        }
    }

    /// Waits for a permit: a reserved one only if there is no other.
    async fn acquire(&self) -> io::Result<ConnectionPermit> {
        let (usual, reserved) = (Arc::clone(&self.usual), Arc::clone(&self.reserved));
        let (permit, is_reserved) = tokio::select! {
            biased;
            permit = usual.acquire_owned() => (permit, false),
            permit = reserved.acquire_owned() => (permit, true),
        };
        Ok(ConnectionPermit {
            _permit: permit.map_err(io::Error::other)?,
            is_reserved,
        })
    }

    /// Waits until a permit is free or an idle connection without a token could make room.
    async fn available(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                permit = self.acquire() => return permit.map(drop),
                () = tokio::time::sleep(ROOM_CHECK_INTERVAL), if self.router.needs_token() => {
                    if self.open.have_room() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Returns a permit for a connection that is there. At the limit an idle connection that had no valid token makes
    /// room, where tokens are required: otherwise anybody could lock out the clients that have one.
    async fn acquire_for_client(&self) -> io::Result<ConnectionPermit> {
        let is_full = self.usual.available_permits() == 0;
        if is_full && self.router.needs_token() && self.open.make_room() {
            let usual = Arc::clone(&self.usual).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(ROOM_TIMEOUT, usual).await {
                return Ok(ConnectionPermit {
                    _permit: permit.map_err(io::Error::other)?,
                    is_reserved: false,
                });
            }
        }
        self.acquire().await
    }
}

/// A connection, which belongs to no runtime yet.
type Accepted = (std::net::TcpStream, SocketAddr, ConnectionPermit);

/// Accepts a connection once there is a permit for it.
async fn accept(socket: &TcpListener, permits: &Permits) -> io::Result<Accepted> {
    // The kind of permit is chosen when a connection is there: a usual one may be free again by then.
    permits.available().await?;
    let (stream, peer) = socket.accept().await?;
    Ok((
        stream.into_std()?,
        peer,
        permits.acquire_for_client().await?,
    ))
}
