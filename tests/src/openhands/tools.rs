//! Tools of tests: a command that ends when the test says so, and a proxy between our server and the agent server.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use uuid::Uuid;

use crate::harness::real::OpenHands;

/// A file that the command waits for. The agent server is on this machine.
pub(super) struct Gate(PathBuf);

impl Gate {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("gate-{}", Uuid::new_v4())))
    }

    /// A shell command that ends once the gate is open.
    pub(super) fn pass(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.1; done", self.0.display())
    }

    pub(super) fn open(&self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

impl Drop for Gate {
    /// Opens the gate, so that no task runs long after its test.
    fn drop(&mut self) {
        self.open();
        let path = self.0.clone();
        // The command checks ten times a second, so it has ended by then, also on a machine that stalls.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(120));
            let _ = std::fs::remove_file(path);
        });
    }
}

/// A running proxy. Ends with the test.
pub(super) struct Proxy {
    /// The agent server, through the proxy.
    pub(super) real: OpenHands,
    state: Arc<ProxyState>,
}

struct ProxyState {
    disconnected: watch::Sender<bool>,
    /// Keeps connections and accepts new ones while disconnected, and never answers.
    hangs: AtomicBool,
    /// The response to a request whose first line holds this text is lost.
    loses: Mutex<Option<&'static str>>,
    /// The first lines of requests.
    requests: Mutex<Vec<String>>,
}

impl Proxy {
    pub(super) async fn start(real: OpenHands) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = real.url.trim_start_matches("http://").to_owned();
        let state = Arc::new(ProxyState {
            disconnected: watch::Sender::new(false),
            hangs: AtomicBool::new(false),
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
                    let mut server = TcpStream::connect(target).await.unwrap();
                    let (mut client, mut disconnected) = (client, state.disconnected.subscribe());
                    tokio::select! {
                        () = forward(&mut client, &mut server, &state) => {}
                        _ = disconnected.wait_for(|disconnected| *disconnected) => {}
                    }
                    if state.hangs.load(Ordering::Relaxed) {
                        std::future::pending().await
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

    /// Nothing gets an answer, on old connections and new ones.
    pub(super) fn hang(&self) {
        self.state.hangs.store(true, Ordering::Relaxed);
        self.disconnect();
    }

    pub(super) fn reconnect(&self) {
        self.state.disconnected.send_replace(false);
    }

    /// The number of requests that start with `start`.
    pub(super) fn count(&self, start: &str) -> usize {
        let requests = self.state.requests.lock().unwrap();
        let found = requests.iter().filter(|first| first.starts_with(start));
        found.count()
    }
}

/// Forwards bytes in both directions until one side closes the connection.
async fn forward(client: &mut TcpStream, server: &mut TcpStream, state: &ProxyState) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let is_lost = AtomicBool::new(false);
    let requests = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_client.read(&mut bytes).await.unwrap_or_default();
            // A request arrives in one piece, and the next one only after the response.
            let text = String::from_utf8_lossy(&bytes[..count]);
            let first = text.lines().next().unwrap_or_default();
            if first.ends_with("HTTP/1.1") {
                state.requests.lock().unwrap().push(first.to_owned());
            }
            let lost = |text: &mut &str| first.contains(*text);
            if state.loses.lock().unwrap().take_if(lost).is_some() {
                is_lost.store(true, Ordering::Relaxed);
            }
            if count == 0 || to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    let responses = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_server.read(&mut bytes).await.unwrap_or_default();
            let is_over = count == 0 || is_lost.load(Ordering::Relaxed);
            if is_over || to_client.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = responses => {}
    }
}
