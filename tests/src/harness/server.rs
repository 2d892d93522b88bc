//! Servers of the workspace as processes, and clients of them.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use clap::Parser as _;
use mcp_client::{Builder, Client, ClientInfo, Command, Endpoint, EraChoice, Handler};
use mcp_serve::Key;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::{initialize, rpc, wait_until};

/// Longer than any call of a test takes on a busy machine.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A server that listens on a free port of loopback. Ends with the test.
pub(crate) struct Server {
    /// `http://127.0.0.1:PORT/mcp`.
    pub(crate) url: String,
    child: Child,
    log: Arc<Mutex<String>>,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A test that fails shows what its servers have logged.
impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {}:\n{}", self.url, self.log());
        }
    }
}

impl Server {
    /// Starts `name` with no other environment than `env`.
    pub(crate) async fn start(name: &str, env: &[(&str, &str)]) -> Self {
        Self::with_args(name, &[], env).await
    }

    pub(crate) async fn with_args(name: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = tokio::process::Command::new(binary(name));
        command.args(["--port", "0"]).args(args);
        command.env_clear().envs(env.iter().copied());
        Self::spawn(command).await
    }

    /// Starts a command that is a server.
    pub(crate) async fn spawn(mut command: tokio::process::Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("{command:?}: {}", log.lock().unwrap()));
            log.lock().unwrap().push_str(&format!("{line}\n"));
            if let Some((_, url)) = line.split_once("listens on ") {
                break url.trim().to_owned();
            }
        };
        let kept = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { url, child, log }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Kills it with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits until it has exited by itself; returns its exit code.
    pub(crate) async fn wait_for_exit(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(CALL_TIMEOUT, self.child.wait());
        ended.await.expect("it does not end").unwrap().code()
    }

    /// Its resident memory, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    /// Its peak resident memory, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    fn status_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.unwrap().split_whitespace().next();
        kib.unwrap().parse().unwrap()
    }

    /// Sends a POST, as `curl -H 'Content-Type: application/json' -d BODY` does.
    pub(crate) async fn post(&self, body: impl Into<reqwest::Body>) -> Reply {
        self.post_with(&[], body).await
    }

    pub(crate) async fn post_with(
        &self,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        self.post_to("", headers, body).await
    }

    /// Sends a POST to a path below `/mcp`, such as `/NAME` of a view.
    pub(crate) async fn post_to(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Reply {
        let url = format!("{}{path}", self.url);
        let mut request = http_client().post(url).body(body);
        let is_type = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("content-type");
        if !headers.iter().any(is_type) {
            request = request.header("content-type", "application/json");
        }
        send(request, headers).await
    }

    /// Sends a request with another method or path.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Reply {
        let url = self.url.replace("/mcp", path);
        let request = http_client().request(method.parse().unwrap(), url);
        send(request, headers).await
    }

    /// The `result` of an unversioned request.
    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        self.unversioned(method, params, "result").await
    }

    /// The `error` of an unversioned request.
    pub(crate) async fn error(&self, method: &str, params: Value) -> Value {
        self.unversioned(method, params, "error").await
    }

    async fn unversioned(&self, method: &str, params: Value, member: &str) -> Value {
        let reply = self.post(rpc(method, params).to_string()).await.json();
        let value = reply.get(member).cloned();
        value.unwrap_or_else(|| panic!("no {member} of {method}: {reply}"))
    }

    /// The raw result of a tool (`mcp.callTool`).
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.result("mcp.callTool", params).await
    }

    /// Waits until `mcp.getServerInfo` reports `status`.
    pub(crate) async fn wait_for_status(&self, status: &str) {
        wait_until(status, async || {
            self.result("mcp.getServerInfo", json!({})).await["status"] == status
        })
        .await;
    }

    /// Waits until the log contains these words.
    pub(crate) async fn wait_for_log(&self, words: &str) {
        wait_until(words, async || self.log().contains(words)).await;
    }

    /// Connects an MCP client.
    pub(crate) async fn client(&self) -> Client {
        let endpoint = Endpoint::new(&self.url).unwrap();
        initialized(client_builder().http(endpoint).unwrap()).await
    }

    /// Opens a session of a client that can be asked, with these headers; returns its id.
    pub(crate) async fn session(&self, revision: &str, headers: &[(&str, &str)]) -> String {
        let hello = initialize(revision).to_string();
        let reply = self.post_with(headers, hello).await;
        let id = reply.headers["mcp-session-id"].to_str();
        id.unwrap().to_owned()
    }

    /// Connects an MCP client of this era with these capabilities, whose calls may take a minute.
    pub(crate) async fn client_with(
        &self,
        era: EraChoice,
        capabilities: Value,
        handler: Option<Arc<dyn Handler>>,
    ) -> Client {
        let mut builder = client_builder().era(era);
        if let Some(handler) = handler {
            builder = builder.handler(handler);
        }
        let client = builder.http(Endpoint::new(&self.url).unwrap()).unwrap();
        let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
        client.connect(&info).await.unwrap();
        client
    }

    /// Connects an MCP client with this bearer token.
    pub(crate) async fn client_with_token(&self, token: &str) -> Client {
        let endpoint = Endpoint::new(&self.url).unwrap().bearer(token).unwrap();
        initialized(client_builder().http(endpoint).unwrap()).await
    }
}

