//! An agent server that misbehaves on demand; the real one cannot be made to.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request that arrived.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Such as `POST /api/conversations`.
    pub(super) target: String,
    /// Header lines in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl Seen {
    /// The body.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// What to answer.
pub(super) enum Reply {
    /// As the real one would.
    Real,
    Json(u16, Value),
    Html(u16),
    Redirect(String),
    Large,
    /// Closes the connection without a word.
    Hangup,
    /// Never answers.
    Silence,
}

/// The fake, listening on loopback until the test ends.
pub(super) struct Fake {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// `script` gets each request and how many of the same target came before.
    pub(super) async fn start(
        script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let script = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&script)));
            }
        });
        Self { url, seen }
    }

    /// The requests whose target starts with `target`.
    pub(super) fn seen(&self, target: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .filter(|seen| seen.target.starts_with(target))
            .cloned()
            .collect()
    }

    /// The same, only their targets.
    pub(super) fn targets(&self, target: &str) -> Vec<String> {
        let seen = self.seen(target).into_iter();
        seen.map(|seen| seen.target).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Seen>>>,
    script: Arc<impl Fn(&Seen, usize) -> Reply>,
) {
    let seen = read(&mut stream).await;
    let before = {
        let mut log = log.lock().unwrap();
        log.push(seen.clone());
        log.iter()
            .filter(|other| other.target == seen.target)
            .count()
            - 1
    };
    let (status, extra, body) = match script(&seen, before) {
        // The real one has no such thing.
        Reply::Real if seen.target.contains("/api/v1/") => {
            (404, json_type(), json!({"detail": "Not Found"}).to_string())
        }
        Reply::Real => (200, json_type(), real(&seen.target).to_string()),
        Reply::Json(status, body) => (status, json_type(), body.to_string()),
        Reply::Html(status) => (status, "content-type: text/html".into(), "<html>".into()),
        Reply::Redirect(to) => (307, format!("location: {to}"), String::new()),
        Reply::Large => (200, json_type(), " ".repeat(9 * 1024 * 1024)),
        Reply::Hangup => return,
        Reply::Silence => std::future::pending().await,
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\n{extra}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // The peer may have had enough.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
}

fn json_type() -> String {
    "content-type: application/json".into()
}

async fn read(stream: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let (first, head) = head.split_once("\r\n").unwrap();
            let head = head.to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                let target = first.trim_end_matches(" HTTP/1.1").to_owned();
                let body = body.to_owned();
                return Seen { target, head, body };
            }
        }
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// What the real agent server says to somebody whose tasks go well.
fn real(target: &str) -> Value {
    let path = target.split(['?', ' ']).nth(1).unwrap();
    let last = path.rsplit('/').next().unwrap();
    match (path, last) {
        ("/health", _) => json!({"status": "ok"}),
        ("/api/settings", _) => json!({
            "agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
            "llm_api_key_is_set": true,
            "active_agent_profile_id": "9c8f4e3b-a469-4d0e-b870-c477f69e9c03",
        }),
        ("/api/file/home", _) => json!({"home": "/home/agent"}),
        ("/api/file/upload", _) => json!({"success": true, "file_size": 1}),
        (_, "execute_bash_command") => json!({"exit_code": 0, "stdout": ""}),
        ("/api/conversations/search", _) => json!({"items": [], "next_page_id": null}),
        (_, "count") => json!(0),
        (_, "search") => json!({"items": [], "next_page_id": null}),
        (_, "interrupt") => json!({"success": true}),
        (_, "agent_final_response") => json!({"response": "all good"}),
        _ => json!({"execution_status": "finished", "max_iterations": 500}),
    }
}
