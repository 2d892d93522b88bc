//! The clients of `cargo xtask nightly soak`: many of all eras that use the same request ids; each answer must be their own.
//! Some leave while their call is under way. The counts are printed as one line of JSON.

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// The time of the first sample; another is taken at half the duration, and one at the end.
const WARM_UP: Duration = Duration::from_secs(60);

/// The time in which the server must reach its backends.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The time between two calls of a client: 100 clients load one processor, not the whole machine.
const CALL_INTERVAL: Duration = Duration::from_millis(50);

/// One call in this many is left, and one is of a tool that reports its progress.
const EVERY: u64 = 10;

/// Calls of many clients that use the same ids.
#[derive(Parser)]
struct Options {
    /// The port on loopback.
    #[arg(long)]
    port: u16,
    /// The process of the server.
    #[arg(long)]
    pid: u32,
    #[arg(long, default_value_t = 100)]
    clients: u64,
    #[arg(long)]
    seconds: u64,
    /// A prefix of the tools; may be repeated.
    #[arg(long, required = true)]
    backend: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Era {
    Unversioned,
    Legacy,
    Modern,
}

#[derive(Default)]
struct Counts {
    calls: u64,
    left: u64,
    misdelivered: u64,
    failed: u64,
    first_fault: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let options = Rc::new(Options::parse());
    let counts = Rc::new(RefCell::new(Counts::default()));
    until_ready(&options).await?;
    let duration = Duration::from_secs(options.seconds);
    let started = Instant::now();
    let until = started + duration;
    let tasks = LocalSet::new();
    for number in 0..options.clients {
        let (options, counts) = (Rc::clone(&options), Rc::clone(&counts));
        tasks.spawn_local(async move {
            let mut client = Client::new(&options, number, counts);
            while Instant::now() < until {
                client.step().await;
                sleep(CALL_INTERVAL).await;
            }
        });
    }
    let samples = tasks.run_until(async {
        let mut samples = Vec::new();
        // Before the clients have left, which would close their connections.
        for at in [
            WARM_UP.min(duration / 4),
            duration / 2,
            duration.saturating_sub(CALL_INTERVAL),
        ] {
            sleep((started + at).saturating_duration_since(Instant::now())).await;
            samples.push(sample(options.pid, at)?);
        }
        anyhow::Ok(samples)
    });
    let samples = samples.await?;
    tasks.await;
    let counts = counts.borrow();
    let measured = json!({
        "calls": counts.calls,
        "left": counts.left,
        "misdelivered": counts.misdelivered,
        "failed": counts.failed,
        "first_fault": counts.first_fault,
        "samples": samples,
    });
    writeln!(std::io::stdout(), "{measured}")?;
    Ok(())
}

fn sample(pid: u32, at: Duration) -> anyhow::Result<Value> {
    let (memory, files) = (resident_kib(pid)?, fs::read_dir(format!("/proc/{pid}/fd"))?);
    Ok(json!({"seconds": at.as_secs(), "memory_kib": memory, "open_files": files.count()}))
}

/// Returns the resident memory of the process.
fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(size.context("no size in status")?.parse()?)
}

