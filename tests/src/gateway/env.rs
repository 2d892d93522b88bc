//! A gateway with the backends of a test.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler};
use serde_json::{Value, json};

use crate::harness::{
    Dialect, Reply, Server, assert_contains, binary, client_builder, eventually, member_texts,
    modern_meta, rpc, rpc_call, wait_until,
};

pub(super) use crate::harness::Folder;
use crate::stdio::StdioServer;

impl Folder {
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

    /// Waits until a file has so many lines that contain `part`.
    pub(super) async fn until_counts(&self, name: &str, part: &str, count: usize) {
        wait_until(part, async || self.count(name, part) == count).await;
    }

    /// Returns the process ids in the journal of a child, oldest first.
    pub(super) fn pids(&self, name: &str) -> Vec<i32> {
        let lines = self.lines(name);
        let pids = lines
            .iter()
            .filter_map(|line| line.strip_prefix("started "));
        pids.map(|pid| pid.parse().unwrap()).collect()
    }

    /// Counts the processes in the journal of a child that have not ended.
    pub(super) fn running(&self, name: &str) -> usize {
        let exists = |pid: &&i32| std::path::Path::new(&format!("/proc/{pid}")).exists();
        self.pids(name).iter().filter(exists).count()
    }

    /// Returns the times of the starts in the journal of a child.
    pub(super) fn starts(&self, name: &str) -> Vec<Duration> {
        let lines = self.lines(name);
        let clocks = lines.iter().filter_map(|line| line.strip_prefix("clock "));
        let millis = clocks.map(|millis| millis.parse().unwrap());
        millis.map(Duration::from_millis).collect()
    }
}

/// The token of a principal.
pub(super) fn token(principal: &str) -> String {
    format!("{principal}-has-a-token-of-32-characters!!!")
}

pub(super) fn bearer(principal: &str) -> String {
    format!("Bearer {}", token(principal))
}

/// A token file: each of these principals with its token, and what follows the name.
pub(super) fn tokens(principals: &[&str]) -> String {
    let lines = principals.iter().map(|line| {
        let (principal, rest) = line.split_once(' ').unwrap_or((line, ""));
        format!("{principal} {} {rest}\n", token(principal))
    });
    lines.collect()
}

/// The view and the principal of a request; the view may be empty.
#[derive(Clone, Copy)]
pub(super) struct At<'a>(pub(super) &'a str, pub(super) &'a str);

impl<'a> From<&'a str> for At<'a> {
    fn from(principal: &'a str) -> Self {
        Self("", principal)
    }
}

impl<'a> From<(&'a str, &'a str)> for At<'a> {
    fn from((view, principal): (&'a str, &'a str)) -> Self {
        Self(view, principal)
    }
}

impl At<'_> {
    /// The path below `/mcp`.
    pub(super) fn path(self) -> String {
        match self.0 {
            "" => String::new(),
            view => format!("/{view}"),
        }
    }
}

