//! A client with hand-written messages, for every transport and both eras.

use std::sync::Arc;

use mcp_core::server::{Caller, Connection, IncomingFrame};
use serde_json::{Value, json};

use super::CAPABILITIES;
use crate::harness::{EventStream, Server, http_client, in_memory, initialize, modern_meta};
use crate::stdio::StdioServer;

pub(super) struct Client {
    over: Over,
    /// The declared capabilities, in the modern era.
    capabilities: Option<Value>,
    next_id: u64,
    /// The stream of the last request that has one, over HTTP.
    stream: Option<EventStream>,
}

/// The connection to a server.
pub(super) enum Over {
    Http {
        server: Arc<Server>,
        /// Sent with every message.
        headers: Vec<(&'static str, String)>,
    },
    Stdio(Box<StdioServer>),
    Memory {
        server: Arc<mcp_core::server::Server>,
        connection: Arc<Connection>,
        caller: Option<Arc<str>>,
    },
}

impl Client {
    /// A client of the modern era that supports tasks.
    pub(super) fn modern(over: Over) -> Self {
        Self {
            over,
            capabilities: Some(serde_json::from_str(CAPABILITIES).unwrap()),
            next_id: 0,
            stream: None,
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
            stream: None,
        };
        if let Over::Http { server, headers } = &mut client.over {
            let session = server.session(revision, &borrowed(headers)).await;
            headers.push(("mcp-session-id", session));
            headers.push(("mcp-protocol-version", revision.to_owned()));
        } else {
            let params = initialize(revision)["params"].take();
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
                line.send(frame.to_string()).await;
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
                    headers: None,
                    is_old_transport: false,
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
            params["_meta"] = modern_meta(capabilities.clone());
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
        reply.json()
    }

    /// Sends a request whose response is a stream over HTTP.
    pub(super) async fn open(&mut self, frame: &Value) {
        if let Over::Stdio(line) = &mut self.over {
            return line.send(frame.to_string()).await;
        }
        let accept = "application/json, text/event-stream";
        let mut request = http_client()
            .post(&self.server().url)
            .header("content-type", "application/json")
            .header("accept", accept)
            .body(frame.to_string());
        for (name, value) in self.headers(frame) {
            request = request.header(name, value);
        }
        self.stream = Some(EventStream::new(request.send().await.unwrap()));
    }

    /// The next message of the server, on the stream that is open.
    pub(super) async fn next(&mut self) -> Value {
        match (&mut self.over, &mut self.stream) {
            (Over::Stdio(line), _) => line.message().await,
            (_, Some(stream)) => stream.message().await.json(),
            _ => panic!("no stream is open"),
        }
    }

    /// Answers a question of the server.
    pub(super) async fn answer(&mut self, answer: &Value) {
        if let Over::Stdio(line) = &mut self.over {
            return line.send(answer.to_string()).await;
        }
        let headers = self.headers(answer);
        let headers = borrowed(&headers);
        let reply = self.server().post_with(&headers, answer.to_string()).await;
        assert_eq!(reply.status, 202);
    }
}

impl Over {
    pub(super) async fn http() -> Self {
        Self::Http {
            server: Arc::new(Server::start("mcp-conformance", &[]).await),
            headers: Vec::new(),
        }
    }

    pub(super) fn stdio() -> Self {
        Self::Stdio(Box::new(StdioServer::start(&[])))
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
}

pub(super) fn borrowed<'a>(headers: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    let borrow = |(name, value): &'a (&'a str, String)| (*name, value.as_str());
    headers.iter().map(borrow).collect()
}
