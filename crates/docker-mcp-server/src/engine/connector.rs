//! Connections to the engine's socket, for bollard's streams and for our own requests.
//!
//! bollard sends its requests through [`Connector::send`], as its custom transport. All others use the
//! connector directly; the head of `engine` says why.
//!
//! Each request opens a connection, so a restarted engine needs no reconnect. An engine behind ssh is reached as the docker CLI does it:
//! `docker system dial-stdio` on the other machine joins its standard input and output with the engine's socket.
//!
//! Each request names the version of the API in its path, as the docker command does: the newest that both
//! the engine and this program know. A request without a version would be answered in a form that a newer
//! engine has changed. The engine writes its version into every reply.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, body_full};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use mcp_core::trace::{self, ClientSpan};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Join, ReadBuf, join};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;
use upstream::redact::redacted;

use crate::engine::address::{self, Address, Certificates, SshAddress};
use crate::engine::command::command;
use crate::engine::error::{ConnectProblem, EngineError};
use crate::engine::name::Path;

/// bollard's timeout for all requests, in seconds. Ours are shorter, per request, and include the
/// body; bollard's only has to be longer.
const BOLLARD_TIMEOUT: u64 = 24 * 60 * 60;
const MAX_REFUSAL_BYTES: u64 = 1 << 20;
const MAX_LINE_BYTES: u64 = 1 << 20;

/// The body of a [`BollardRequest`].
type RequestBody = Either<Full<Bytes>, StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>>;
/// The most connections with ssh that are being opened: by default sshd drops some from the tenth on
/// (`MaxStartups`).
const MAX_CONNECTING: usize = 6;
/// Bytes of what ssh wrote about a failure, and the timeout for reading them once the connection is lost.
const MAX_STDERR_BYTES: u64 = 2_000;
const STDERR_TIMEOUT: Duration = Duration::from_secs(2);

/// Times that a request is sent again because the engine was replaced: late replies of the one before may have brought
/// its version back meanwhile.
const MAX_REPLACED: usize = 3;

/// The header with the newest version that an engine knows. Docker and Podman write it into every reply.
const HEADER: &str = "api-version";

/// The version that the engine names in a reply.
fn told_version(reply: &Response<Incoming>) -> Option<ApiVersion> {
    api_version(reply.headers().get(HEADER)?.to_str().ok()?)
}

pub(crate) type ByteStream = BoxStream<'static, Result<Bytes, EngineError>>;

/// The lines of a stream, mostly a JSON object each.
pub(crate) struct Lines {
    reply: ByteStream,
    /// Bytes of an incomplete line.
    rest: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(reply: ByteStream) -> Self {
        let rest = Vec::new();
        Self { reply, rest }
    }

    /// The next line; `None` after the last one that is complete.
    /// Errors when the stream breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, EngineError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.rest.drain(..=end).collect()));
            }
            if self.rest.len() as u64 > MAX_LINE_BYTES {
                return Err(EngineError::TooLarge(MAX_LINE_BYTES));
            }
            match self.reply.next().await {
                Some(chunk) => self.rest.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    }
}

/// Opens connections to one engine. Clones share their state.
#[derive(Clone)]
pub(super) struct Connector(Arc<Shared>);

struct Shared {
    address: Address,
    host: HeaderValue,
    /// Read at the first connection: a missing file fails the call, not the start of the server.
    tls: OnceLock<TlsConnector>,
    /// Turns to open a connection with ssh.
    ssh: Arc<Semaphore>,
    /// From the last reply that named one.
    version: Mutex<Option<ApiVersion>>,
}

impl Connector {
    pub(super) fn new(address: &Address) -> anyhow::Result<Self> {
        let host = match address {
            Address::Tcp(address) | Address::Tls(address, _) => {
                HeaderValue::from_str(address).map_err(address::at("DOCKER_HOST"))?
            }
            Address::Unix(_) | Address::Pipe(_) | Address::Ssh(_) => {
                HeaderValue::from_static("docker")
            }
        };
        Ok(Self(Arc::new(Shared {
            address: address.clone(),
            host,
            tls: OnceLock::new(),
            ssh: Arc::new(Semaphore::new(MAX_CONNECTING)),
            version: Mutex::new(None),
        })))
    }

