//! The accept loop: connections come in here and are ended here.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Place, Takeover, Workers, WriteTimeout};
use super::limits::Limits;
use super::router::Router;
use super::service::HttpService;

/// Bytes of the head of one request; more is answered with 431.
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// An open port, not yet served.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    router: Arc<Router>,
    limits: Limits,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    /// When the port is taken or the address is not this machine's.
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
        })
    }

    /// The address that it listens on, with the real port where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then waits for requests in flight until the grace period is over. Connections
    /// live on the `workers`, or in the runtime of the caller; work that is still running after the grace
    /// period is detached.
    pub async fn serve(self, workers: Option<&Workers>, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let room = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&self.socket, &room) => accepted,
            };
            match accepted {
                Ok((stream, peer, permit)) => {
                    let place = workers.map(Workers::place);
                    let runtime = place.as_ref().map_or_else(Handle::current, Place::runtime);
                    let connection = self.connection(stream, peer, stop.clone());
                    let connection = async move {
                        if let Err(error) = connection.await {
                            tracing::debug!(%error, "a connection broke");
                        }
                        drop((permit, place));
                    };
                    connections.spawn_on(connection, &runtime);
                }
                Err(error) => {
                    // Most likely out of file descriptors: a pause lets some be closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
        drop(self.socket);
        connections.close();
        if tokio::time::timeout(self.limits.drain, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                left = connections.len(),
                "not all requests finished in time"
            );
        }
    }

    fn connection(
        &self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        stop: CancellationToken,
    ) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static {
        let router = Arc::clone(&self.router);
        let limits = self.limits;
        async move {
            let stream = TcpStream::from_std(stream)?;
            // Answers are small; waiting for more to send costs 40 ms each.
            let _ = stream.set_nodelay(true);
            let (stream, writer) = WriteTimeout::new(stream, limits.write_stall);
            let service = service_fn(move |request| {
                let router = Arc::clone(&router);
                let version = request.version();
                async move { Takeover::check(router.answer(request, peer.ip()).await, version) }
            });
            let mut connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                // No `max_headers`: hyper's own limit of 100 fields lies on the stack, another one in
                // memory that every request fills anew.
                .max_buf_size(MAX_HEAD_BYTES)
                // No `pipeline_flush`: it holds a response back until the next request is there, and the
                // response to an invalid head for ever.
                .serve_connection(TokioIo::new(stream), service);
            let mut stopping = std::pin::pin!(stop.cancelled());
            let mut is_stopping = false;
            let ended = poll_fn(|cx| {
                let mut ended = Pin::new(&mut connection).poll(cx);
                if ended.is_pending() && !is_stopping && stopping.as_mut().poll(cx).is_ready() {
                    is_stopping = true;
                    Pin::new(&mut connection).graceful_shutdown();
                    ended = Pin::new(&mut connection).poll(cx);
                }
                // hyper has nothing left to do: flush all buffered responses.
                match writer.poll_send(cx) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                    _ => ended.map_err(Box::<dyn Error + Send + Sync>::from),
                }
            });
            let ended = ended.await;
            match ended
                .as_ref()
                .err()
                .and_then(|error| Takeover::from_error(&**error))
            {
                Some(events) => {
                    let stream = connection.into_parts().io.into_inner();
                    Ok(events.send(stream, writer).await?)
                }
                None => ended,
            }
        }
    }
}

/// Accepts a connection once there is room for it; it belongs to no runtime yet.
async fn accept(
    socket: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, peer) = socket.accept().await?;
    Ok((stream.into_std()?, peer, permit))
}
