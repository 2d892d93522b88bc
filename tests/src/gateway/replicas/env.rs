//! Three gateways on one PostgreSQL, and a client that chooses the one for each request.

use std::time::Duration;

use serde_json::{Value, json};

use crate::gateway::env::{Folder, Gateway, legacy_fixture, stdio_fixture};
use crate::harness::real::postgres;
use crate::harness::{Server, binary, http_client, wait_until};

pub(super) const TOKEN: &str = "token-of-ada-16-chars";

/// Three replicas with the same key, in front of one server over HTTP (`b`) and of a child each (`old`), which has no
/// revision later than 2025-11-25.
pub(super) struct ReplicaGroup {
    pub(super) gateways: Vec<Option<Gateway>>,
    urls: Vec<String>,
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
    /// Starts them; `None` without a database for tests.
    pub(super) async fn start() -> Option<Self> {
        Self::start_with(&[], 3).await
    }

    /// The same with more options, and only so many that need a token.
    pub(super) async fn start_with(options: &[&str], with_token: usize) -> Option<Self> {
        let options = options.iter().map(|option| (*option).to_owned());
        let options: Vec<_> = options.collect();
        Self::start_each(|_, _| options.clone(), with_token).await
    }

    /// The same with options for each one of them, which may name files in its folder.
    pub(super) async fn start_each(
        options: impl Fn(usize, &Folder) -> Vec<String>,
        with_token: usize,
    ) -> Option<Self> {
        Self::start_more(options, with_token, "").await
    }

    /// The same with a child that only one of them runs (`one`). Each child writes its process id into the
    /// file `children`.
    pub(super) async fn start_placed(folder: &Folder) -> Option<Self> {
        let store = postgres()?;
        Some(Self::start_placed_on([&store; 3], folder).await)
    }

    /// The same, each with its own way to the database.
    pub(super) async fn start_placed_on(stores: [&str; 3], folder: &Folder) -> Self {
        let program = binary("mcp-conformance");
        let script = format!(
            "echo $$ >> {}; exec {} --stdio",
            folder.path("children"),
            program.display()
        );
        let table = format!(
            "[backends.one]\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\nplacement = \"one\"\n"
        );
        let group = Self::start_with_stores(stores, |_, _| Vec::new(), 3, &table, &[]).await;
        for at in 0..3 {
            // The list of tools is published a moment after the state of the backend.
            wait_until("a call of the placed backend", async || {
                let echo = json!({"name": "one__test_simple_text", "arguments": {}});
                let reply = group.ask(at, "", "tools/call", echo).await;
                reply["result"].is_object()
            })
            .await;
        }
        group
    }

    /// The same with more backends.
    pub(super) async fn start_more(
        options: impl Fn(usize, &Folder) -> Vec<String>,
        with_token: usize,
        more: &str,
    ) -> Option<Self> {
        Some(Self::start_with_stores([&postgres()?; 3], options, with_token, more, &[]).await)
    }

    /// The same with more variables.
    pub(super) async fn start_with_env(env: &[(&str, &str)]) -> Option<Self> {
        Some(Self::start_with_stores([&postgres()?; 3], |_, _| Vec::new(), 3, "", env).await)
    }

    /// The same on another database.
    pub(super) async fn start_on(store: &str) -> Self {
        Self::start_with_stores([store; 3], |_, _| Vec::new(), 3, "", &[]).await
    }

    async fn start_with_stores(
        stores: [&str; 3],
        options: impl Fn(usize, &Folder) -> Vec<String>,
        with_token: usize,
        more: &str,
        more_env: &[(&str, &str)],
    ) -> Self {
        let backend = Server::start("mcp-conformance", &[]).await;
        // All have the same resources: they are those of the last one here, or of b.
        let deny = "deny = [\"test://*\"]";
        let deny_b = if more.contains("[backends.") {
            deny
        } else {
            ""
        };
        let config = format!(
            "[backends.b]\nurl = {:?}\n{deny_b}\n[backends.old]\n{}\n{deny}\n[backends.child]\n{}\n{deny}\n{more}",
            backend.url,
            legacy_fixture(),
            stdio_fixture()
        );
        // Other tests use the same database: those with another key are no replicas of these.
        let key = uuid::Uuid::new_v4().to_string();
        let start = async |at| {
            let folder = Folder::new();
            let file = folder.write("gateway.toml", &config);
            let args = ["--config", file.as_str(), "--events", stores[at]];
            let options = options(at, &folder);
            let mut options: Vec<_> = options.iter().map(String::as_str).collect();
            if !options.contains(&"--replica-address") {
                options.extend(["--replica-address", "auto"]);
            }
            let args = [&args[..], &options].concat();
            let env = [("MCP_SESSION_KEY", key.as_str()), ("MCP_TOKEN", TOKEN)];
            let env = &env[..if at < with_token { 2 } else { 1 }];
            let env = [env, more_env].concat();
            let server = Server::with_args("mcp-gateway", &args, &env).await;
            Gateway { server, folder }
        };
        let (a, b, c) = tokio::join!(start(0), start(1), start(2));
        let gateways = [a, b, c];
        let group = Self {
            urls: gateways.iter().map(|one| one.server.url.clone()).collect(),
            gateways: gateways.map(Some).into(),
            _backend: backend,
        };
        for at in 0..3 {
            wait_until("the tools of both backends", async || {
                let listed = group.post(at, "", &request("tools/list", json!({}))).await;
                let listed = listed.text().await.unwrap();
                ["b__slow", "old__slow", "child__slow"]
                    .iter()
                    .all(|name| listed.contains(name))
            })
            .await;
        }
        group
    }

    /// The URL of the replica `at`.
    pub(super) fn url(&self, at: usize) -> &str {
        &self.urls[at]
    }

    /// The log of the replica `at` so far.
    pub(super) fn log(&self, at: usize) -> String {
        self.gateways[at].as_ref().unwrap().server.log()
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

    /// Opens a session at the replica `at`.
    pub(super) async fn session(&self, at: usize) -> String {
        self.session_of(at, "2025-11-25").await
    }

    /// Opens a session of a revision at the replica `at`.
    pub(super) async fn session_of(&self, at: usize, revision: &str) -> String {
        let params = json!({
            "protocolVersion": revision,
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

    /// Returns the number of calls of `slow` that run at the backend.
    pub(super) async fn running(&self, at: usize) -> u64 {
        self.count_slow(at).await["running"].as_u64().unwrap()
    }

    /// Returns the number of calls of `slow` that have started at the backend.
    pub(super) async fn started(&self, at: usize) -> u64 {
        self.count_slow(at).await["started"].as_u64().unwrap()
    }

    async fn count_slow(&self, at: usize) -> Value {
        let params = json!({"name": "b__count_slow", "arguments": {}});
        let found = self.ask(at, "", "tools/call", params).await;
        let text = found["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap()
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

    /// The responses to a batch.
    pub(super) async fn batch(&mut self) -> Value {
        if self.response.headers()["content-type"] == "application/json" {
            return self.json().await;
        }
        loop {
            let message = self.message().await.json();
            if message.is_array() {
                return message;
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
