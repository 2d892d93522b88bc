//! A closed loop over persistent connections: each answer is followed by the next request.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::company;
use crate::process;
use crate::reply::Replies;

/// Timeout for the last answers, after the time of the measurement.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The port on loopback.
    #[arg(long)]
    port: u16,
    /// The process of the server.
    #[arg(long)]
    pid: u32,
    #[arg(long, default_value = "/mcp")]
    path: String,
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Duration in milliseconds.
    #[arg(long, default_value_t = 1000)]
    millis: u64,
    /// Maximum number of requests.
    #[arg(long, default_value_t = u64::MAX)]
    requests: u64,
    #[arg(long)]
    body: String,
    /// An additional header line.
    #[arg(long)]
    header: Vec<String>,
    /// An `initialize` request; the requests of each connection then belong to a session of its own.
    #[arg(long)]
    initialize: Option<String>,
    /// Text that every answer must contain.
    #[arg(long, default_value = "")]
    expect: String,
    #[command(flatten)]
    company: company::Options,
}

/// The work that all connections share.
struct SharedLoad {
    depth: usize,
    expect: Vec<u8>,
    until: Instant,
    left: Cell<u64>,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<Value> {
    let mut requests = Vec::new();
    for _ in 0..options.connections {
        let headers = options.session_headers().await?;
        requests.push(options.request(&headers, &options.body));
    }
    let before = process::memory(options.pid)?;
    let _company = options.company.open(options.port, &options.header).await?;
    let memory = process::memory(options.pid)?;
    let idle_kib = memory.saturating_sub(before);
    let shared = Rc::new(SharedLoad {
        depth: options.depth,
        expect: options.expect.clone().into_bytes(),
        until: Instant::now() + Duration::from_millis(options.millis),
        left: Cell::new(options.requests),
    });
    let (cpu, started) = (process::cpu(options.pid)?, Instant::now());
    let tasks = LocalSet::new();
    let connections: Vec<_> = requests
        .into_iter()
        .map(|request| tasks.spawn_local(connection(options.port, request, Rc::clone(&shared))))
        .collect();
    let beside = options
        .company
        .beside
        .as_ref()
        .map(|body| company::repeat(options.port, options.request(&options.header, body)));
    let mut waits = Vec::new();
    let mut bytes = 0;
    let answered = tasks.run_until(async {
        for connection in connections {
            let (waited, size) = connection.await??;
            waits.extend(waited);
            bytes = size;
        }
        anyhow::Ok(())
    });
    let timeout = Duration::from_millis(options.millis) + LAST_ANSWER_TIMEOUT;
    let answered = tokio::time::timeout(timeout, answered).await;
    answered.context("a request was not answered")??;
    let is_alone = beside.is_some_and(|beside| beside.is_finished());
    ensure!(!is_alone, "the connection beside has failed");
    let seconds = started.elapsed().as_secs_f64();
    let cpu = process::cpu(options.pid)?.saturating_sub(cpu);
    let answers = waits.len() * options.depth;
    ensure!(answers > 0, "nothing was answered");
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    let memory_after = process::memory(options.pid)?;
    Ok(json!({
        "answers": answers,
        "bytes": bytes,
        "per_second": answers as f64 / seconds,
        "cpu_us": cpu.as_secs_f64() * 1e6 / answers as f64,
        "p50_us": at(0.5),
        "p99_us": at(0.99),
        "idle_kib": idle_kib,
        "memory_mib": memory_after as f64 / 1024.0,
        "grown_kib": memory_after as i64 - memory as i64,
    }))
}

impl Options {
    fn request(&self, headers: &[String], body: &str) -> Vec<u8> {
        request(&self.path, self.port, headers, body)
    }

    /// Returns the headers of a client's requests, after its handshake if it has one.
    async fn session_headers(&self) -> anyhow::Result<Vec<String>> {
        let mut headers = self.header.clone();
        if let Some(body) = &self.initialize {
            let session = open_session(self.port, &self.request(&headers, body)).await?;
            headers.push(format!("Mcp-Session-Id: {session}"));
            // Servers of others answer no call before it.
            let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            post(self.port, &self.request(&headers, body)).await?;
        }
        Ok(headers)
    }
}

/// Returns the id of the session that the request opens.
async fn open_session(port: u16, initialize: &[u8]) -> anyhow::Result<String> {
    post(port, initialize).await?.session.context("no session")
}

/// Sends one request on a connection of its own, and reads the answer.
async fn post(port: u16, request: &[u8]) -> anyhow::Result<Replies> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let (input, mut output) = stream.into_split();
    let mut replies = Replies::new(input);
    output.write_all(request).await?;
    replies.next().await?;
    Ok(replies)
}

/// Returns the duration of each round trip, and the size of the last answer.
async fn connection(
    port: u16,
    request: Vec<u8>,
    shared: Rc<SharedLoad>,
) -> anyhow::Result<(Vec<Duration>, usize)> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (input, mut output) = stream.into_split();
    let mut replies = Replies::new(input);
    let round = request.repeat(shared.depth);
    let mut waits = Vec::new();
    while Instant::now() < shared.until && shared.left.get() > 0 {
        let left = shared.left.get().saturating_sub(shared.depth as u64);
        shared.left.set(left);
        let sent = Instant::now();
        output.write_all(&round).await?;
        for _ in 0..shared.depth {
            replies.next().await?;
            ensure!(
                contains(&replies.body, &shared.expect),
                "answered {}",
                String::from_utf8_lossy(&replies.body)
            );
        }
        waits.push(sent.elapsed());
    }
    Ok((waits, replies.body.len()))
}

/// Looks at the end first: a result ends with its status.
fn contains(body: &[u8], expected: &[u8]) -> bool {
    expected.is_empty()
        || body.ends_with(expected)
        || body.windows(expected.len()).any(|part| part == expected)
}

pub(crate) fn request(path: &str, port: u16, headers: &[String], body: &str) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}
