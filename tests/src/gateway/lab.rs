//! A gateway with backends as a test wants them.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler};
use serde_json::{Value, json};

use crate::harness::{Server, binary, eventually};

/// Longer than anything here may take, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that ends with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        let name = format!("mcp-gateway-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The lines of a file that may not be there yet.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read(self.path(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(str::to_owned).collect()
    }

    /// How many lines hold `what`.
    pub(super) fn count(&self, name: &str, what: &str) -> usize {
        let lines = self.lines(name);
        lines.iter().filter(|line| line.contains(what)).count()
    }

    /// The process ids of those who keep this journal, the last one last.
    pub(super) fn pids(&self, name: &str) -> Vec<i32> {
        let lines = self.lines(name);
        let started = lines
            .iter()
            .filter_map(|line| line.strip_prefix("started "));
        started.map(|pid| pid.parse().unwrap()).collect()
    }
}

impl Folder {
    /// When they were started, each as a time since then.
    pub(super) fn starts(&self, name: &str) -> Vec<Duration> {
        let lines = self.lines(name);
        let clocks = lines.iter().filter_map(|line| line.strip_prefix("clock "));
        clocks
            .map(|millis| Duration::from_millis(millis.parse().unwrap()))
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A backend that is the fixture with these first arguments, as a line of the configuration.
pub(super) fn fixture(args: &[&str]) -> String {
    let program = binary("mcp-conformance");
    let mut argv = vec![json!(program)];
    argv.extend(args.iter().map(|arg| json!(arg)));
    format!("command = {}", Value::Array(argv))
}

/// A gateway that listens, and the folder of its configuration.
pub(super) struct Gateway {
    pub(super) server: Server,
    pub(super) folder: Folder,
}

impl Gateway {
    /// With one backend `b`, described by these lines.
    pub(super) async fn with(backend: &str) -> Self {
        let gateway = Self::start(Folder::new(), &format!("[backends.b]\n{backend}\n"), &[]).await;
        gateway.until("b", "running").await;
        gateway.published().await;
        gateway
    }

    /// Waits until what has started is offered: of one that takes long to start that is up to a second
    /// later, since lists that change are gathered.
    async fn published(&self) {
        eventually("what has started to be offered", async || {
            let status = self.own("gateway_status", json!({})).await;
            let has_none = status["backends"]["b"]["tool_count"] == 0;
            (has_none || status["capabilities"]["tools"] != 0).then_some(())
        })
        .await;
    }

    /// With a backend `b` in its configuration, which has started.
    pub(super) async fn running(folder: Folder, config: &str) -> Self {
        let gateway = Self::start(folder, config, &[]).await;
        gateway.until("b", "running").await;
        gateway
    }

    /// With the fixture as its backend `b`, over stdio.
    pub(super) async fn before_fixture() -> Self {
        Self::with(&fixture(&["--stdio"])).await
    }

    pub(super) async fn start(folder: Folder, config: &str, args: &[&str]) -> Self {
        let file = folder.write("gateway.toml", config);
        let mut all = vec!["--config", file.as_str()];
        if !args.contains(&"--events") {
            all.extend(["--events", "memory"]);
        }
        all.extend(args);
        let server = Server::with_args("mcp-gateway", &all, &[]).await;
        Self { server, folder }
    }

    /// The `result` of a tool in the unversioned era.
    pub(super) async fn tool(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        self.server.result("tools/call", params).await
    }

    /// The `result` of a tool of this backend.
    pub(super) async fn tool_of(&self, key: &str, name: &str, arguments: Value) -> Value {
        self.tool(&format!("{key}__{name}"), arguments).await
    }

    /// The whole answer to a call in the unversioned era.
    pub(super) async fn answer(&self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.server.post(body.to_string()).await.json()
    }

    /// What one of the gateway's own tools says.
    pub(super) async fn own(&self, name: &str, arguments: Value) -> Value {
        let result = self.tool(name, arguments).await;
        serde_json::from_str(text(&result)).unwrap_or_else(|error| panic!("{error}: {result}"))
    }

    /// One backend in `gateway_status`.
    pub(super) async fn backend(&self, key: &str) -> Value {
        self.own("gateway_status", json!({})).await["backends"][key].clone()
    }

    /// Waits until a backend has this status.
    pub(super) async fn until(&self, key: &str, status: &str) {
        let what = format!("{key} to be {status}");
        let backend = eventually(&what, async || {
            Some(self.backend(key).await).filter(|found| found["status"] == status)
        });
        backend.await;
    }

    /// The ends of all calls that are written down by now, the first one first.
    pub(super) async fn calls(&self) -> Vec<Value> {
        let query = json!({"event_type": "gateway.tool_call", "limit": 1000});
        let events = self.own("get_events", query).await;
        let events = events.as_array().unwrap().iter();
        events.map(|event| event["metadata"].clone()).collect()
    }

    /// The ends of `count` calls of backends.
    pub(super) async fn ends(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} events"), async || {
            Some(self.calls().await).filter(|calls| calls.len() >= count)
        })
        .await
    }

    /// A client that speaks like this.
    pub(super) async fn client(
        &self,
        dialect: EraChoice,
        handler: Option<std::sync::Arc<dyn Handler>>,
    ) -> Client {
        let mut builder = Client::builder().era(dialect).timeout(PATIENCE);
        if let Some(handler) = handler {
            builder = builder.handler(handler);
        }
        let client = builder
            .http(Endpoint::new(&self.server.url).unwrap())
            .unwrap();
        let abilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let who = ClientInfo::new("tests", "1").with_capabilities(abilities);
        client.connect(&who).await.unwrap();
        client
    }
}

impl Deref for Gateway {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The first text of a result.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {result}"))
}

/// What a failed call says, as an error of the protocol or as a result that is one.
pub(super) fn failure(answer: &Value) -> String {
    if let Some(error) = answer.get("error") {
        return error["message"].as_str().unwrap().to_owned();
    }
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    text(&answer["result"]).to_owned()
}