/// Waits until the tools of all backends answer.
async fn until_ready(options: &Options) -> anyhow::Result<()> {
    let started = Instant::now();
    for backend in &options.backend {
        let call = json!({"name": format!("{backend}__echo"), "arguments": {"value": "ready"}});
        loop {
            let mut connection = Connection::open(options.port, Era::Unversioned).await?;
            let body = connection.call(&call, false).await?;
            if body.contains(r#""isError":false"#) {
                break;
            }
            ensure!(started.elapsed() < START_TIMEOUT, "not ready: {body}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

struct Client<'a> {
    options: &'a Options,
    number: u64,
    era: Era,
    calls: u64,
    connection: Option<Connection>,
    counts: Rc<RefCell<Counts>>,
}

impl<'a> Client<'a> {
    fn new(options: &'a Options, number: u64, counts: Rc<RefCell<Counts>>) -> Self {
        let eras = [Era::Unversioned, Era::Legacy, Era::Modern];
        Self {
            options,
            number,
            era: eras[number as usize % eras.len()],
            // So that not all clients leave at the same time.
            calls: number,
            connection: None,
            counts,
        }
    }

    /// Calls one tool, and counts how that went.
    async fn step(&mut self) {
        self.calls += 1;
        let result = self.call().await;
        let mut counts = self.counts.borrow_mut();
        match result {
            Ok(Outcome::Own) => counts.calls += 1,
            Ok(Outcome::Left) => counts.left += 1,
            Ok(Outcome::Foreign(body)) => {
                counts.misdelivered += 1;
                counts.first_fault.get_or_insert(body);
            }
            Err(error) => {
                counts.failed += 1;
                let fault = format!("{:?} {error:#}", self.era);
                counts.first_fault.get_or_insert(fault);
            }
        }
    }

    async fn call(&mut self) -> anyhow::Result<Outcome> {
        let backend = &self.options.backend[self.calls as usize % self.options.backend.len()];
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.options.port, self.era).await?,
        };
        let slow = |step: u64, steps: u64| {
            json!({
                "name": format!("{backend}__slow"),
                "arguments": {"step": step, "steps": steps},
                "_meta": {"progressToken": 1},
            })
        };
        match self.calls % EVERY {
            0 => {
                let (session, params) = (connection.session.clone(), slow(50, 10));
                let mut call = Box::pin(connection.call(&params, true));
                // An answer that a busy machine has given by then is left, too.
                let _ = timeout(CALL_INTERVAL, &mut call).await;
                // Half of the sessions say that they leave; the others only close the connection.
                if session.is_some() && self.number.is_multiple_of(2) {
                    let mut other = Connection::open(self.options.port, Era::Unversioned).await?;
                    other.session = session;
                    other.cancel().await?;
                }
                Ok(Outcome::Left)
            }
            1 => {
                let steps = 2 + self.number;
                let body = connection.call(&slow(1, steps), true).await?;
                let total = format!(" of {steps}\"");
                let foreign = body.matches(" of ").count() != body.matches(&total).count();
                self.connection = Some(connection);
                outcome(&body, foreign, &format!(r#""done":{steps}"#))
            }
            _ => {
                let value = format!("{}/{}", self.number, self.calls);
                let call =
                    json!({"name": format!("{backend}__echo"), "arguments": {"value": value}});
                let body = connection.call(&call, false).await?;
                self.connection = Some(connection);
                outcome(&body, false, &format!(r#""value":"{value}""#))
            }
        }
    }
}

enum Outcome {
    Own,
    Left,
    /// The answer, or a notification, of another call.
    Foreign(String),
}

fn outcome(body: &str, foreign: bool, own: &str) -> anyhow::Result<Outcome> {
    if body.contains(own) && !foreign {
        return Ok(Outcome::Own);
    }
    ensure!(body.contains(r#""isError":false"#), "answered {body}");
    Ok(Outcome::Foreign(format!("{own} expected: {body}")))
}

struct Connection {
    port: u16,
    era: Era,
    session: Option<String>,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects, and opens a session if the era has them.
    async fn open(port: u16, era: Era) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Ends with the sender.
        tokio::spawn(connection);
        let mut connection = Self {
            port,
            era,
            session: None,
            sender,
        };
        if matches!(era, Era::Legacy) {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "soak", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            connection.post(&[], &body).await?;
            ensure!(connection.session.is_some(), "no session");
        }
        Ok(connection)
    }

    async fn call(&mut self, params: &Value, as_stream: bool) -> anyhow::Result<String> {
        let mut params = params.clone();
        let mut headers = vec![match as_stream {
            true => ("accept", "application/json, text/event-stream".to_owned()),
            false => ("accept", "application/json".to_owned()),
        }];
        if matches!(self.era, Era::Modern) {
            let key = |name| format!("io.modelcontextprotocol/{name}");
            params["_meta"][key("protocolVersion")] = json!("2026-07-28");
            params["_meta"][key("clientInfo")] = json!({"name": "soak", "version": "1"});
            params["_meta"][key("clientCapabilities")] = json!({});
            let name = params["name"].as_str().unwrap_or_default();
            headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
            headers.push(("mcp-method", "tools/call".to_owned()));
            headers.push(("mcp-name", name.to_owned()));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        // Without the escapes of the JSON in the text content.
        Ok(self.post(&headers, &body).await?.replace('\\', ""))
    }

    /// Cancels the call of the session that is under way.
    async fn cancel(&mut self) -> anyhow::Result<()> {
        let params = json!({"requestId": 1});
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.post(&[], &body).await.map(drop)
    }

    /// Sends a message, and returns the body of the reply, which must be a success.
    async fn post(&mut self, headers: &[(&str, String)], body: &Value) -> anyhow::Result<String> {
        let mut request = Request::post("/mcp")
            .header("host", format!("127.0.0.1:{}", self.port))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        let request = request.body(Full::from(body.to_string()))?;
        let reply = self.sender.send_request(request).await?;
        let status = reply.status();
        ensure!(status.is_success(), "answered {status}");
        if let Some(session) = reply.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().context("a session")?.to_owned());
        }
        let body = reply.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
