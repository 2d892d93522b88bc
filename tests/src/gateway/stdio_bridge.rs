//! An HTTP server of the legacy era with a child process for each session. What a child writes, except
//! for its responses, goes to the GET stream, as in servers with the TypeScript SDK 1.x.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use crate::harness::{Body, HttpServer, binary};

type Sessions = Arc<Mutex<HashMap<String, Arc<Session>>>>;

pub(super) struct StdioBridge {
    /// `http://127.0.0.1:PORT/mcp`.
    pub(super) url: String,
    sessions: Sessions,
    _server: HttpServer,
}

struct Session {
    to_child: mpsc::UnboundedSender<String>,
    /// Requests without a response, by id.
    waiting: Mutex<HashMap<String, oneshot::Sender<String>>>,
    /// The messages for the GET stream, until it is opened.
    messages: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    _child: Child,
}

impl StdioBridge {
    /// Starts a server whose children are the fixture with these arguments.
    pub(super) async fn start(args: &[&str]) -> Self {
        let sessions = Sessions::default();
        let args: Arc<[String]> = args.iter().map(|&arg| arg.to_owned()).collect();
        let shared = Arc::clone(&sessions);
        let server = HttpServer::start(move |request| {
            let (sessions, args) = (Arc::clone(&shared), Arc::clone(&args));
            async move { Ok(answer(&sessions, &args, request).await) }
        })
        .await;
        Self {
            url: format!("{}/mcp", server.url),
            sessions,
            _server: server,
        }
    }

    /// The number of open sessions.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.lock().unwrap().len()
    }
}

async fn answer(
    sessions: &Sessions,
    args: &[String],
    request: Request<Incoming>,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let message: Value = serde_json::from_str(&text).unwrap_or_default();
    if head.headers.contains_key("mcp-method") {
        return reply(400, "");
    }
    let id = head.headers.get("mcp-session-id");
    let id = match id {
        Some(id) => id.to_str().unwrap().to_owned(),
        None if message["method"] == "initialize" => {
            let id = uuid::Uuid::new_v4().to_string();
            let mut all = sessions.lock().unwrap();
            all.insert(id.clone(), Session::start(args));
            id
        }
        None => return reply(400, ""),
    };
    let session = match head.method {
        Method::DELETE => sessions.lock().unwrap().remove(&id),
        _ => sessions.lock().unwrap().get(&id).cloned(),
    };
    let Some(session) = session else {
        return reply(404, "");
    };
    match head.method {
        Method::GET => session.stream(),
        Method::POST => session.post(&id, &message, text).await,
        _ => reply(200, ""),
    }
}

impl Session {
    fn start(args: &[String]) -> Arc<Self> {
        let mut child = Command::new(binary("mcp-conformance"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (to_child, mut lines) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
            }
        });
        let (messages, received) = mpsc::unbounded_channel();
        let session = Arc::new(Self {
            to_child,
            waiting: Mutex::default(),
            messages: Mutex::new(Some(received)),
            _child: child,
        });
        let weak = Arc::downgrade(&session);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let Some(session) = weak.upgrade() else {
                    return;
                };
                let mut waiting = session.waiting.lock().unwrap();
                let is_response = message.get("method").is_none();
                match waiting.remove(&message["id"].to_string()) {
                    Some(response) if is_response => drop(response.send(line)),
                    _ => drop(messages.send(line)),
                }
            }
        });
        session
    }

    async fn post(&self, id: &str, message: &Value, text: String) -> Response<Body> {
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        let (response, responded) = oneshot::channel();
        if is_request {
            let mut waiting = self.waiting.lock().unwrap();
            waiting.insert(message["id"].to_string(), response);
        }
        self.to_child.send(text).unwrap();
        if !is_request {
            return reply(202, "");
        }
        let mut reply = match responded.await {
            Ok(line) => reply(200, &line),
            Err(_) => reply(404, ""),
        };
        let headers = reply.headers_mut();
        headers.insert("mcp-session-id", id.parse().unwrap());
        reply
    }

    fn stream(&self) -> Response<Body> {
        let Some(messages) = self.messages.lock().unwrap().take() else {
            return reply(409, "");
        };
        let events = stream::unfold(messages, |mut messages| async move {
            let line = messages.recv().await?;
            let event = Bytes::from(format!("data: {line}\n\n"));
            Some((Ok(Frame::data(event)), messages))
        });
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(StreamBody::new(events).boxed_unsync())
            .unwrap()
    }
}

fn reply(status: u16, body: &str) -> Response<Body> {
    HttpServer::response(status, "application/json", body.to_owned())
}
