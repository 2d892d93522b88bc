//! A proxy between our server and the agent server that records requests and can disconnect or hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::real::OpenHands;

/// The start of a request for an event socket.
const SOCKET_REQUEST: &str = "GET /sockets/";

/// A running proxy. Ends with the test.
pub(super) struct Proxy {
    /// The agent server, through the proxy.
    pub(super) real: OpenHands,
    state: Arc<ProxyState>,
}

struct ProxyState {
    disconnected: watch::Sender<bool>,
    /// Accepts connections while disconnected, and never answers.
    hangs: AtomicBool,
    sockets: watch::Sender<SocketCounts>,
    /// Refuses requests for event sockets.
    refuses_sockets: bool,
    /// The response to a request whose first line holds this text is lost.
    loses: Mutex<Option<&'static str>>,
    /// The first lines of requests, and their times.
    requests: Mutex<Vec<(String, Instant)>>,
}

/// Counts of event sockets.
#[derive(Clone, Copy, Default)]
pub(super) struct SocketCounts {
    pub(super) open: usize,
    /// The maximum of sockets that were open at the same time.
    pub(super) max_open: usize,
    pub(super) total: usize,
}

impl Proxy {
    pub(super) async fn start(real: OpenHands) -> Self {
        Self::start_with(real, false).await
    }

    /// A proxy that refuses event sockets.
    pub(super) async fn without_sockets(real: OpenHands) -> Self {
        Self::start_with(real, true).await
    }

    async fn start_with(real: OpenHands, refuses_sockets: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = real.url.trim_start_matches("http://").to_owned();
        let state = Arc::new(ProxyState {
            disconnected: watch::Sender::new(false),
            hangs: AtomicBool::new(false),
            sockets: watch::Sender::default(),
            refuses_sockets,
            loses: Mutex::default(),
            requests: Mutex::default(),
        });
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            let mut unanswered = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                if *accepting.disconnected.borrow() {
                    if accepting.hangs.load(Ordering::Relaxed) {
                        unanswered.push(client);
                    }
                    continue;
                }
                let (target, state) = (target.clone(), Arc::clone(&accepting));
                tokio::spawn(async move {
                    let server = TcpStream::connect(target).await.unwrap();
                    let mut disconnected = state.disconnected.subscribe();
                    tokio::select! {
                        () = forward(client, server, &state) => {}
                        _ = disconnected.wait_for(|disconnected| *disconnected) => {}
                    }
                });
            }
        });
        let real = OpenHands { url, ..real };
        Self { real, state }
    }

    /// Loses the response to the next request whose first line holds this text.
    pub(super) fn lose_response(&self, request: &'static str) {
        *self.state.loses.lock().unwrap() = Some(request);
    }

    pub(super) fn disconnect(&self) {
        self.state.disconnected.send_replace(true);
    }

    /// Ends all connections; new ones get no answer.
    pub(super) fn hang(&self) {
        self.state.hangs.store(true, Ordering::Relaxed);
        self.disconnect();
    }

    pub(super) fn reconnect(&self) {
        self.state.disconnected.send_replace(false);
    }

    /// The times of the requests that start with `start`.
    pub(super) fn requests(&self, start: &str) -> Vec<Instant> {
        let requests = self.state.requests.lock().unwrap();
        let found = requests
            .iter()
            .filter(|(first, _)| first.starts_with(start));
        found.map(|(_, when)| *when).collect()
    }

    /// Waits until the counts of event sockets are as expected.
    pub(super) async fn wait_for_sockets(
        &self,
        expected: impl Fn(&SocketCounts) -> bool,
    ) -> SocketCounts {
        let mut sockets = self.state.sockets.subscribe();
        let found = sockets.wait_for(expected);
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        *found.expect("the expected event sockets").unwrap()
    }
}

/// Counts an event socket for as long as it is open.
struct OpenSocket<'a>(&'a ProxyState);

impl<'a> OpenSocket<'a> {
    fn new(state: &'a ProxyState) -> Self {
        state.sockets.send_modify(|sockets| {
            sockets.open += 1;
            sockets.total += 1;
            sockets.max_open = sockets.max_open.max(sockets.open);
        });
        Self(state)
    }
}

impl Drop for OpenSocket<'_> {
    fn drop(&mut self) {
        self.0.sockets.send_modify(|sockets| sockets.open -= 1);
    }
}

/// Forwards bytes in both directions until one side closes the connection.
async fn forward(mut client: TcpStream, mut server: TcpStream, state: &ProxyState) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut open = None;
    let is_lost = AtomicBool::new(false);
    let requests = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_client.read(&mut bytes).await.unwrap_or_default();
            // A request arrives in one piece, and the next one only after the response.
            let text = String::from_utf8_lossy(&bytes[..count]);
            let first = text.lines().next().unwrap_or_default();
            if first.ends_with("HTTP/1.1") {
                let request = (first.to_owned(), Instant::now());
                state.requests.lock().unwrap().push(request);
            }
            let lost = |text: &mut &str| first.contains(*text);
            if state.loses.lock().unwrap().take_if(lost).is_some() {
                is_lost.store(true, Ordering::Relaxed);
            }
            if first.starts_with(SOCKET_REQUEST) {
                if state.refuses_sockets {
                    return true;
                }
                open = Some(OpenSocket::new(state));
            }
            if count == 0 || to_server.write_all(&bytes[..count]).await.is_err() {
                return false;
            }
        }
    };
    let responses = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_server.read(&mut bytes).await.unwrap_or_default();
            let is_over = count == 0 || is_lost.load(Ordering::Relaxed);
            if is_over || to_client.write_all(&bytes[..count]).await.is_err() {
                return false;
            }
        }
    };
    let refused = tokio::select! {
        refused = requests => refused,
        refused = responses => refused,
    };
    if refused {
        let response = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = to_client.write_all(response).await;
    }
}
