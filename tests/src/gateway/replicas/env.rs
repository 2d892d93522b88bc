//! Three gateways on one PostgreSQL, and a client that chooses the one for each request.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::EmptyDatabase;
use crate::gateway::env::{Folder, Gateway, legacy_fixture, token, tokens};
use crate::harness::{
    Dialect, Event, EventStream, Server, http_client, initialize, modern_meta, wait_until,
};

/// Three replicas with the same key, in front of one server over HTTP (`b`) and of a child each (`old`), which has no
/// revision later than 2025-11-25.
pub(super) struct ReplicaGroup {
    pub(super) gateways: [Gateway; 3],
    pub(super) database: EmptyDatabase,
    _backend: Server,
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
            "[backends.b]\nurl = {:?}\n[backends.old]\n{}\n{deny}\n[backends.child]\nFIXTURE\n{deny}\n{more}",
            backend.url,
            legacy_fixture(),
        );
        let store = database.address();
        let start = async || {
            let folder = Folder::new();
            let tokens = folder.write("tokens", &tokens(&["ada"]));
            let args = ["--events", &store, "--token-file", &tokens];
            let env = [("MCP_SESSION_KEY", "one key for all, of 32 characters")];
            Gateway::with_env(folder, &config, &args, &env).await
        };
        let (a, b, c) = tokio::join!(start(), start(), start());
        let group = Self {
            gateways: [a, b, c],
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
        // A gateway that cannot say it now says so in words.
        let text = status["result"]["content"][0]["text"].as_str();
        let status: Value = serde_json::from_str(text.unwrap_or("{}")).unwrap_or_default();
        status["other_gateways"].as_u64().unwrap_or_default()
    }

    /// Ends one of them by a signal. Returns its exit code.
    pub(super) async fn end(&mut self, at: usize, signal: Signal) -> Option<i32> {
        self.gateways[at].signal(signal);
        self.gateways[at].server.wait_for_exit().await
    }

    fn builder(&self, method: &str, at: usize, session: &str) -> reqwest::RequestBuilder {
        let method = method.parse().unwrap();
        let builder = http_client()
            .request(method, &self.gateways[at].url)
            .bearer_auth(token("ada"))
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
        EventStream::new(response).response(7).await
    }

    /// Sends a request of the modern era to the replica `at`, and returns its response.
    pub(super) async fn modern(&self, at: usize, method: &str, mut params: Value) -> Value {
        let extensions = json!({"io.modelcontextprotocol/tasks": {}});
        params["_meta"] = modern_meta(json!({"elicitation": {}, "extensions": extensions}));
        let name = params["name"].as_str().or(params["taskId"].as_str());
        let mut builder = self.builder("POST", at, "");
        for (name, value) in Dialect::Modern.headers_of(method, name.unwrap_or_default()) {
            builder = builder.header(name, value);
        }
        let body = request(method, params.clone()).to_string();
        let response = builder.body(body).send().await.unwrap();
        EventStream::new(response).response(7).await
    }

    /// Opens a session of 2025-11-25 at the replica `at`.
    pub(super) async fn session(&self, at: usize) -> String {
        let reply = self.post(at, "", &initialize("2025-11-25")).await;
        let id = reply.headers()["mcp-session-id"].to_str();
        id.unwrap().to_owned()
    }

    /// Resumes a stream of a session at the replica `at`.
    pub(super) async fn resume(&self, at: usize, session: &str, last: &Event) -> EventStream {
        let builder = self.builder("GET", at, session);
        let response = builder.header("last-event-id", &last.id).send();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        EventStream::new(response)
    }

    /// Ends a session at the replica `at`, and returns the status.
    pub(super) async fn delete(&self, at: usize, session: &str) -> u16 {
        let builder = self.builder("DELETE", at, session);
        builder.send().await.unwrap().status().as_u16()
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