    /// bollard, for streams.
    pub(super) fn bollard(&self) -> Result<bollard::Docker, bollard::errors::Error> {
        let connector = self.clone();
        let transport = move |request| {
            let connector = connector.clone();
            async move {
                let sent = connector.send(request).await;
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
        let reply = self.request(method, path, content).await?;
        collect(reply, limit).await
    }

    /// The reply to `GET path` as a stream of unlimited size.
    pub(super) fn stream(&self, path: Path) -> ByteStream {
        let connector = self.clone();
        let open = async move {
            let request = connector.request(Method::GET, path, Bytes::new());
            let body = request.await?.into_body().into_data_stream();
            Ok::<_, EngineError>(body.map_err(EngineError::from))
        };
        stream::once(open).try_flatten().boxed()
    }

    /// The headers of the reply to `HEAD path`.
    pub(super) async fn head(&self, path: Path) -> Result<HeaderMap, EngineError> {
        let reply = self.request(Method::HEAD, path, Bytes::new()).await?;
        Ok(reply.into_parts().0.headers)
    }

    /// The engine's reply, if its status is a success.
    async fn request(
        &self,
        method: Method,
        path: Path,
        content: Bytes,
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
            self.send(request)
        };
        let mut reply = send().await?;
        for _ in 0..MAX_REPLACED {
            // Another engine listens here by now, and has refused the version before anything else.
            let sent = reply.extensions().get::<ApiVersion>().copied();
            let told = told_version(&reply);
            let is_replaced = sent.is_some() && told.is_some() && told != sent;
            if !is_replaced || reply.status() != StatusCode::BAD_REQUEST {
                break;
            }
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
        let body = collect(reply, MAX_REFUSAL_BYTES).await?;
        let message = match serde_json::from_slice(&body) {
            Ok(Refusal { message }) => message,
            Err(_) => String::from_utf8_lossy(&body).into_owned(),
        };
        Err(EngineError::refused(status.as_u16(), &message))
    }

    /// Sends a request on a new connection, in the trace of the call that it is for.
    async fn send(&self, mut request: BollardRequest) -> Result<Response<Incoming>, EngineError> {
        let Some(parent) = trace::current() else {
            return self.exchange(request).await;
        };
        let (method, peer) = (request.method().clone(), self.0.address.peer());
        let span = ClientSpan::http(parent, method.as_str(), peer);
        for (name, value) in span.context().fields() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                request.headers_mut().insert(name, value);
            }
        }
        // Boxed, since it is large.
        let reply = Box::pin(self.exchange(request)).await;
        span.end_http(reply.as_ref().ok().map(|reply| reply.status().as_u16()));
        reply
    }

