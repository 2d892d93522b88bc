//! The loads: calls by wrk, open streams, and a start.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use ureq::http::Method;

use super::server::{Bench, BenchServer, HEADERS};
use crate::http::Client;
use crate::instance::free_port;

/// The script that makes wrk send a body and print its counts.
const SCRIPT: &str = include_str!("load.lua");

const LATEST: &str = "2025-11-25";

const MODERN: &str = "2026-07-28";

/// Linux reports CPU time in hundredths of a second.
const CPU_TICK: Duration = Duration::from_millis(10);

/// Starts to measure; the fastest counts, since other work on the machine only makes one slower.
const STARTS: usize = 11;

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How a client speaks to a server.
#[derive(Clone, Copy)]
pub(super) enum Era {
    Unversioned,
    Session,
    Modern,
}

/// Calls of one kind, over connections that stay open.
pub(super) struct Load {
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Value,
    connections: usize,
    answer_size: usize,
}

pub(super) struct Measured {
    pub(super) per_second: f64,
    /// CPU time of the server for one call.
    pub(super) cpu_micros: f64,
}

pub(super) struct Start {
    pub(super) millis: f64,
    pub(super) resident_kib: u64,
}

impl Load {
    /// Creates calls of the tool `echo`, and checks the answer of one.
    pub(super) fn echo(server: &BenchServer, era: Era, connections: usize) -> anyhow::Result<Self> {
        let client = server.client();
        let mut params = json!({"name": "echo", "arguments": {"value": "hello ".repeat(6)}});
        let mut headers = Vec::new();
        match era {
            Era::Unversioned => {}
            Era::Session => {
                headers.push(("MCP-Protocol-Version", LATEST.to_owned()));
                headers.push(("Mcp-Session-Id", open_session(&client)?));
            }
            Era::Modern => {
                let key = |name| format!("io.modelcontextprotocol/{name}");
                params["_meta"] = json!({
                    key("protocolVersion"): MODERN,
                    key("clientInfo"): {"name": "bench", "version": "1"},
                    key("clientCapabilities"): {},
                });
                headers.push(("MCP-Protocol-Version", MODERN.to_owned()));
                headers.push(("Mcp-Method", "tools/call".to_owned()));
                headers.push(("Mcp-Name", "echo".to_owned()));
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let all = headers.iter().cloned();
        let client = all.fold(client, |client, (name, value)| client.with(name, value));
        let answer = client.call(Method::POST, "/mcp", Some(&body))?;
        ensure!(
            answer.json["result"]["isError"] == false,
            "an echo is answered with {} {}",
            answer.status,
            answer.json
        );
        let size = answer.headers.get("content-length").context("no length")?;
        Ok(Self {
            path: "/mcp".to_owned(),
            headers,
            body,
            connections,
            answer_size: size.to_str()?.parse()?,
        })
    }

    /// The same calls of the bare server, which answers with as many bytes as the path says.
    pub(super) fn of_bare_server(&self) -> Self {
        Self {
            path: format!("/{}", self.answer_size),
            headers: self.headers.clone(),
            body: self.body.clone(),
            ..*self
        }
    }

    /// Calls for two seconds: less is not enough for many connections on a busy machine.
    pub(super) fn measure(
        &self,
        bench: &Bench<'_>,
        server: &BenchServer,
    ) -> anyhow::Result<Measured> {
        let log = bench.layout.fresh_log("bench-load")?;
        let script = log.with_extension("lua");
        fs::write(&script, SCRIPT)?;
        let own = HEADERS.map(|(name, value)| (name, value.to_owned()));
        let headers = own.iter().chain(&self.headers);
        let headers =
            headers.flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")]);
        let wrk = bench
            .wrk()?
            .words(&format!("-t 1 -d 2s -c {}", self.connections))
            .args(headers)
            .args(["-H", "Content-Type: application/json", "-s"])
            .args([&script])
            .args([
                "--",
                &format!("http://127.0.0.1:{}{}", server.port, self.path),
            ])
            .args([self.body.to_string()])
            .log_to(&log)?;
        let cpu = cpu(server)?;
        let is_done = wrk.succeeds(&bench.layout.shutdown, None)?;
        let cpu = self::cpu(server)?.saturating_sub(cpu);
        let output = fs::read_to_string(&log)?;
        ensure!(is_done, "the load failed: {}", output.trim());
        let counts: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
        let count = |name: &str| counts[name].as_f64().with_context(|| format!("no {name}"));
        let answers = count("answers")?;
        ensure!(
            count("failed")? == 0.0 && answers > 0.0,
            "calls failed: {counts}"
        );
        Ok(Measured {
            per_second: answers / count("micros")? * 1e6,
            cpu_micros: cpu.as_secs_f64() * 1e6 / answers,
        })
    }
}

/// Returns the growth of the server's resident memory, in KiB, by sessions with an open stream each.
pub(super) fn memory_of_streams(server: &BenchServer, count: usize) -> anyhow::Result<u64> {
    let client = server.client();
    // The first stream also allocates shared memory.
    let mut streams = vec![open_stream(server.port, &client)?];
    let pid = server.pid.as_raw().try_into()?;
    let before = resident_kib(pid)?;
    for _ in 0..count {
        streams.push(open_stream(server.port, &client)?);
    }
    Ok(resident_kib(pid)?.saturating_sub(before))
}

/// Returns the id of a new session.
fn open_session(client: &Client) -> anyhow::Result<String> {
    let info = json!({"name": "bench", "version": "1"});
    let params = json!({"protocolVersion": LATEST, "capabilities": {}, "clientInfo": info});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = client.call(Method::POST, "/mcp", Some(&body))?;
    let session = answer.headers.get("mcp-session-id").context("no session")?;
    Ok(session.to_str()?.to_owned())
}

/// Opens a session and its stream, which is open as long as the connection.
fn open_stream(port: u16, client: &Client) -> anyhow::Result<TcpStream> {
    let session = open_session(client)?;
    let own = HEADERS
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .concat();
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nMCP-Protocol-Version: {LATEST}\r\n\
         Mcp-Session-Id: {session}\r\n{own}\r\n"
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(request.as_bytes())?;
    expect_success(&mut stream)?;
    Ok(stream)
}

fn expect_success(stream: &mut TcpStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    ensure!(
        &head == b"HTTP/1.1 200",
        "answered {}",
        String::from_utf8_lossy(&head)
    );
    Ok(())
}

/// Starts a server several times, each until its first answer. Its memory is that of an idle server.
pub(super) fn start(program: &Path) -> anyhow::Result<Start> {
    let starts = (0..STARTS).map(|_| {
        let port = free_port(0)?;
        let started = Instant::now();
        let mut server = Command::new(program)
            .args(["--port", &port.to_string()])
            .env_clear()
            .env("MCP_SESSION_KEY", "bench")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let start = first_answer(&server, port, started);
        server.kill()?;
        server.wait()?;
        start
    });
    let starts: Vec<_> = starts.collect::<anyhow::Result<_>>()?;
    let fastest = starts
        .into_iter()
        .min_by(|one, other| one.millis.total_cmp(&other.millis));
    fastest.context("no start")
}

fn first_answer(server: &Child, port: u16, started: Instant) -> anyhow::Result<Start> {
    let mut stream = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => break stream,
            Err(error) if started.elapsed() > START_TIMEOUT => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    expect_success(&mut stream)?;
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let resident_kib = resident_kib(server.id())?;
    Ok(Start {
        millis,
        resident_kib,
    })
}

/// Returns the CPU time of all threads of the server so far.
fn cpu(server: &BenchServer) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid))?;
    // The name of the program may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
    let mut ticks = fields.split(' ').skip(11).map(str::parse::<u32>);
    let (user, system) = ticks.next().zip(ticks.next()).context("no times in stat")?;
    Ok(CPU_TICK * (user? + system?))
}

/// Returns the resident memory of a process.
fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(size.context("no size in status")?.parse()?)
}
