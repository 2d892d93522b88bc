//! A proxy in front of a real engine that records the requests, on a free loopback port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::{AbortHandle, abortable};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

/// Serves each connection to a free port of loopback; its address, in the form of `DOCKER_HOST`. Ends with the handle.
pub(super) async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("tcp://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client));
        }
    });
    (host, AbortOnDropHandle::new(task))
}

pub(super) struct Proxy {
    /// In the form of `DOCKER_HOST`.
    pub(super) host: String,
    lines: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    is_down: Arc<AtomicBool>,
    /// The engine has come back.
    is_back: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

/// Whether a server sends this request without a call: probes, and requests of the event follower.
fn is_background_request(target: &str) -> bool {
    let own = [
        "/_ping",
        "/version",
        "/events?filters=",
        "/containers/json?limit=",
    ];
    own.iter().any(|own| target.contains(own))
}

/// `/info` for `/v1.41/info`.
pub(super) fn unversioned(target: &str) -> &str {
    match target
        .strip_prefix("/v1.")
        .and_then(|rest| rest.find('/').map(|at| &rest[at..]))
    {
        Some(path) => path,
        None => target,
    }
}

impl Proxy {
    /// In front of the engine at `unix://…`. The client opens a connection per request, so the
    /// first line of each is the request.
    pub(super) async fn start(engine: &str) -> Self {
        Self::silent_about(engine, "\0").await
    }

    /// As [`Proxy::start`]; requests with this path get no answer.
    pub(super) async fn silent_about(engine: &str, path: &str) -> Self {
        Self::with(engine, path, ["\0"; 2]).await
    }

    /// As [`Proxy::start`]; requests with the first path get the answer to the second one.
    pub(super) async fn redirecting(engine: &str, paths: [&str; 2]) -> Self {
        Self::with(engine, "\0", paths).await
    }

    async fn with(engine: &str, path: &str, paths: [&str; 2]) -> Self {
        let (path, paths) = (path.to_owned(), paths.map(str::to_owned));
        let socket = engine.strip_prefix("unix://").unwrap().to_owned();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (seen, open) = (Arc::clone(&lines), Arc::clone(&connections));
        let is_down = Arc::new(AtomicBool::new(false));
        let is_back = Arc::new(AtomicBool::new(false));
        let (down, back) = (Arc::clone(&is_down), Arc::clone(&is_back));
        let (host, task) = listen(move |client| {
            let odd = Odd {
                silent: path.clone(),
                redirected: paths.clone(),
                is_back: back.load(Ordering::Relaxed),
            };
            let forward = forward(client, socket.clone(), odd, Arc::clone(&seen));
            let (forward, connection) = abortable(forward);
            if down.load(Ordering::Relaxed) {
                connection.abort();
            }
            open.lock().unwrap().push(connection);
            forward.map(drop)
        })
        .await;
        Self {
            host,
            lines,
            connections,
            is_down,
            is_back,
            _task: task,
        }
    }

    /// The requests, such as `GET /containers/json`, without background requests and versions of the API.
    pub(super) fn requests(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let lines = lines.iter().filter(|line| !is_background_request(line));
        lines.cloned().collect()
    }

    /// The number of event streams that were requested so far.
    pub(super) fn streams(&self) -> usize {
        let lines = self.lines.lock().unwrap();
        let streams = lines.iter().filter(|line| line.contains("/events?"));
        streams.count()
    }

    /// Closes all connections, and from now on new ones as well.
    pub(super) fn go_down(&self) {
        self.is_down.store(true, Ordering::Relaxed);
        self.cut();
    }

    /// Accepts connections again. From now on a server behind this also takes back what broke off.
    pub(super) fn go_up(&self) {
        self.is_back.store(true, Ordering::Relaxed);
        self.is_down.store(false, Ordering::Relaxed);
    }

    /// Closes all connections, like a restarting engine. Accepts new ones.
    pub(super) fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            connection.abort();
        }
    }
}

/// The requests of a connection that are not simply passed on.
struct Odd {
    silent: String,
    redirected: [String; 2],
    is_back: bool,
}

async fn forward(mut client: TcpStream, socket: String, odd: Odd, seen: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next().unwrap_or_default();
    let (method, target) = line.trim_end_matches(" HTTP/1.1").split_once(' ').unwrap();
    let shown = format!("{method} {}", unversioned(target));
    // A server behind this takes back nothing that killed calls of other tests have left: that would be requests, too.
    if shown.starts_with("GET /containers/json?filters=") && !odd.is_back {
        let none = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]";
        let _ = client.write_all(none).await;
        return;
    }
    seen.lock().unwrap().push(shown);
    if line.contains(&odd.silent) {
        return std::future::pending().await;
    }
    let [from, to] = &odd.redirected;
    let head = text.replace(from, to).into_bytes();
    let mut engine = UnixStream::connect(socket).await.unwrap();
    engine.write_all(&head).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut engine).await;
}
