//! Connections to the engine's socket, for bollard's streams and for our own requests.
//!
//! bollard sends its requests through [`Connector::send`], as its custom transport. All others use the
//! connector directly; the page of the crate says why.
//!
//! Each request opens a connection, so a restarted engine needs no reconnect. Since a connection serves
//! one request, a limit on its bytes also limits the reply.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bollard::{API_DEFAULT_VERSION, BollardRequest, body_full};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mcp_core::trace::{self, ClientSpan};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::address::{Address, Endpoint};
use crate::address_error::AddressError;
use crate::error::{ConnectProblem, EngineError};
use crate::path::Path;
use crate::ssh::{Opening, SshDialer, SshProcess};

/// bollard's timeout for all requests, in seconds. Ours are shorter, per request, and include the
/// body; bollard's only has to be longer.
const BOLLARD_TIMEOUT: u64 = 24 * 60 * 60;
/// The limit of a streamed reply.
const UNLIMITED: u64 = u64::MAX;

/// The bytes of a reply, in chunks.
pub type ByteStream = BoxStream<'static, Result<Bytes, EngineError>>;

/// Opens connections to one engine. Clones share their state.
#[derive(Clone)]
pub(super) struct Connector(Arc<Shared>);

struct Shared {
    address: Address,
    host: HeaderValue,
    /// Read at the first connection: a missing file fails the call, not the start of the server.
    tls: OnceLock<TlsConnector>,
    ssh: SshDialer,
}

impl Connector {
    pub(super) fn new(address: &Address) -> Result<Self, AddressError> {
        let host = match &address.0 {
            Endpoint::Tcp(address) | Endpoint::Tls(address, _) => {
                HeaderValue::from_str(address).map_err(AddressError::at("DOCKER_HOST"))?
            }
            Endpoint::Unix(_) | Endpoint::Pipe(_) | Endpoint::Ssh(_) => {
                HeaderValue::from_static("docker")
            }
        };
        Ok(Self(Arc::new(Shared {
            address: address.clone(),
            host,
            tls: OnceLock::new(),
            ssh: SshDialer::new(),
        })))
    }

