//! Three gateways on one PostgreSQL, and a client that chooses the one for each request.

use std::time::Duration;

use serde_json::{Value, json};

use super::empty_database::EmptyDatabase;
use crate::gateway::env::{Folder, Gateway, legacy_fixture, stdio_fixture};
use crate::harness::{Server, http_client, wait_until};

pub(super) const TOKEN: &str = "token-of-ada-16-chars";

/// Three replicas with the same key, in front of one server over HTTP (`b`) and of a child each (`old`), which has no
/// revision later than 2025-11-25.
pub(super) struct ReplicaGroup {
    pub(super) gateways: Vec<Option<Gateway>>,
    pub(super) urls: Vec<String>,
    pub(super) database: EmptyDatabase,
    _backend: Server,
}

/// A response, read as it comes.
pub(super) struct Stream {
    response: reqwest::Response,
    text: String,
}

/// An event of a stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) data: String,
}

impl Event {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl ReplicaGroup {
    /// Starts them at the same moment; `None` without a database for tests.
    pub(super) async fn start() -> Option<Self> {
        Self::start_with("").await
    }

    /// The same with more tables in their file.
    pub(super) async fn start_with(more: &str) -> Option<Self> {
        let database = EmptyDatabase::create()?;
        let backend = Server::start("mcp-conformance", &[]).await;
        // Else no resource is offered, since several backends have it.
        let deny = "deny = [\"test://*\", \"codefluss://*\"]";
        let config = format!(
            "[backends.b]\nurl = {:?}\n[backends.old]\n{}\n{deny}\n[backends.child]\n{}\n{deny}\n{more}",
            backend.url,
            legacy_fixture(),
            stdio_fixture()
        );
        let store = database.address();
        let start = async || {
            let folder = Folder::new();
            let file = folder.write("gateway.toml", &config);
            let tokens = folder.write("tokens", &format!("ada {TOKEN}\n"));
            let args = [
                "--config",
                &file,
                "--events",
                &store,
                "--token-file",
                &tokens,
            ];
            let env = [("MCP_SESSION_KEY", "one key for all, of 32 characters")];
            let server = Server::with_args("mcp-gateway", &args, &env).await;
            Gateway { server, folder }
        };
        let (a, b, c) = tokio::join!(start(), start(), start());
        let gateways = [a, b, c];
        let group = Self {
            urls: gateways.iter().map(|one| one.server.url.clone()).collect(),
            gateways: gateways.map(Some).into(),
            database,
            _backend: backend,
        };
        for at in 0..3 {
            wait_until("the tools of all backends, and the others", async || {
                let listed = group.ask(at, "", "tools/list", json!({})).await.to_string();
                let tools = ["b__slow", "old__slow", "child__slow"];
                let has_tools = tools.iter().all(|name| listed.contains(name));
                has_tools && group.others(at).await == 2
            })
            .await;
        }
        Some(group)
    }