/// A connected client, which keeps its server running.
pub(crate) struct Session {
    client: Client,
    _server: Option<Server>,
}

impl Session {
    /// Starts a server and connects to it over HTTP.
    pub(crate) async fn start(name: &str, env: &[(&str, &str)]) -> Self {
        let server = Server::start(name, env).await;
        let client = server.client().await;
        let _server = Some(server);
        Self { client, _server }
    }

    /// Starts a server as a child of the client.
    pub(crate) async fn stdio(name: &str, env: &[(&str, &str)]) -> Self {
        let client = stdio_client(name, env).await;
        let _server = None;
        Self { client, _server }
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Connects an MCP client to a server that it starts over stdio.
pub(crate) async fn stdio_client(name: &str, env: &[(&str, &str)]) -> Client {
    let path = binary(name);
    let mut command = Command::new(path.to_str().unwrap()).arg("--stdio");
    for (name, value) in env {
        command = command.env(name, value);
    }
    initialized(client_builder().stdio(command).unwrap()).await
}

/// A client that is patient with a busy machine.
pub(crate) fn client_builder() -> Builder {
    Client::builder()
        .timeout(CALL_TIMEOUT)
        .connect_timeout(CALL_TIMEOUT)
}

async fn initialized(client: Client) -> Client {
    let info = ClientInfo::new("tests", "1");
    client.initialize(&info).await.unwrap();
    client
}

/// An HTTP client for `http` URLs.
pub(crate) fn http_client() -> reqwest::Client {
    let tls = mcp_client::tls::config_for("http").unwrap();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .build()
        .unwrap()
}

/// Posts a message to a URL.
pub(crate) async fn post_message(url: &str, headers: &[(&str, &str)], message: &Value) -> Reply {
    let request = http_client().post(url).body(message.to_string());
    send(request.header("content-type", "application/json"), headers).await
}

async fn send(mut request: reqwest::RequestBuilder, headers: &[(&str, &str)]) -> Reply {
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.text().await.unwrap(),
    }
}

/// Returns the path of a program of the workspace. All are built first, unless `MCP_TEST_BIN_DIR` says
/// where they are.
pub(crate) fn binary(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| match std::env::var_os("MCP_TEST_BIN_DIR") {
        Some(dir) => dir.into(),
        None => {
            let built = std::process::Command::new(env!("CARGO"))
                .args(["build", "--workspace", "--bins", "--examples"])
                .status();
            assert!(
                built.is_ok_and(|status| status.success()),
                "the binaries cannot be built"
            );
            // target/debug/deps/it-…
            let this = std::env::current_exe().unwrap();
            this.ancestors().nth(2).unwrap().to_owned()
        }
    })
    .join(name)
}

/// A free port, another one each time, that no other socket gets by chance: Linux chooses higher ones for those that ask
/// for any.
pub(crate) fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> =
        LazyLock::new(|| AtomicU16::new(20_000 + uuid::Uuid::new_v4().as_fields().1 % 10_000));
    let mut ports = std::iter::repeat_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).unwrap()
}

/// The fixture as its command line configures it.
pub(crate) fn in_memory<'a>(args: impl Iterator<Item = &'a str>) -> Arc<mcp_core::server::Server> {
    let (command, key) = (mcp_serve::Command::parse_from(args), Key::random().unwrap());
    fixture::product().assemble(command, &key).unwrap().server
}
