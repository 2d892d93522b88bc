//! A fake agent server for faults that the real one cannot be made to show.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use futures_util::stream;
use mcp_core::tool::ToolError;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The output of our script for changes, without any: a snapshot, notes, a count, a list, the large files, and the size
/// and text of the diff.
const NO_CHANGES: &str = "5555555555555555555555555555555555555555\n\n0\n\n\n0\n\n";

/// A request that the fake has received.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    /// Such as `POST /api/conversations`.
    pub(super) target: String,
    /// The header lines in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl RecordedRequest {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The path without method and query.
    pub(super) fn path(&self) -> &str {
        self.target.split([' ', '?']).nth(1).unwrap_or_default()
    }
}

/// The reply of the fake to a request.
pub(super) enum Reply {
    /// The reply of the real agent server.
    Default,
    Json(u16, Value),
    Html(u16),
    Redirect(String),
    Large,
    /// Closes the connection without a response.
    Disconnect,
}

impl Reply {
    pub(super) fn not_found() -> Self {
        Self::Json(404, json!({"detail": "Not Found"}))
    }

    pub(super) fn unauthorized() -> Self {
        Self::Json(401, json!({"detail": "Unauthorized"}))
    }
}

/// A fake agent server on loopback. Runs until the test ends.
pub(super) struct FakeAgentServer {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeAgentServer {
    /// `reply` gets each request, and the number of earlier requests with the same target.
    pub(super) async fn start(
        reply: impl Fn(&RecordedRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, reply) = (Arc::clone(&requests), Arc::new(reply));
        let app = Router::new().fallback(move |request: Request| {
            let (log, reply) = (Arc::clone(&log), Arc::clone(&reply));
            async move {
                let answered = answer(request, &log, &*reply).await;
                answered.unwrap_or_else(broken)
            }
        });
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, requests }
    }

    /// Calls a tool of a server that has just started.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        super::call(&self.url, tool, arguments).await.unwrap()
    }

    /// Calls a tool and returns its error.
    pub(super) async fn refuse(&self, tool: &str, arguments: Value) -> ToolError {
        super::call(&self.url, tool, arguments).await.unwrap_err()
    }

    /// The requests whose target starts with `target`.
    pub(super) fn requests(&self, target: &str) -> Vec<RecordedRequest> {
        let mut requests = self.requests.lock().unwrap().clone();
        requests.retain(|request| request.target.starts_with(target));
        requests
    }
}

/// Answers a request; `None` closes the connection.
async fn answer(
    request: Request,
    log: &Mutex<Vec<RecordedRequest>>,
    reply: &impl Fn(&RecordedRequest, usize) -> Reply,
) -> Option<Response> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    let request = RecordedRequest {
        target: format!("{} {}", head.method, head.uri),
        head: headers.collect::<Vec<_>>().join("\n").to_ascii_lowercase(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let before = {
        let mut log = log.lock().unwrap();
        let same = log.iter().filter(|other| other.target == request.target);
        let before = same.count();
        log.push(request.clone());
        before
    };
    let reply = match reply(&request, before) {
        // The agent server has no app server API.
        Reply::Default if request.target.contains("/api/v1/") => Reply::not_found(),
        Reply::Default => Reply::Json(200, default_body(request.path())),
        reply => reply,
    };
    let json = ("content-type", "application/json".to_owned());
    let (status, header, body) = match reply {
        Reply::Json(status, body) => (status, json, body.to_string()),
        Reply::Html(status) => (
            status,
            ("content-type", "text/html".into()),
            "<html>".into(),
        ),
        Reply::Redirect(to) => (307, ("location", to), String::new()),
        Reply::Large => (200, json, " ".repeat(9 * 1024 * 1024)),
        Reply::Disconnect | Reply::Default => return None,
    };
    let response = Response::builder()
        .status(status)
        .header(header.0, header.1);
    Some(response.body(Body::from(body)).unwrap())
}

/// A response that ends before its body.
fn broken() -> Response {
    let cut = stream::once(async { Err::<String, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(cut))
}

/// The body of the real agent server's response while tasks succeed.
fn default_body(path: &str) -> Value {
    match (path, path.rsplit('/').next().unwrap()) {
        ("/health", _) => json!({"status": "ok"}),
        ("/api/settings", _) => json!({
            "agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
            "llm_api_key_is_set": true,
            "active_agent_profile_id": "9c8f4e3b-a469-4d0e-b870-c477f69e9c03",
        }),
        ("/api/file/home", _) => json!({"home": "/home/agent"}),
        ("/api/file/upload", _) => json!({"success": true, "file_size": 1}),
        (_, "execute_bash_command") => json!({"exit_code": 0, "stdout": NO_CHANGES}),
        (_, "count") => json!(0),
        (_, "search") => json!({"items": [], "next_page_id": null}),
        (_, "interrupt") => json!({"success": true}),
        (_, "agent_final_response") => json!({"response": "all good"}),
        _ => json!({"id": super::ID, "execution_status": "finished", "max_iterations": 500}),
    }
}