    async fn exchange(
        &self,
        mut request: BollardRequest,
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
        let (mut sender, opening) = self.connect().await?;
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
        } else if self.version().is_none() && is_versioned(request.uri()) {
            let (mut sender, _) = self.connect().await?;
            self.ping(&mut sender).await?;
        }
        let version = self.version();
        *request.uri_mut() = with_version(request.uri(), version)?;
        let mut reply = sender.send_request(request).await?;
        self.learn_version(&reply);
        // Replies of other requests may change the known version at any time: the reply has the one that was sent.
        if let Some(version) = version {
            reply.extensions_mut().insert(version);
        }
        Ok(reply)
    }

    async fn connect(&self) -> Result<(SendRequest<RequestBody>, Option<Opening>), EngineError> {
        let (connection, opening) = self.open().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        // It ends with the reply, whose reader gets its errors.
        tokio::spawn(connection.with_upgrades());
        Ok((sender, opening))
    }

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
        *self.0.version.lock()
    }

    /// Remembers the version that the engine names: another engine may listen there by now.
    fn learn_version(&self, reply: &Response<Incoming>) {
        if let Some(version) = told_version(reply) {
            *self.0.version.lock() = Some(version);
        }
    }

    async fn open(&self) -> Result<(Box<dyn Duplex>, Option<Opening>), EngineError> {
        let mut opening = None;
        let stream: Box<dyn Duplex> = match &self.0.address {
            #[cfg(unix)]
            Address::Unix(path) => {
                let connected = tokio::net::UnixStream::connect(path).await;
                Box::new(connected.map_err(EngineError::unreachable)?)
            }
            #[cfg(windows)]
            Address::Pipe(path) => Box::new(pipe(path).await.map_err(EngineError::unreachable)?),
            Address::Ssh(address) => {
                let (stream, begun) = dial_ssh(Arc::clone(&self.0.ssh), address).await?;
                opening = Some(begun);
                Box::new(stream)
            }
            Address::Tcp(address) => Box::new(tcp(address).await?),
            Address::Tls(address, certificates) => {
                let failed = |error| EngineError::Unreachable(ConnectProblem::Tls, error);
                let tls = match self.0.tls.get() {
                    Some(tls) => tls,
                    None => {
                        let read = tls_connector(certificates).map_err(failed)?;
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
            Address::Unix(path) => return Err(unsupported(path)),
            #[cfg(not(windows))]
            Address::Pipe(path) => return Err(unsupported(path)),
        };
        Ok((stream, opening))
    }
}

/// The bytes of a reply.
/// Errors when it has more than `limit` bytes.
async fn collect(reply: Response<Incoming>, limit: u64) -> Result<Bytes, EngineError> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = Limited::new(reply.into_body(), most).collect().await;
    match body.map_err(|error| error.downcast::<hyper::Error>()) {
        Ok(body) => Ok(body.to_bytes()),
        Err(Ok(error)) => Err((*error).into()),
        Err(Err(error)) if error.is::<LengthLimitError>() => Err(EngineError::TooLarge(limit)),
        Err(Err(error)) => Err(EngineError::unreadable(error)),
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

/// The standard output of ssh, which ends when this is dropped.
struct SshOutput {
    stdout: ChildStdout,
    _ssh: Child,
}

impl AsyncRead for SshOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(cx, buffer)
    }
}

/// Reads the files. Trusts the system's certificate authorities and that of `ca.pem`.
/// Errors when a file is missing or invalid.
fn tls_connector(files: &Certificates) -> Result<TlsConnector, Box<dyn Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for certificate in CertificateDer::pem_file_iter(files.file("ca.pem"))? {
        roots.add(certificate?)?;
    }
    let chain =
        CertificateDer::pem_file_iter(files.file("cert.pem"))?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(files.file("key.pem"))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Starts ssh. The stream is a connection only once the engine has answered, after which the caller ends the
/// [`Opening`].
async fn dial_ssh(
    turns: Arc<Semaphore>,
    address: &SshAddress,
) -> Result<(Join<SshOutput, ChildStdin>, Opening), EngineError> {
    let turn = turns.acquire_owned().await;
    let turn = turn.map_err(EngineError::unreadable)?;
    let failed = |error: io::Error| {
        let text = format!("the program ssh cannot be run: {error}");
        EngineError::Unreachable(ConnectProblem::Other, text.into())
    };
    let mut ssh = command("ssh");
    ssh.args(&address.arguments);
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = ssh.stderr(Stdio::piped()).spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let opening = Opening {
        stderr,
        _turn: turn,
    };
    let output = SshOutput {
        stdout,
        _ssh: child,
    };
    Ok((join(output, stdin), opening))
}

/// A connection that is being opened.
struct Opening {
    stderr: ChildStderr,
    _turn: OwnedSemaphorePermit,
}

impl Opening {
    /// The engine has answered.
    fn succeed(mut self) {
        // ssh must not block on a full pipe.
        tokio::spawn(
            async move { tokio::io::copy(&mut self.stderr, &mut tokio::io::sink()).await },
        );
    }

    /// The connection was lost before an answer: the error, with what ssh wrote.
    async fn fail(self, error: hyper::Error) -> EngineError {
        let mut text = Vec::new();
        let mut stderr = self.stderr.take(MAX_STDERR_BYTES);
        // A process in the background (ControlPersist) may keep the pipe open.
        let _ = tokio::time::timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut text)).await;
        let text = String::from_utf8_lossy(&text);
        let text = redacted(text.trim()).replace(['\r', '\n'], " ");
        let source = match text.is_empty() {
            true => error.into(),
            false => text.into(),
        };
        EngineError::Unreachable(ConnectProblem::Ssh, source)
    }
}

/// The requests that ask for the version. They have none.
const UNVERSIONED: [&str; 2] = ["/_ping", "/version"];

/// `1.41`, as two numbers.
type ApiVersion = (usize, usize);

/// The newest version that an engine of the tests has.
const NEWEST: ApiVersion = (1, 51);

pub(crate) fn api_version(text: &str) -> Option<ApiVersion> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a request for this has a version.
fn is_versioned(target: &Uri) -> bool {
    !UNVERSIONED.contains(&target.path())
}

/// The path and the query of `target`, with the version to use with an engine of version `engine`. A service
/// that names no version gets none.
fn with_version(target: &Uri, engine: Option<ApiVersion>) -> Result<Uri, EngineError> {
    // Only the path: an absolute URI is the form of a request to a proxy.
    let target = target.path_and_query().cloned();
    let target = target.map(Uri::from).unwrap_or_default();
    match engine {
        Some(engine) if is_versioned(&target) => {
            let (major, minor) = engine.min(NEWEST);
            let path = format!("/v{major}.{minor}{target}");
            path.parse().map_err(EngineError::unreadable)
        }
        _ => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_names_the_newest_version_that_both_know() {
        for (engine, target, expected) in [
            ("1.41", "/info", "/v1.41/info"),
            (
                "1.5",
                "/containers/json?all=1",
                "/v1.5/containers/json?all=1",
            ),
            (
                "1.54",
                "http://docker/images/a%2Fb/json",
                "/v1.51/images/a%2Fb/json",
            ),
            ("2.0", "/info", "/v1.51/info"),
            ("1.41", "/version", "/version"),
            ("1.41", "/_ping", "/_ping"),
            ("", "/info", "/info"),
            ("1.x", "/info", "/info"),
        ] {
            let named = with_version(&target.parse().unwrap(), api_version(engine));
            assert_eq!(named.unwrap().to_string(), expected);
        }
    }
}
