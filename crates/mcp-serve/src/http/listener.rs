//! The accept loop: opens, serves and closes connections.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use axum::body::Body;
use futures_util::FutureExt as _;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{ClientConnection, Connections, Place};
use super::limits::{self, Limits};
use super::router::HttpService;
use crate::Tls;

/// Bytes of the head of one request; a larger head is answered with 431.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Interval after which accepting is retried.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Time for the first request on a connection that was accepted just before the port was closed.
const LAST_REQUEST_TIME: Duration = Duration::from_millis(300);

/// Timeout for the head of a request on a reserved connection, so that it is free again soon.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit of the bytes that a client may send after our side is closed.
const MAX_LINGER_BYTES: u64 = 64 * 1024 * 1024;

/// An open port that is not served yet.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    service: HttpService,
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
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            service,
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

    /// Serves until `stop`, then waits for requests in flight until the grace period is over. Work that still
    /// runs after the grace period is detached.
    pub async fn serve(self, stop: CancellationToken) {
        let limits = self.service.app.limits;
        limits::allow(limits.max_connections + limits.reserved_connections);
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let needs_token = self.service.app.guard.needs_token();
        let connections = Arc::new(Connections::new(&limits, needs_token, closing.clone()));
        let following = self.tls.clone().map(|tls| tokio::spawn(tls.follow()));
        let serve = |stream, place: Place| {
            let (service, tls) = (self.service.clone(), self.tls.clone());
            tasks.spawn(async move {
                let served = connection(service, tls, stream, &place.client, limits);
                if let Err(error) = served.await {
                    tracing::debug!(%error, "a connection broke");
                }
            });
        };
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.socket, &connections) => accepted,
            };
            match accepted {
                Ok((stream, place)) => serve(stream, place),
                Err(error) => {
                    // Most likely out of file descriptors: wait until some are closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
        let socket = self.socket.into_std();
        if self.service.app.is_draining() {
            // Those that wait to be accepted would be reset when the port is closed.
            let next = || {
                let (stream, peer) = socket.as_ref().ok()?.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                let place = connections.place(peer.ip()).now_or_never()?.ok()?;
                Some((TcpStream::from_std(stream).ok()?, place))
            };
            std::iter::from_fn(next).for_each(|(stream, place)| serve(stream, place));
            drop(socket);
            sleep(LAST_REQUEST_TIME).await;
        } else {
            drop(socket);
        }
        closing.cancel();
        following.inspect(tokio::task::JoinHandle::abort);
        tasks.close();
        if timeout(limits.shutdown_grace, tasks.wait()).await.is_err() {
            tracing::warn!(
                left = tasks.len(),
                "not all requests finished before the shutdown timeout"
            );
        }
    }
}

/// Accepts a connection once there is a place for it.
async fn accept(
    socket: &TcpListener,
    connections: &Arc<Connections>,
) -> io::Result<(TcpStream, Place)> {
    // The place is taken when a connection is there: a usual one may be free again by then.
    connections.available().await?;
    let (stream, peer) = socket.accept().await?;
    Ok((stream, connections.place(peer.ip()).await?))
}

/// Serves a connection until it has to end, or until its client closes it.
async fn connection(
    service: HttpService,
    tls: Option<Arc<Tls>>,
    stream: TcpStream,
    client: &Arc<ClientConnection>,
    mut limits: Limits,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Answers are small; Nagle's algorithm would delay each by 40 ms.
    let _ = stream.set_nodelay(true);
    if client.is_reserved {
        limits.head_timeout = limits.head_timeout.min(RESERVED_HEAD_TIMEOUT);
    }
    let Some(tls) = tls else {
        return serve(service, stream, client, &limits).await;
    };
    // Boxed: it is large, and connections without TLS have none.
    let handshake = Box::pin(tls.acceptor().accept(stream));
    let stream = tokio::select! {
        done = timeout(limits.head_timeout, handshake) => done??,
        () = client.ending() => return Ok(()),
    };
    Box::pin(serve(service, stream, client, &limits)).await
}

async fn serve(
    service: HttpService,
    stream: impl AsyncRead + AsyncWrite + Send,
    client: &Arc<ClientConnection>,
    limits: &Limits,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_timeout));
    let service = &service;
    let answer = service_fn(move |mut request: Request<Incoming>| async move {
        request.extensions_mut().insert(Arc::clone(client));
        let _request = client.open_request();
        Ok::<_, Infallible>(service.answer(request.map(Body::new)).await)
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .keep_alive(!client.is_reserved)
        // No `max_headers`: hyper's default of 100 fields is on the stack, any other limit is
        // allocated for each request.
        .max_buf_size(MAX_HEAD_BYTES)
        // No `pipeline_flush`: it delays a response until the next request is there, and never
        // sends the response to an invalid head.
        .serve_connection(TokioIo::new(Box::pin(stream)), answer);
    let mut ending = pin!(client.ending());
    let served = poll_fn(|cx| match ending.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => Pin::new(&mut connection).poll(cx).map(Some),
    });
    let served = match served.await {
        Some(served) => served,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            tokio::select! {
                served = &mut connection => served,
                // hyper waits for the head of a first request, and the client may not read.
                () = client.overdue() => return Err("it was idle at the limit of connections".into()),
            }
        }
    };
    let stream = connection.into_parts().io.into_inner();
    let patience = limits.linger_timeout.min(limits.head_timeout);
    linger(stream, client.is_sending(), patience).await;
    Ok(served?)
}

/// Waits, once our side is closed, until a client that is still sending has read the last response. To drop a socket
/// with unread bytes resets the connection, and the reset discards the response that gives the reason: 413, 431. So the
/// input of such a client is discarded, up to a limit.
async fn linger(mut stream: impl AsyncRead + Unpin, is_sending: bool, patience: Duration) {
    let unread = stream.read_u8().now_or_never();
    if is_sending || matches!(unread, Some(Ok(_))) {
        let mut rest = stream.take(MAX_LINGER_BYTES);
        let mut sink = tokio::io::sink();
        let discarded = tokio::io::copy(&mut rest, &mut sink);
        let _ = timeout(patience, discarded).await;
    }
}
