//! A connection between replicas that is read on its way.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A port that passes everything on to a replica, and keeps what comes in.
pub(super) struct Recorder {
    pub(super) url: String,
    target: Arc<OnceLock<String>>,
    connections: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A request of one replica to another.
#[derive(Clone, Debug)]
pub(super) struct RecordedHop {
    pub(super) head: String,
    pub(super) body: String,
}

impl Recorder {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let recorder = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            target: Arc::default(),
            connections: Arc::default(),
        };
        let (target, connections) = (
            Arc::clone(&recorder.target),
            Arc::clone(&recorder.connections),
        );
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                // Nothing comes before the target is known.
                let to = TcpStream::connect(target.get().unwrap()).await.unwrap();
                tokio::spawn(pass(from, to, Arc::clone(&connections)));
            }
        });
        recorder
    }

    /// Passes what comes on to the port of this URL.
    pub(super) fn pass_to(&self, url: &str) {
        self.target.set(authority(url)).unwrap();
    }

    /// The requests until now.
    pub(super) fn hops(&self) -> Vec<RecordedHop> {
        let connections = self.connections.lock().unwrap();
        let texts = connections
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes));
        texts.flat_map(|text| requests(&text)).collect()
    }
}

impl RecordedHop {
    /// The same with another text in place of one in its head.
    pub(super) fn with(&self, old: &str, new: &str) -> Self {
        assert!(self.head.contains(old), "{}", self.head);
        Self {
            head: self.head.replacen(old, new, 1),
            body: self.body.clone(),
        }
    }

    /// Sends it to the gateway at this URL, and returns the head of the response.
    pub(super) async fn send(&self, url: &str) -> String {
        let mut stream = TcpStream::connect(authority(url)).await.unwrap();
        let request = format!("{}\r\n\r\n{}", self.head, self.body);
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut read, mut buffer) = (String::new(), [0; 4_096]);
        while !read.contains("\r\n\r\n") {
            let count = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut buffer));
            let count = count.await.expect("a response in time").unwrap();
            assert!(count > 0, "no response: {read}");
            read.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        read
    }
}

fn authority(url: &str) -> String {
    let (_, rest) = url.split_once("://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

async fn pass(from: TcpStream, to: TcpStream, connections: Arc<Mutex<Vec<Vec<u8>>>>) {
    let at = {
        let mut connections = connections.lock().unwrap();
        connections.push(Vec::new());
        connections.len() - 1
    };
    let ((mut from_read, mut from_write), (mut to_read, mut to_write)) =
        (from.into_split(), to.into_split());
    let recording = async {
        let mut buffer = [0; 4_096];
        while let Ok(count @ 1..) = from_read.read(&mut buffer).await {
            connections.lock().unwrap()[at].extend_from_slice(&buffer[..count]);
            if to_write.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = recording => {}
        _ = tokio::io::copy(&mut to_read, &mut from_write) => {}
    }
}

/// Splits the bytes of a connection into requests, each with a length.
fn requests(mut text: &str) -> Vec<RecordedHop> {
    let mut all = Vec::new();
    while let Some((head, rest)) = text.split_once("\r\n\r\n") {
        let mut lines = head.lines().map(str::to_ascii_lowercase);
        let length = lines.find_map(|line| {
            let length = line.strip_prefix("content-length:")?;
            length.trim().parse::<usize>().ok()
        });
        let (body, rest) = rest.split_at(length.unwrap_or_default().min(rest.len()));
        let (head, body) = (head.to_owned(), body.to_owned());
        all.push(RecordedHop { head, body });
        text = rest;
    }
    all
}
