//! A proxy in front of a real engine that writes down the requests, on a free port of loopback.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

pub(super) struct Proxy {
    /// In the form of `DOCKER_HOST`.
    pub(super) host: String,
    lines: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// In front of the engine at `unix://…`. The client opens a connection per request, so the
    /// first line of each is the request.
    pub(super) async fn start(engine: &str) -> Self {
        let socket = engine.strip_prefix("unix://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("tcp://{}", listener.local_addr().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, socket.clone(), Arc::clone(&seen)));
            }
        });
        Self { host, lines, task }
    }

    /// `GET /containers/json` and so on, but for the server's own probes.
    pub(super) fn requests(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let lines = lines.iter().filter(|line| !line.ends_with(" /version"));
        lines.cloned().collect()
    }
}

async fn forward(mut client: TcpStream, socket: String, seen: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let text = String::from_utf8_lossy(&head);
    let line = text.lines().next().unwrap_or_default();
    seen.lock()
        .unwrap()
        .push(line.trim_end_matches(" HTTP/1.1").to_owned());
    let mut engine = UnixStream::connect(socket).await.unwrap();
    engine.write_all(&head).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut engine).await;
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