    /// The number of other gateways that `at` sees.
    pub(super) async fn others(&self, at: usize) -> u64 {
        let status = json!({"name": "gateway_status", "arguments": {}});
        let status = self.ask(at, "", "tools/call", status).await;
        let text = status["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or("{}");
        let status: Value = serde_json::from_str(text).unwrap_or_default();
        status["other_gateways"].as_u64().unwrap_or_default()
    }

    /// The log of the replica `at` so far.
    pub(super) fn log(&self, at: usize) -> String {
        self.gateways[at].as_ref().unwrap().server.log()
    }

    /// Ends one of them by a signal, and waits for that.
    pub(super) async fn stop(&mut self, at: usize) {
        let mut gateway = self.gateways[at].take().unwrap();
        let mut sending = std::process::Command::new("kill");
        let sent = sending
            .args(["-TERM", &gateway.server.pid().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert_eq!(gateway.server.wait_for_exit().await, Some(0));
    }

    /// Kills one of them.
    pub(super) async fn kill(&mut self, at: usize) {
        self.gateways[at].take().unwrap().server.kill().await;
    }

    fn builder(&self, method: &str, at: usize, session: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        let builder = http_client()
            .request(method, &self.urls[at])
            .bearer_auth(TOKEN)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        match session {
            "" => builder,
            session => builder.header("mcp-session-id", session),
        }
    }

    /// Sends a message of a session to the replica `at`.
    pub(super) async fn post(
        &self,
        at: usize,
        session: &str,
        message: &Value,
    ) -> reqwest::Response {
        let builder = self.builder("POST", at, session);
        builder.body(message.to_string()).send().await.unwrap()
    }

    /// Sends a request of a session to the replica `at`, and returns its response.
    pub(super) async fn ask(&self, at: usize, session: &str, method: &str, params: Value) -> Value {
        let response = self.post(at, session, &request(method, params)).await;
        let mut stream = Stream::new(response);
        stream.response(7).await
    }

    /// Sends a request of the modern era to the replica `at`, and returns its response.
    pub(super) async fn modern(&self, at: usize, method: &str, mut params: Value) -> Value {
        let extensions = json!({"io.modelcontextprotocol/tasks": {}});
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {}, "extensions": extensions});
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let builder = self
            .builder("POST", at, "")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name.unwrap_or_default());
        let body = request(method, params.clone()).to_string();
        let response = builder.body(body).send().await.unwrap();
        Stream::new(response).response(7).await
    }

    /// Opens a session of 2025-11-25 at the replica `at`.
    pub(super) async fn session(&self, at: usize) -> String {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        let reply = self.post(at, "", &request("initialize", params)).await;
        reply.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned()
    }

    /// Opens or resumes a stream of a session at the replica `at`.
    pub(super) async fn get(&self, at: usize, session: &str, last: Option<&Event>) -> Stream {
        let builder = self.builder("GET", at, session);
        let builder = match last {
            Some(last) => builder.header("last-event-id", &last.id),
            None => builder,
        };
        let response = builder.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Stream::new(response)
    }

    /// Ends a session at the replica `at`, and returns the status.
    pub(super) async fn delete(&self, at: usize, session: &str) -> u16 {
        let builder = self.builder("DELETE", at, session);
        builder.send().await.unwrap().status().as_u16()
    }
}

impl Stream {
    pub(super) fn new(response: reqwest::Response) -> Self {
        let text = String::new();
        Self { response, text }
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Event> {
        let next = async {
            loop {
                if let Some((event, rest)) = self.text.split_once("\n\n") {
                    let field = |name: &str| {
                        let mut lines = event.lines();
                        let value = lines.find_map(|line| line.strip_prefix(name));
                        value.unwrap_or_default().trim().to_owned()
                    };
                    let (id, data) = (field("id:"), field("data:"));
                    self.text = rest.to_owned();
                    return Some(Event { id, data });
                }
                let chunk = self.response.chunk().await.ok()??;
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        };
        let next = tokio::time::timeout(Duration::from_secs(30), next);
        next.await.expect("an event in time")
    }

    /// The next message.
    pub(super) async fn message(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("a message");
            if !event.data.is_empty() {
                return event;
            }
        }
    }

    async fn json(&mut self) -> Value {
        let mut text = String::new();
        while let Some(chunk) = self.response.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        serde_json::from_str(&text).unwrap()
    }

    /// The response to the request `id`, on this stream or as JSON.
    pub(super) async fn response(&mut self, id: u64) -> Value {
        if self.response.headers()["content-type"] == "application/json" {
            return self.json().await;
        }
        loop {
            let message = self.message().await.json();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}

/// A request with the id 7.
pub(super) fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// A call of a tool with the id 7.
pub(super) fn call(tool: &str, arguments: Value) -> Value {
    request("tools/call", json!({"name": tool, "arguments": arguments}))
}
