//! A gateway with the backends of a test.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler};
use serde_json::{Value, json};

use crate::harness::{Server, binary, eventually, member_texts, wait_until};

/// Longer than any call of a test takes on a busy machine.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A temporary folder.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let name = format!("mcp-gateway-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Runs a command of `mcp-gateway` on the file in this folder and on a store. Returns its exit code and its
    /// output.
    pub(super) async fn command(&self, store: &str, args: &[&str]) -> (i32, String) {
        let run = tokio::process::Command::new(binary("mcp-gateway"))
            .args(args)
            .args(["--config", &self.path("gateway.toml"), "--events", store])
            .env_clear()
            .env("USER", "olga")
            .output();
        let output = run.await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the lines of a file; none if it is missing.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read(self.path(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::to_owned).collect()
    }

    /// Counts the lines of a file that contain `part`.
    pub(super) fn count(&self, name: &str, part: &str) -> usize {
        let lines = self.lines(name);
        lines.iter().filter(|line| line.contains(part)).count()
    }

    /// Returns the process ids in the journal of a child, oldest first.
    pub(super) fn pids(&self, name: &str) -> Vec<i32> {
        let lines = self.lines(name);
        let pids = lines
            .iter()
            .filter_map(|line| line.strip_prefix("started "));
        pids.map(|pid| pid.parse().unwrap()).collect()
    }

    /// Returns the times of the starts in the journal of a child.
    pub(super) fn starts(&self, name: &str) -> Vec<Duration> {
        let lines = self.lines(name);
        let clocks = lines.iter().filter_map(|line| line.strip_prefix("clock "));
        let millis = clocks.map(|millis| millis.parse().unwrap());
        millis.map(Duration::from_millis).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A line of the configuration: a child that is the fixture with these arguments.
pub(super) fn fixture(args: &[&str]) -> String {
    let program = binary("mcp-conformance");
    let mut argv = vec![json!(program)];
    argv.extend(args.iter().map(|arg| json!(arg)));
    format!("command = {}", Value::Array(argv))
}

/// The fixture over stdio, in the newest era.
pub(super) fn stdio_fixture() -> String {
    fixture(&["--stdio"])
}

/// The fixture over stdio, in the legacy era.
pub(super) fn legacy_fixture() -> String {
    fixture(&["legacy"])
}

/// A child that violates the protocol in the way that `args` name.
pub(super) fn misbehaving(args: &[&str]) -> String {
    fixture(&[&["misbehaving"], args].concat())
}

/// The definitions of tools with these names, as JSON.
pub(super) fn tools_json(names: &[&str]) -> String {
    let tool =
        |name| json!({"name": name, "description": "Works.", "inputSchema": {"type": "object"}});
    names.iter().map(tool).collect::<Value>().to_string()
}

/// A running gateway, and the folder of its configuration.
pub(super) struct Gateway {
    pub(super) server: Server,
    pub(super) folder: Folder,
}

impl Gateway {
    /// Starts it with the backend `b` of these lines, and waits until the tools of `b` are listed.
    pub(super) async fn with(backend: &str) -> Self {
        let gateway = Self::with_backends(&[("b", backend)]).await;
        // Changes of lists are collected, so the tools of a slow backend are listed a second later.
        wait_until("the tools of b", async || {
            let status = gateway.status().await;
            let has_none = status["backends"]["b"]["tool_count"] == 0;
            has_none || status["capabilities"]["tools"] != 0
        })
        .await;
        gateway
    }

    /// Starts it with these backends, and waits until all of them run.
    pub(super) async fn with_backends(backends: &[(&str, &str)]) -> Self {
        let config = backends
            .iter()
            .map(|(key, lines)| format!("[backends.{key}]\n{lines}\n"));
        let gateway = Self::start(Folder::new(), &config.collect::<String>(), &[]).await;
        for (key, _) in backends {
            gateway.until(key, "running").await;
        }
        gateway
    }

    /// Starts it with this configuration, and waits until its backend `b` runs.
    pub(super) async fn running(folder: Folder, config: &str) -> Self {
        let gateway = Self::start(folder, config, &[]).await;
        gateway.until("b", "running").await;
        gateway
    }

    /// Starts it with the fixture over stdio as its backend `b`.
    pub(super) async fn with_fixture() -> Self {
        Self::with(&stdio_fixture()).await
    }

    pub(super) async fn start(folder: Folder, config: &str, args: &[&str]) -> Self {
        Self::with_env(folder, config, args, &[]).await
    }

    /// Starts it with this configuration, these arguments and no other environment than `env`.
    pub(super) async fn with_env(
        folder: Folder,
        config: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let file = folder.write("gateway.toml", config);
        let mut all = vec!["--config", file.as_str()];
        if !args.contains(&"--events") {
            all.extend(["--events", "memory"]);
        }
        all.extend(args);
        let server = Server::with_args("mcp-gateway", &all, env).await;
        Self { server, folder }
    }

    /// Calls a tool in the unversioned era and returns the `result`.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.server.result("tools/call", params).await
    }

    /// Calls a tool in the unversioned era and returns the whole response.
    pub(super) async fn answer(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.server.post(body.to_string()).await.json()
    }

    /// Calls a tool that fails because of its backend `b`, and returns the error text.
    pub(super) async fn backend_failure(&self, name: &str, arguments: Value) -> String {
        let text = failure(&self.answer(name, arguments).await);
        assert!(text.contains("backend b"), "{text}");
        text
    }

    /// Calls an unknown tool and returns the error text.
    pub(super) async fn unknown_tool(&self, name: &str) -> String {
        let params = json!({"name": name, "arguments": {}});
        let error = self.server.error("tools/call", params).await;
        error["message"].as_str().unwrap().to_owned()
    }

    /// Asserts that the fixture with this key answers.
    pub(super) async fn assert_answers(&self, key: &str) {
        let result = self
            .tool(&format!("{key}__greet"), json!({"name": "Ada"}))
            .await;
        assert_eq!(text(&result), "Hello, Ada!", "{key}");
    }

    /// Calls a tool of the gateway itself and parses its text.
    pub(super) async fn own(&self, name: &str, arguments: Value) -> Value {
        let result = self.tool(name, arguments).await;
        serde_json::from_str(text(&result)).unwrap_or_else(|error| panic!("{error}: {result}"))
    }

    pub(super) async fn status(&self) -> Value {
        self.own("gateway_status", json!({})).await
    }

    /// Returns one backend of `gateway_status`.
    pub(super) async fn backend(&self, key: &str) -> Value {
        self.status().await["backends"][key].clone()
    }

    /// Waits until a backend has this status.
    pub(super) async fn until(&self, key: &str, status: &str) {
        wait_until(&format!("{key} to be {status}"), async || {
            self.backend(key).await["status"] == status
        })
        .await;
    }

    pub(super) async fn tool_names(&self) -> Vec<String> {
        let listed = self.server.result("tools/list", json!({})).await;
        let names = member_texts(&listed["tools"], "name").into_iter();
        names.map(str::to_owned).collect()
    }

    /// Returns the recorded calls of backends' tools, oldest first.
    pub(super) async fn calls(&self) -> Vec<Value> {
        let query = json!({"event_type": "gateway.tool_call", "limit": 1000});
        let events = self.own("get_events", query).await;
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["metadata"].clone()).collect()
    }

    /// Waits until `count` calls are recorded.
    pub(super) async fn ends(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} events"), async || {
            Some(self.calls().await).filter(|calls| calls.len() >= count)
        })
        .await
    }

    /// Waits for an event of this type.
    pub(super) async fn events_of(&self, event_type: &str) -> Value {
        eventually(event_type, async || {
            let found = self
                .own("get_events", json!({"event_type": event_type}))
                .await;
            Some(found).filter(|found| !found.as_array().unwrap().is_empty())
        })
        .await
    }

    /// Returns the number of running calls of `slow` at the fixture `key`.
    pub(super) async fn running_calls(&self, key: &str) -> Option<u64> {
        let counted = self.tool(&format!("{key}__count_slow"), json!({})).await;
        let counted: Value = serde_json::from_str(text(&counted)).unwrap();
        counted["running"].as_u64()
    }

    /// Calls `slow` of the backend `b`, aborts the request, and waits until the backend has stopped.
    pub(super) async fn abort_slow_call(&self, client: Client) {
        let slow = tokio::spawn(async move {
            let call = json!({"name": "b__slow", "arguments": {"step": 50, "steps": 1000}});
            client.request("tools/call", &call).await
        });
        for expected in [1, 0] {
            eventually(&format!("{expected} running calls"), async || {
                let count = self.running_calls("b").await;
                count.filter(|count| *count == expected)
            })
            .await;
            slow.abort();
        }
    }

    /// Connects a client of this era.
    pub(super) async fn client(&self, era: EraChoice, handler: Option<Arc<dyn Handler>>) -> Client {
        let mut builder = Client::builder().era(era).timeout(CALL_TIMEOUT);
        if let Some(handler) = handler {
            builder = builder.handler(handler);
        }
        let endpoint = Endpoint::new(&self.server.url).unwrap();
        let client = builder.http(endpoint).unwrap();
        let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
        client.connect(&info).await.unwrap();
        client
    }
}

impl Deref for Gateway {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// Sends a request and parses its result.
pub(super) async fn request(client: &Client, method: &str, params: Value) -> Value {
    let result = client.request(method, &params).await;
    let result = result.unwrap_or_else(|error| panic!("{method}: {error:?}"));
    serde_json::from_str(result.get()).unwrap()
}

/// The first text of a result.
pub(super) fn text(result: &Value) -> &str {
    let text = result["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {result}"))
}

/// The text of a failed call: of a JSON-RPC error, or of a result with `isError`.
pub(super) fn failure(answer: &Value) -> String {
    if let Some(error) = answer.get("error") {
        return error["message"].as_str().unwrap().to_owned();
    }
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    text(&answer["result"]).to_owned()
}
