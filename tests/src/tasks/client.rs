//! A client with hand-written messages, for every transport and both eras.

use std::process::Stdio;
use std::sync::Arc;

use mcp_core::era::Hints;
use mcp_core::server::{Caller, Connection, IncomingFrame};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::{CAPABILITIES, MESSAGE_TIMEOUT};
use crate::harness::{Server, binary, http_client, in_memory};

pub(super) struct Client {
    pub(super) over: Over,
    /// The declared capabilities, in the modern era.
    capabilities: Option<Value>,
    next_id: u64,
}

/// The connection to a server.
pub(super) enum Over {
    Http {
        server: Arc<Server>,
        /// Sent with every message.
        headers: Vec<(&'static str, String)>,
    },
    Stdio(Box<StdioConnection>),
    Memory {
        server: Arc<mcp_core::server::Server>,
        connection: Arc<Connection>,
        caller: Option<Arc<str>>,
    },
}

pub(super) struct StdioConnection {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Client {
    /// A client of the modern era that supports tasks.
    pub(super) fn modern(over: Over) -> Self {
        Self {
            over,
            capabilities: Some(serde_json::from_str(CAPABILITIES).unwrap()),
            next_id: 0,
        }
    }

    /// Returns the client with other capabilities.
    pub(super) fn declaring(mut self, capabilities: Value) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// A client of `revision` after its handshake.
    pub(super) async fn legacy(over: Over, revision: &str) -> Self {
        let mut client = Self {
            over,
            capabilities: None,
            next_id: 0,
        };
        let params = json!({
            "protocolVersion": revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        if let Over::Http { server, headers } = &mut client.over {
            let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            let given: Vec<_> = borrowed(headers);
            let reply = server.post_with(&given, body.to_string()).await;
            let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
            headers.push(("mcp-session-id", session));
            headers.push(("mcp-protocol-version", revision.to_owned()));
        } else {
            client.ask("initialize", params).await;
        }
        client
    }

    /// Sends a request and returns its response. Questions of the server are dropped meanwhile.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let (id, frame) = self.request(method, params);
        match &mut self.over {
            Over::Http { .. } => self.post(&frame).await,
            Over::Stdio(line) => {
                line.send(&frame).await;
                loop {
                    let message = line.message().await;
                    if message["id"] == id && message.get("method").is_none() {
                        return message;
                    }
                }
            }
            Over::Memory {
                server,
                connection,
                caller,
            } => {
                let caller = Caller::new(caller.clone(), None);
                let frame = frame.to_string();
                let incoming = IncomingFrame {
                    frame: frame.as_bytes(),
                    hints: Hints::default(),
                    connection: Some(Arc::clone(connection)),
                    caller,
                };
                let answer = server.handle(incoming).await;
                serde_json::from_slice(&answer.body.unwrap()).unwrap()
            }
        }
    }

    /// The next request, and its id.
    pub(super) fn request(&mut self, method: &str, mut params: Value) -> (u64, Value) {
        self.next_id += 1;
        if let Some(capabilities) = &self.capabilities {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
        }
        let id = self.next_id;
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, frame)
    }

    /// The server process.
    pub(super) fn server(&self) -> &Server {
        match &self.over {
            Over::Http { server, .. } => server,
            _ => panic!("not over HTTP"),
        }
    }

    /// The headers of a message.
    pub(super) fn headers(&self, frame: &Value) -> Vec<(&str, String)> {
        let Over::Http { headers, .. } = &self.over else {
            return Vec::new();
        };
        let mut headers = headers.clone();
        if self.capabilities.is_some() {
            let method = frame["method"].as_str().unwrap_or_default();
            headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
            headers.push(("mcp-method", method.to_owned()));
            let params = &frame["params"];
            let name = params["taskId"].as_str().or(params["name"].as_str());
            headers.extend(name.map(|name| ("mcp-name", name.to_owned())));
        }
        headers
    }

    async fn post(&self, frame: &Value) -> Value {
        let headers = self.headers(frame);
        let headers = borrowed(&headers);
        let reply = self.server().post_with(&headers, frame.to_string()).await;
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
    }

    /// Sends a request over HTTP whose response may be a stream.
    pub(super) async fn open_stream(&self, frame: &Value) -> reqwest::Response {
        let accept = "application/json, text/event-stream";
        let mut request = http_client()
            .post(&self.server().url)
            .header("content-type", "application/json")
            .header("accept", accept)
            .body(frame.to_string());
        for (name, value) in self.headers(frame) {
            request = request.header(name, value);
        }
        request.send().await.unwrap()
    }
}

/// Reads the stream until it contains `text`; returns everything that was read.
pub(super) async fn read_until(stream: &mut reqwest::Response, text: &str) -> String {
    let mut events = String::new();
    while !events.contains(text) {
        let chunk = stream.chunk().await.unwrap().expect("an open stream");
        events.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    events
}

/// The messages of these events.
pub(super) fn messages(events: &str) -> impl DoubleEndedIterator<Item = Value> {
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
}

impl Over {
    pub(super) async fn http() -> Self {
        Self::Http {
            server: Arc::new(Server::start("mcp-conformance", &[]).await),
            headers: Vec::new(),
        }
    }

    pub(super) fn stdio() -> Self {
        let mut child = tokio::process::Command::new(binary("mcp-conformance"))
            .arg("--stdio")
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self::Stdio(Box::new(StdioConnection {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }))
    }

    pub(super) fn memory() -> Self {
        Self::Memory {
            server: in_memory(std::iter::once("mcp-conformance")),
            connection: Arc::new(Connection::default()),
            caller: None,
        }
    }

    /// A connection of another caller to the same server; `None` has no name.
    pub(super) fn as_caller(&self, caller: Option<&str>) -> Self {
        match self {
            Self::Memory { server, .. } => Self::Memory {
                server: Arc::clone(server),
                connection: Arc::new(Connection::default()),
                caller: caller.map(Arc::from),
            },
            Self::Http { server, .. } => Self::Http {
                server: Arc::clone(server),
                headers: caller
                    .map(|token| ("authorization", format!("Bearer {token}")))
                    .into_iter()
                    .collect(),
            },
            Self::Stdio(_) => panic!("there is only one"),
        }
    }

    pub(super) fn stdio_connection(&mut self) -> &mut StdioConnection {
        match self {
            Self::Stdio(line) => line,
            _ => panic!("not over stdio"),
        }
    }
}

impl StdioConnection {
    pub(super) async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
    }

    pub(super) async fn message(&mut self) -> Value {
        let line = tokio::time::timeout(MESSAGE_TIMEOUT, self.stdout.next_line()).await;
        let line = line.expect("a message in time").unwrap();
        let line = line.expect("an open connection");
        serde_json::from_str(&line).unwrap()
    }
}

pub(super) fn borrowed<'a>(headers: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    let borrow = |(name, value): &'a (&'a str, String)| (*name, value.as_str());
    headers.iter().map(borrow).collect()
}