/// The answer to a request for `name`, without the name, and without the names that are like it.
pub(super) fn shape(reply: &Reply, name: &str) -> String {
    let error = reply.json()["error"].clone();
    assert!(error.is_object(), "{reply:?}");
    let message = error["message"].as_str().unwrap();
    let message = message.split(['?', ';']).next();
    let text = json!([error["code"], message, error["data"]["kind"]]).to_string();
    text.replace(name, "NAME")
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

/// A configuration with the backend `b`, and with `late`, whose calls end after two seconds, and which has no resource
/// that `b` has.
pub(super) const WITH_LATE: &str = "[backends.b]\nFIXTURE\ndeny = [\"slow_compute\"]\n\
    [backends.late]\nFIXTURE\nallow = [\"slow\"]\ntimeout = \"2s\"\n";

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
        Self::of(&format!("[backends.b]\n{backend}\n")).await
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

    /// Starts it with this configuration, and waits until its backend `b` runs and its tools are listed.
    pub(super) async fn of(config: &str) -> Self {
        Self::running(Folder::new(), config).await
    }

    /// Changes of lists are collected, so those of a slow backend are listed a second later.
    pub(super) async fn running(folder: Folder, config: &str) -> Self {
        let gateway = Self::start(folder, config, &[]).await;
        gateway.until("b", "running").await;
        wait_until("the tools of b", async || {
            let status = gateway.status().await;
            let has_none = status["backends"]["b"]["tool_count"] == 0;
            has_none || status["capabilities"]["tools"] != 0
        })
        .await;
        gateway
    }

    /// Starts it with the fixture over stdio as its backend `b`.
    pub(super) async fn with_fixture() -> Self {
        Self::with(&stdio_fixture()).await
    }

    pub(super) async fn start(folder: Folder, config: &str, args: &[&str]) -> Self {
        Self::with_env(folder, config, args, &[]).await
    }

    /// Starts it with this configuration, these arguments, and a token for each of these principals.
    pub(super) async fn guarded(principals: &[&str], config: &str, args: &[&str]) -> Self {
        let folder = Folder::new();
        let tokens = folder.write("tokens", &tokens(principals));
        let args = [&["--token-file", &tokens], args].concat();
        Self::start(folder, config, &args).await
    }

    /// Starts it with this configuration, these arguments and no other environment than `env`. In a configuration
    /// `FIXTURE` is the fixture over stdio.
    pub(super) async fn with_env(
        folder: Folder,
        config: &str,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> Self {
        let config = config.replace("FIXTURE", &stdio_fixture());
        let file = folder.write("gateway.toml", &config);
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

    /// Changes the configuration while it runs, at once: it never sees a part of the file.
    pub(super) fn configure(&self, config: &str) {
        let config = config.replace("FIXTURE", &stdio_fixture());
        let new = self.folder.write("new.toml", &config);
        std::fs::rename(new, self.folder.path("gateway.toml")).unwrap();
    }

    /// The configuration as it is.
    pub(super) fn configuration(&self) -> String {
        std::fs::read_to_string(self.folder.path("gateway.toml")).unwrap()
    }

    /// Sends a request of a principal, at a view or at none.
    pub(super) async fn ask(
        &self,
        at: impl Into<At<'_>>,
        dialect: Dialect,
        method: &str,
        name: &str,
        members: &str,
    ) -> Reply {
        let at = at.into();
        let bearer = bearer(at.1);
        let mut headers = dialect.headers_of(method, name);
        headers.push(("authorization", &bearer));
        let body = dialect.request("1", method, members);
        self.post_to(&at.path(), &headers, body).await
    }

    /// Sends a request of 2026-07-28 of a principal (of nobody if it is empty), at a view or at none, whose client has
    /// these capabilities. Returns the response.
    pub(super) async fn ask_modern(
        &self,
        at: impl Into<At<'_>>,
        capabilities: Value,
        method: &str,
        mut params: Value,
    ) -> Value {
        let at = at.into();
        let name = params["taskId"].as_str().or(params["name"].as_str());
        let name = name.unwrap_or_default().to_owned();
        params["_meta"] = modern_meta(capabilities);
        let bearer = bearer(at.1);
        let mut headers = Dialect::Modern.headers_of(method, &name);
        if !at.1.is_empty() {
            headers.push(("authorization", &bearer));
        }
        let body = rpc(method, params).to_string();
        self.post_to(&at.path(), &headers, body).await.json()
    }

    /// Sends messages of a principal, at a view or at none, in the unversioned era.
    pub(super) async fn post_by(&self, at: impl Into<At<'_>>, body: impl ToString) -> Reply {
        let at = at.into();
        let headers = [("authorization", &*bearer(at.1))];
        self.post_to(&at.path(), &headers, body.to_string()).await
    }

    /// Calls a tool as a principal, in the unversioned era.
    pub(super) async fn call_by(
        &self,
        at: impl Into<At<'_>>,
        name: &str,
        arguments: Value,
    ) -> Reply {
        self.post_by(at, rpc_call(name, arguments)).await
    }

    /// The same; returns the body of the answer.
    pub(super) async fn told(&self, at: impl Into<At<'_>>, name: &str, arguments: Value) -> String {
        self.call_by(at, name, arguments).await.body
    }

    /// Calls a tool of the gateway itself as a principal, and parses its text.
    pub(super) async fn own_by(
        &self,
        at: impl Into<At<'_>>,
        name: &str,
        arguments: Value,
    ) -> Value {
        let at = at.into();
        eventually(name, async || {
            let reply = self.call_by(at, name, arguments.clone()).await.json();
            parsed(&reply["result"])
        })
        .await
    }

    /// The metadata of the events that a principal sees.
    pub(super) async fn facts_by(&self, principal: &str) -> Vec<Value> {
        let events = self.own_by(principal, "get_events", json!({"limit": 1000}));
        facts(&events.await)
    }

    /// The tools that a principal sees.
    pub(super) async fn names(&self, at: impl Into<At<'_>>, dialect: Dialect) -> Vec<String> {
        let listed = self.ask(at, dialect, "tools/list", "", "").await.json();
        let names = member_texts(&listed["result"]["tools"], "name");
        names.into_iter().map(str::to_owned).collect()
    }

    /// Calls a tool in the unversioned era and returns the whole response.
    pub(super) async fn answer(&self, name: &str, arguments: Value) -> Value {
        let body = rpc_call(name, arguments).to_string();
        self.server.post(body).await.json()
    }

    /// Calls a tool that fails, and returns the text.
    pub(super) async fn refusal(&self, name: &str, arguments: Value) -> String {
        failure(&self.answer(name, arguments).await)
    }

    /// Calls a tool that fails because of its backend `b`, and returns the error text.
    pub(super) async fn backend_failure(&self, name: &str, arguments: Value) -> String {
        let text = self.refusal(name, arguments).await;
        assert_contains(&text, "backend b");
        text
    }

    /// Restarts the backend `b`.
    pub(super) async fn restart(&self) -> Value {
        self.own("gateway_restart", json!({"backend": "b"})).await
    }

    pub(super) async fn metrics(&self) -> String {
        self.request("GET", "/metrics", &[]).await.body
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
        eventually(name, async || {
            parsed(&self.tool(name, arguments.clone()).await)
        })
        .await
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

    /// Waits until a tool of this name is listed, or is not.
    pub(super) async fn until_lists(&self, name: &str, is_listed: bool) {
        wait_until(&format!("{name} listed: {is_listed}"), async || {
            self.lists(name).await == is_listed
        })
        .await;
    }

    /// Waits until a principal sees a tool of this name.
    pub(super) async fn until_sees(&self, at: impl Into<At<'_>>, name: &str) {
        let at = at.into();
        wait_until(name, async || {
            let names = self.names(at, Dialect::Modern).await;
            names.contains(&name.to_owned())
        })
        .await;
    }

    /// Waits until `/readyz` has this status.
    pub(super) async fn until_ready(&self, status: u16) {
        wait_until("the readiness", async || {
            self.request("GET", "/readyz", &[]).await.status == status
        })
        .await;
    }

    pub(super) async fn tool_names(&self) -> Vec<String> {
        let listed = self.server.result("tools/list", json!({})).await;
        let names = member_texts(&listed["tools"], "name").into_iter();
        names.map(str::to_owned).collect()
    }

    /// Returns true if a tool of this name is listed.
    pub(super) async fn lists(&self, name: &str) -> bool {
        let names = self.tool_names().await;
        names.iter().any(|listed| listed == name)
    }

    /// Returns the recorded calls of backends' tools, oldest first.
    pub(super) async fn calls(&self) -> Vec<Value> {
        self.recorded("gateway.tool_call").await
    }

    /// Returns what the events of a type say, oldest first.
    async fn recorded(&self, event_type: &str) -> Vec<Value> {
        let query = json!({"event_type": event_type, "limit": 1000});
        facts(&self.own("get_events", query).await)
    }

    /// Returns the number of calls that a backend has done.
    pub(super) async fn made(&self) -> usize {
        let calls = self.calls().await;
        calls.iter().filter(|call| call["outcome"] == "ok").count()
    }

    /// Waits until `count` calls are recorded.
    pub(super) async fn ends(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} events"), async || {
            Some(self.calls().await).filter(|calls| calls.len() >= count)
        })
        .await
    }

    /// Waits for an event of this type. Returns what all of them say.
    pub(super) async fn facts_of(&self, event_type: &str) -> Vec<Value> {
        eventually(event_type, async || {
            let found = self.recorded(event_type).await;
            Some(found).filter(|found| !found.is_empty())
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
    pub(super) async fn abort_slow_call(client: Client) {
        let caller = client.clone();
        let slow = tokio::spawn(async move {
            let call = json!({"name": "b__slow", "arguments": {"step": 50, "steps": 1000}});
            caller.request("tools/call", &call).await
        });
        for expected in [1, 0] {
            eventually(&format!("{expected} running calls"), async || {
                // By the same client: clients of another era may have another process.
                let count = json!({"name": "b__count_slow", "arguments": {}});
                let counted = client.request("tools/call", &count).await.unwrap();
                let counted: Value = serde_json::from_str(counted.get()).unwrap();
                let counted: Value = serde_json::from_str(text(&counted)).unwrap();
                (counted["running"] == expected).then_some(())
            })
            .await;
            slow.abort();
        }
    }

    /// Connects a client of this era.
    pub(super) async fn client(&self, era: EraChoice, handler: Option<Arc<dyn Handler>>) -> Client {
        let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        self.client_with(era, capabilities, handler).await
    }

    /// Connects a client of this era that can be asked, with the token of a principal, at a view or at none.
    pub(super) async fn client_by(
        &self,
        at: impl Into<At<'_>>,
        era: EraChoice,
        handler: Option<Arc<dyn Handler>>,
    ) -> Client {
        let at = at.into();
        let endpoint = Endpoint::new(&format!("{}{}", self.url, at.path())).unwrap();
        let mut builder = client_builder().era(era);
        if let Some(handler) = handler {
            builder = builder.handler(handler);
        }
        let client = builder
            .http(endpoint.bearer(&token(at.1)).unwrap())
            .unwrap();
        let info = ClientInfo::new("tests", "1").with_capabilities(json!({"elicitation": {}}));
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

/// The text of a tool of the gateway itself, as JSON; `None` while a busy disk keeps the event log from an answer.
fn parsed(result: &Value) -> Option<Value> {
    let text = text(result);
    let is_late = text.starts_with("The event log cannot be read now");
    let parse = || serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {result}"));
    (!is_late).then(parse)
}

/// The metadata of these events.
fn facts(events: &Value) -> Vec<Value> {
    let events = events.as_array().unwrap().iter();
    events.map(|event| event["metadata"].clone()).collect()
}

/// Waits until a gateway over stdio lists a tool whose name begins so: the first list may lack the backend of a busy
/// machine.
pub(super) async fn until_listed_over_stdio(peer: &mut StdioServer, name: &str) {
    wait_until(name, async || {
        let listed = peer.ask_plain(1, "tools/list", "").await.to_string();
        listed.contains(&format!("\"{name}"))
    })
    .await;
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
