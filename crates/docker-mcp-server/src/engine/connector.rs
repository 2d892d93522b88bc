//! Connections to the engine's socket, for bollard's streams and for our own requests.
//!
//! bollard sends its requests through [`Connector::send`], as its custom transport. All others use the
//! connector directly; the head of `engine` says why.
//!
//! Each request opens a connection, so a restarted engine needs no reconnect. Since a connection serves
//! one request, a limit on its bytes also limits the reply.
//!
//! Each request names the version of the API in its path, as the docker command does: the newest that both
//! the engine and this program know. A request without a version would be answered in a form that a newer
//! engine has changed. The engine writes its version into every reply.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use bollard::{API_DEFAULT_VERSION, BollardRequest, body_full};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use mcp_core::trace::{self, ClientSpan};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, Join, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::engine::address::{Address, Endpoint};
use crate::engine::address_error::AddressError;
use crate::engine::api_version::ApiVersion;
use crate::engine::error::{ConnectProblem, EngineError};
use crate::engine::path::Path;
use crate::engine::ssh::{Opening, SshDialer, SshProcess};

/// bollard's timeout for all requests, in seconds. Ours are shorter, per request, and include the
/// body; bollard's only has to be longer.
const BOLLARD_TIMEOUT: u64 = 24 * 60 * 60;
/// The limit of a streamed reply.
const UNLIMITED: u64 = u64::MAX;

/// The body of a [`BollardRequest`].
type RequestBody = Either<Full<Bytes>, StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>>;

/// The bytes of a reply, in chunks.
pub(crate) type ByteStream = BoxStream<'static, Result<Bytes, EngineError>>;

/// Opens connections to one engine. Clones share their state.
#[derive(Clone)]
pub(super) struct Connector(Arc<Shared>);

struct Shared {
    address: Address,
    host: HeaderValue,
    /// Read at the first connection: a missing file fails the call, not the start of the server.
    tls: OnceLock<TlsConnector>,
    ssh: SshDialer,
    /// From the last reply that named one.
    version: Mutex<Option<ApiVersion>>,
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
            version: Mutex::new(None),
        })))
    }

    /// bollard, for streams.
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
        // Only archives are put.
        let content_type = HeaderValue::from_static(match method {
            Method::PUT => "application/x-tar",
            _ => "application/json",
        });
        let target = path.into_uri()?;
        let send = || {
            let mut request = BollardRequest::new(body_full(content.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = target.clone();
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, content_type.clone());
            self.send(request, limit)
        };
        let version = self.version();
        let mut reply = send().await?;
        // Another engine listens here by now, and has refused the version before anything else.
        let is_replaced = version.is_some() && self.version() != version;
        if is_replaced && reply.status() == StatusCode::BAD_REQUEST {
            reply = send().await?;
        }
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
        let (mut sender, opening) = self.connect(limit).await?;
        if let Some(opening) = opening {
            // Its answer tells a failure of ssh from one of the request.
            let answered = async {
                let reply = self.ping(&mut sender).await?;
                reply.into_body().collect().await?;
                sender.ready().await
            };
            match answered.await {
                Ok(()) => opening.succeed(),
                Err(error) => return Err(opening.fail(error).await),
            }
        } else if self.version().is_none() && ApiVersion::is_named_in(request.uri()) {
            let (mut sender, _) = self.connect(limit).await?;
            self.ping(&mut sender).await?;
        }
        *request.uri_mut() = ApiVersion::name_in(request.uri(), self.version())?;
        let reply = sender.send_request(request).await?;
        self.learn_version(&reply);
        Ok(reply)
    }

    async fn connect(
        &self,
        limit: u64,
    ) -> Result<(SendRequest<RequestBody>, Option<Opening>), EngineError> {
        let (connection, opening) = self.open(limit).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        // It ends with the reply, whose reader gets its errors.
        tokio::spawn(connection.with_upgrades());
        Ok((sender, opening))
    }

    /// Asks the engine for its version.
    async fn ping(
        &self,
        sender: &mut SendRequest<RequestBody>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut ping = BollardRequest::new(body_full(Bytes::new()));
        *ping.uri_mut() = Uri::from_static("/_ping");
        ping.headers_mut().insert(HOST, self.0.host.clone());
        let reply = sender.send_request(ping).await?;
        self.learn_version(&reply);
        Ok(reply)
    }

    fn version(&self) -> Option<ApiVersion> {
        *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the version that the engine names: another engine may listen there by now.
    fn learn_version(&self, reply: &Response<Incoming>) {
        if let Some(version) = ApiVersion::named_by(reply) {
            *self
                .0
                .version
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(version);
        }
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
