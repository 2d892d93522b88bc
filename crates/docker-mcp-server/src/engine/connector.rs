//! The one way onto the engine's socket, for bollard's typed calls and for what bollard cannot do.
//!
//! bollard sends all of its requests through [`Connector::send`], as its custom transport. Beside
//! it, the same connector reads a few endpoints by itself; `engine` says which, and why.
//!
//! Each request opens a connection, so that a restarted engine is simply there again. That a
//! connection serves one request also bounds the reply: bollard reads it whole, so the limit is one
//! on the bytes of the connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bollard::{API_DEFAULT_VERSION, BollardRequest, body_full};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::failure::{Failure, Obstacle};
use super::path::Path;
use super::target::Target;

/// bollard's time limit for all requests, in seconds. Ours are shorter, per request, and cover the
/// body; bollard's only has to be out of their way.
const BOLLARD_TIMEOUT: u64 = 24 * 60 * 60;
/// The limit of a reply that goes on for as long as somebody reads it.
const UNLIMITED: u64 = u64::MAX;

/// The bytes of a reply, in pieces.
pub(crate) type ByteStream = BoxStream<'static, Result<Bytes, Failure>>;

/// Opens connections to one engine. Clones share what is known of it.
#[derive(Clone)]
pub(super) struct Connector(Arc<Shared>);

struct Shared {
    target: Target,
    host: HeaderValue,
    /// Read when it is first possible: a missing file is an error of the call, not of the start.
    tls: OnceLock<TlsConnector>,
}

impl Connector {
    pub(super) fn new(target: &Target) -> anyhow::Result<Self> {
        let host = match target {
            Target::Tcp(address) | Target::Tls(address, _) => HeaderValue::from_str(address)?,
            Target::Unix(_) | Target::Pipe(_) => HeaderValue::from_static("docker"),
        };
        Ok(Self(Arc::new(Shared {
            target: target.clone(),
            host,
            tls: OnceLock::new(),
        })))
    }

    /// bollard, whose replies have at most `limit` bytes each; `None` for streams.
    ///
    /// Its requests go out without a version in the path, which has the engine speak its newest
    /// one. That is wanted: there is no version that the engines of 2020 and of next year both
    /// accept, and what we use is in all.
    pub(super) fn bollard(
        &self,
        limit: Option<u64>,
    ) -> Result<bollard::Docker, bollard::errors::Error> {
        let (connector, limit) = (self.clone(), limit.unwrap_or(UNLIMITED));
        let transport = move |request| {
            let connector = connector.clone();
            async move {
                let sent = connector.send(request, limit).await;
                // bollard has no error of ours; `Failure` finds itself in there again.
                sent.map_err(|failure| io::Error::other(failure).into())
            }
        };
        bollard::Docker::connect_with_custom_transport(
            transport,
            Some("http://docker"),
            BOLLARD_TIMEOUT,
            API_DEFAULT_VERSION,
        )
    }

    /// The whole reply, of at most `limit` bytes, to a request with this JSON.
    pub(super) async fn fetch(
        &self,
        method: Method,
        path: Path,
        json: Bytes,
        limit: u64,
    ) -> Result<Bytes, Failure> {
        let reply = self.request(method, path, json, limit).await?;
        Ok(reply.into_body().collect().await?.to_bytes())
    }

    /// The reply to `GET path` as it comes in, without a limit.
    pub(super) fn stream(&self, path: Path) -> ByteStream {
        let connector = self.clone();
        let open = async move {
            let reply = connector
                .request(Method::GET, path, Bytes::new(), UNLIMITED)
                .await?;
            let body = reply.into_body().into_data_stream();
            Ok::<_, Failure>(body.map_err(Failure::from))
        };
        stream::once(open).try_flatten().boxed()
    }

    /// The engine's reply, if it is no refusal.
    async fn request(
        &self,
        method: Method,
        path: Path,
        json: Bytes,
        limit: u64,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = BollardRequest::new(body_full(json));
        *request.method_mut() = method;
        *request.uri_mut() = path.into_uri()?;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        let reply = self.send(request, limit).await?;
        let status = reply.status();
        if status.is_success() {
            return Ok(reply);
        }
        #[derive(Deserialize)]
        struct Refusal {
            message: String,
        }
        let body = reply.into_body().collect().await?.to_bytes();
        let message = match serde_json::from_slice(&body) {
            Ok(Refusal { message }) => message,
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        Err(Failure::answered(status.as_u16(), &message))
    }

    /// Sends a request on a connection of its own, on which at most `limit` bytes come back.
    async fn send(
        &self,
        mut request: BollardRequest,
        limit: u64,
    ) -> Result<Response<Incoming>, Failure> {
        // The path alone: the whole address is how one asks a proxy.
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        request.headers_mut().insert(HOST, self.0.host.clone());
        let connection = Connection {
            stream: self.open().await?,
            left: limit,
            limit,
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        // It ends with the reply, and whoever reads that learns of its errors.
        tokio::spawn(connection.with_upgrades());
        Ok(sender.send_request(request).await?)
    }

    async fn open(&self) -> Result<Box<dyn Duplex>, Failure> {
        match &self.0.target {
            #[cfg(unix)]
            Target::Unix(path) => Ok(Box::new(
                tokio::net::UnixStream::connect(path)
                    .await
                    .map_err(Failure::unreachable)?,
            )),
            #[cfg(windows)]
            Target::Pipe(path) => Ok(Box::new(pipe(path).await.map_err(Failure::unreachable)?)),
            Target::Tcp(address) => Ok(Box::new(tcp(address).await?)),
            Target::Tls(address, certificates) => {
                let failed = |error| Failure::Unreachable(Obstacle::Tls, error);
                let tls = match self.0.tls.get() {
                    Some(tls) => tls,
                    None => {
                        let read = certificates.connector().map_err(failed)?;
                        self.0.tls.get_or_init(|| read)
                    }
                };
                let host = address
                    .rsplit_once(':')
                    .map_or(&**address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|error| failed(error.into()))?;
                let connected = tls.connect(name, tcp(address).await?).await;
                Ok(Box::new(connected.map_err(|error| failed(error.into()))?))
            }
            #[cfg(not(unix))]
            Target::Unix(path) => Err(unsupported(path)),
            #[cfg(not(windows))]
            Target::Pipe(path) => Err(unsupported(path)),
        }
    }
}

async fn tcp(address: &str) -> Result<TcpStream, Failure> {
    TcpStream::connect(address)
        .await
        .map_err(Failure::unreachable)
}

/// A pipe has as many ends as its server has opened; when all are taken, one is opened soon.
#[cfg(windows)]
async fn pipe(path: &str) -> io::Result<tokio::net::windows::named_pipe::NamedPipeClient> {
    const ERROR_PIPE_BUSY: i32 = 231;
    const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);
    loop {
        match tokio::net::windows::named_pipe::ClientOptions::new().open(path) {
            Err(error) if error.raw_os_error() == Some(ERROR_PIPE_BUSY) => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}

fn unsupported(path: &str) -> Failure {
    let text = format!("this system has no sockets like {path}");
    Failure::Unreachable(Obstacle::Other, text.into())
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection from which at most `limit` bytes are read.
struct Connection {
    stream: Box<dyn Duplex>,
    left: u64,
    limit: u64,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let error = io::Error::other(Failure::TooLarge(self.limit));
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