    /// bollard, for streams.
    ///
    /// Its requests have no version in the path, so the engine uses its newest one. This is
    /// intended: no version is accepted by the engines of 2020 and by those of next year, and all
    /// versions have what we use.
    pub(super) fn bollard(&self) -> Result<bollard::Docker, bollard::errors::Error> {
        let connector = self.clone();
        let transport = move |request| {
            let connector = connector.clone();
            async move {
                let sent = connector.send(request, UNLIMITED).await;
                // bollard cannot carry our errors; `EngineError::from` unwraps it again.
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

    /// Sends a request with this content and returns the whole reply, of at most `limit` bytes.
    pub(super) async fn fetch(
        &self,
        method: Method,
        path: Path,
        content: Bytes,
        limit: u64,
    ) -> Result<Bytes, EngineError> {
        let reply = self.request(method, path, content, limit).await?;
        Ok(reply.into_body().collect().await?.to_bytes())
    }

    /// The reply to `GET path` as a stream of unlimited size.
    pub(super) fn stream(&self, path: Path) -> ByteStream {
        let connector = self.clone();
        let open = async move {
            let request = connector.request(Method::GET, path, Bytes::new(), UNLIMITED);
            let body = request.await?.into_body().into_data_stream();
            Ok::<_, EngineError>(body.map_err(EngineError::from))
        };
        stream::once(open).try_flatten().boxed()
    }

    /// The engine's reply, if its status is a success.
    async fn request(
        &self,
        method: Method,
        path: Path,
        content: Bytes,
        limit: u64,
    ) -> Result<Response<Incoming>, EngineError> {
        let mut request = BollardRequest::new(body_full(content));
        // Only archives are put.
        let content_type = match method {
            Method::PUT => "application/x-tar",
            _ => "application/json",
        };
        *request.method_mut() = method;
        *request.uri_mut() = path.into_uri()?;
        let content_type = HeaderValue::from_static(content_type);
        request.headers_mut().insert(CONTENT_TYPE, content_type);
        let reply = self.send(request, limit).await?;
        let status = reply.status();
        // A container that is to be started runs already.
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
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
        Err(EngineError::refused(status.as_u16(), &message))
    }

    /// Sends a request on a new connection, which reads at most `limit` bytes, in the trace of the call that it is
    /// for.
    async fn send(
        &self,
        mut request: BollardRequest,
        limit: u64,
    ) -> Result<Response<Incoming>, EngineError> {
        let Some(parent) = trace::current() else {
            return self.exchange(request, limit).await;
        };
        let (method, peer) = (request.method().clone(), self.0.address.peer());
        let span = ClientSpan::http(parent, method.as_str(), peer);
        for (name, value) in span.context().fields() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                request.headers_mut().insert(name, value);
            }
        }
        // Boxed, since it is large.
        let reply = Box::pin(self.exchange(request, limit)).await;
        span.end_http(reply.as_ref().ok().map(|reply| reply.status().as_u16()));
        reply
    }

    async fn exchange(
        &self,
        mut request: BollardRequest,
        limit: u64,
    ) -> Result<Response<Incoming>, EngineError> {
        // Only the path: an absolute URI is the form of a request to a proxy.
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        request.headers_mut().insert(HOST, self.0.host.clone());
        for name in ["x-registry-auth", "x-registry-config"] {
            // bollard encodes a login with the standard alphabet; engines expect that of URLs.
            if let Some(login) = request.headers_mut().get_mut(name)
                && let Ok(text) = login.to_str()
            {
                let text = text.replace('+', "-").replace('/', "_");
                *login = HeaderValue::try_from(text).map_err(EngineError::unreadable)?;
            }
        }
        let (connection, opening) = self.open(limit).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        // It ends with the reply, whose reader gets its errors.
        tokio::spawn(connection.with_upgrades());
        if let Some(opening) = opening {
            // Its answer tells a failure of ssh from one of the request.
            let mut ping = BollardRequest::new(body_full(Bytes::new()));
            *ping.uri_mut() = Uri::from_static("/_ping");
            ping.headers_mut().insert(HOST, self.0.host.clone());
            let answered = async {
                let reply = sender.send_request(ping).await?;
                reply.into_body().collect().await?;
                sender.ready().await
            };
            match answered.await {
                Ok(()) => opening.succeed(),
                Err(error) => return Err(opening.fail(error).await),
            }
        }
        Ok(sender.send_request(request).await?)
    }

    /// Opens a connection that reads at most `limit` bytes.
    async fn open(&self, limit: u64) -> Result<(Connection, Option<Opening>), EngineError> {
        let (mut ssh, mut opening) = (None, None);
        let stream: Box<dyn Duplex> = match &self.0.address.0 {
            #[cfg(unix)]
            Endpoint::Unix(path) => {
                let connected = tokio::net::UnixStream::connect(path).await;
                Box::new(connected.map_err(EngineError::unreachable)?)
            }
            #[cfg(windows)]
            Endpoint::Pipe(path) => Box::new(pipe(path).await.map_err(EngineError::unreachable)?),
            Endpoint::Ssh(address) => {
                let (stream, process, begun) = self.0.ssh.dial(address).await?;
                (ssh, opening) = (Some(process), Some(begun));
                Box::new(stream)
            }
            Endpoint::Tcp(address) => Box::new(tcp(address).await?),
            Endpoint::Tls(address, certificates) => {
                let failed = |error| EngineError::Unreachable(ConnectProblem::Tls, error);
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
                Box::new(connected.map_err(|error| failed(error.into()))?)
            }
            #[cfg(not(unix))]
            Endpoint::Unix(path) => return Err(unsupported(path)),
            #[cfg(not(windows))]
            Endpoint::Pipe(path) => return Err(unsupported(path)),
        };
        let (stream, writer) = tokio::io::split(stream);
        let reader = Limited {
            stream,
            left: limit,
            limit,
            _ssh: ssh,
        };
        Ok((tokio::io::join(reader, writer), opening))
    }
}

async fn tcp(address: &str) -> Result<TcpStream, EngineError> {
    let connected = TcpStream::connect(address).await;
    connected.map_err(EngineError::unreachable)
}

/// Opens a pipe, and retries while all of its instances are in use.
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

fn unsupported(path: &str) -> EngineError {
    let text = format!("this operating system does not support sockets like {path}");
    EngineError::Unreachable(ConnectProblem::Other, text.into())
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, and its half that reads at most `limit` bytes.
type Connection = Join<Limited, WriteHalf<Box<dyn Duplex>>>;

struct Limited {
    stream: ReadHalf<Box<dyn Duplex>>,
    left: u64,
    limit: u64,
    _ssh: Option<SshProcess>,
}

impl AsyncRead for Limited {
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
            None => return Poll::Ready(Err(io::Error::other(EngineError::TooLarge(self.limit)))),
        }
        Poll::Ready(Ok(()))
    }
}
