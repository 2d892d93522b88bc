//! The clients of `cargo xtask nightly soak`: many of all eras that use the same request ids; each answer must be their own.
//! Some leave while their call is under way. The counts are printed as one line of JSON.

mod reply;

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::task::LocalSet;
use tokio::time::sleep;

use reply::Replies;

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
                connection.send(&slow(50, 10), true).await?;
                sleep(CALL_INTERVAL).await;
                // Half of the sessions say that they leave; the others only close the connection.
                if matches!(self.era, Era::Legacy) && self.number.is_multiple_of(2) {
                    let mut other = Connection::again(self.options.port, &connection).await?;
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
    replies: Replies,
    output: OwnedWriteHalf,
}

impl Connection {
    /// Connects, and opens a session if the era has them.
    async fn open(port: u16, era: Era) -> anyhow::Result<Self> {
        let (input, output) = TcpStream::connect(("127.0.0.1", port)).await?.into_split();
        let mut connection = Self {
            port,
            era,
            session: None,
            replies: Replies::new(input),
            output,
        };
        if matches!(era, Era::Legacy) {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "soak", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            connection.post(&[], &body).await?;
            connection.replies.next().await?;
            connection.session = connection.replies.session.take();
            ensure!(connection.session.is_some(), "no session");
        }
        Ok(connection)
    }

    /// Opens another connection for the same session.
    async fn again(port: u16, other: &Self) -> anyhow::Result<Self> {
        let mut connection = Self::open(port, Era::Unversioned).await?;
        connection.era = other.era;
        connection.session.clone_from(&other.session);
        Ok(connection)
    }

    async fn call(&mut self, params: &Value, as_stream: bool) -> anyhow::Result<String> {
        self.send(params, as_stream).await?;
        self.replies.next().await?;
        // Without the escapes of the JSON in the text content.
        Ok(String::from_utf8_lossy(&self.replies.body).replace('\\', ""))
    }

    async fn send(&mut self, params: &Value, as_stream: bool) -> anyhow::Result<()> {
        let mut params = params.clone();
        let mut headers = vec![match as_stream {
            true => "Accept: application/json, text/event-stream".to_owned(),
            false => "Accept: application/json".to_owned(),
        }];
        if matches!(self.era, Era::Modern) {
            let key = |name| format!("io.modelcontextprotocol/{name}");
            params["_meta"][key("protocolVersion")] = json!("2026-07-28");
            params["_meta"][key("clientInfo")] = json!({"name": "soak", "version": "1"});
            params["_meta"][key("clientCapabilities")] = json!({});
            let name = params["name"].as_str().unwrap_or_default();
            headers.push("MCP-Protocol-Version: 2026-07-28".to_owned());
            headers.push("Mcp-Method: tools/call".to_owned());
            headers.push(format!("Mcp-Name: {name}"));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.post(&headers, &body).await
    }

    /// Cancels the call of the session that is under way.
    async fn cancel(&mut self) -> anyhow::Result<()> {
        let params = json!({"requestId": 1});
        let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.post(&[], &body).await?;
        self.replies.next().await
    }

    async fn post(&mut self, headers: &[String], body: &Value) -> anyhow::Result<()> {
        let mut headers = headers.to_vec();
        if let Some(session) = &self.session {
            headers.push(format!("Mcp-Session-Id: {session}"));
            headers.push("MCP-Protocol-Version: 2025-11-25".to_owned());
        }
        let request = request(self.port, &headers, &body.to_string());
        Ok(self.output.write_all(&request).await?)
    }
}

fn request(port: u16, headers: &[String], body: &str) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}
