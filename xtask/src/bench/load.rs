//! The loads: calls by wrk, open streams, and a start.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use ureq::http::Method;

use super::server::{self, HEADERS};
use crate::http::{self, Client, Header, LEGACY};
use crate::instance::free_port;
use crate::layout;
use crate::test_server::RunningServer;

const SCRIPT: &str = include_str!("load.lua");

/// Linux reports CPU time in hundredths of a second.
const CPU_TICK: Duration = Duration::from_millis(10);

/// Starts to measure; the fastest counts, since other work on the machine only makes one slower.
const STARTS: usize = 11;

const START_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
pub(super) enum Era {
    Unversioned,
    Session,
    Modern,
}

/// Calls of one kind, over connections that stay open.
pub(super) struct Load {
    path: String,
    headers: Vec<Header>,
    body: Value,
    connections: usize,
    answer_size: usize,
}

pub(super) struct Measured {
    pub(super) per_second: f64,
    /// CPU time of the server for one call.
    pub(super) cpu_micros: f64,
}

impl Load {
    /// Creates calls of the tool `echo`, and checks the answer of one.
    pub(super) fn echo(server: &RunningServer, era: Era, connections: usize) -> Result<Self> {
        let client = server::client(server);
        let params = json!({"name": "echo", "arguments": {"value": "hello ".repeat(6)}});
        let (mut headers, mut body) = (Vec::new(), http::request("tools/call", params.clone()));
        match era {
            Era::Unversioned => {}
            Era::Session => {
                headers.push(("MCP-Protocol-Version", LEGACY.to_owned()));
                headers.push(("Mcp-Session-Id", client.open_session()?));
            }
            Era::Modern => (headers, body) = http::modern("tools/call", params),
        }
        let client = client.with_all(headers.clone());
        let answer = client.call(Method::POST, "/mcp", Some(&body))?;
        let (status, json) = (answer.status, answer.json);
        let is_good = json["result"]["isError"] == false;
        ensure!(is_good, "an echo is answered with {status} {json}");
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
    pub(super) fn measure(&self, server: &RunningServer) -> Result<Measured> {
        let script = layout::log("bench-load")?.with_extension("lua");
        fs::write(&script, SCRIPT)?;
        let url = format!("http://127.0.0.1:{}{}", server.port, self.path);
        let own = HEADERS.map(|(name, value)| (name, value.to_owned()));
        let headers = own.iter().chain(&self.headers);
        let headers = headers.map(|(name, value)| format!("-H{name}: {value}"));
        let wrk = server::wrk()?
            .words(&format!("-t 1 -d 2s -c {}", self.connections))
            .args(headers)
            .args(["-HContent-Type: application/json"])
            .option("-s", script)
            .args(["--", &url, &self.body.to_string()]);
        let before = cpu(server)?;
        let load = wrk.logged("bench-load", None)?;
        let cpu = cpu(server)?.saturating_sub(before);
        let output = load.output.trim();
        ensure!(load.has_succeeded, "the load failed: {output}");
        let counts: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
        let count = |name: &str| counts[name].as_f64().with_context(|| format!("no {name}"));
        let (answers, failed) = (count("answers")?, count("failed")?);
        ensure!(failed == 0.0 && answers > 0.0, "calls failed: {counts}");
        Ok(Measured {
            per_second: answers / count("micros")? * 1e6,
            cpu_micros: cpu.as_secs_f64() * 1e6 / answers,
        })
    }
}

/// Returns the growth of the server's resident memory, in KiB, by sessions with an open stream each.
pub(super) fn memory_of_streams(server: &RunningServer, count: usize) -> Result<u64> {
    let client = server::client(server);
    // The first stream also allocates shared memory.
    let mut streams = vec![open_stream(server.port, &client)?];
    let pid = server.process.pid.as_raw().try_into()?;
    let before = resident_kib(pid)?;
    for _ in 0..count {
        streams.push(open_stream(server.port, &client)?);
    }
    Ok(resident_kib(pid)?.saturating_sub(before))
}

/// Opens a session and its stream, which is open as long as the connection.
fn open_stream(port: u16, client: &Client) -> Result<TcpStream> {
    let session = client.open_session()?;
    let own = HEADERS.map(|(name, value)| format!("{name}: {value}\r\n"));
    let own = own.concat();
    let request = format!(
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nMCP-Protocol-Version: {LEGACY}\r\n\
         Mcp-Session-Id: {session}\r\n{own}\r\n"
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(request.as_bytes())?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let shown = String::from_utf8_lossy(&head);
    ensure!(shown == "HTTP/1.1 200", "answered {shown}");
    Ok(stream)
}

/// Starts a server several times, each until its first answer; returns the least time, and the KiB of that idle server.
pub(super) fn start(program: &Path) -> Result<(f64, u64)> {
    let mut fastest = (f64::MAX, 0);
    for _ in 0..STARTS {
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
        let answered = first_answer(port, started);
        let idle = resident_kib(server.id());
        server.kill()?;
        server.wait()?;
        let millis = answered?.as_secs_f64() * 1e3;
        if millis < fastest.0 {
            fastest = (millis, idle?);
        }
    }
    Ok(fastest)
}

fn first_answer(port: u16, started: Instant) -> Result<Duration> {
    let client = Client::at(port, START_TIMEOUT);
    let body = http::request("tools/list", json!({}));
    loop {
        match client.send(Method::POST, "/mcp", &body) {
            Ok(_) => return Ok(started.elapsed()),
            Err(error) if started.elapsed() > START_TIMEOUT => return Err(error),
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Returns the CPU time of all threads of the server so far.
fn cpu(server: &RunningServer) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.process.pid))?;
    // The name of the program may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
    let mut ticks = fields.split(' ').skip(11).map(str::parse::<u32>);
    let (user, system) = ticks.next().zip(ticks.next()).context("no times in stat")?;
    Ok(CPU_TICK * (user? + system?))
}

fn resident_kib(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(size.context("no size in status")?.parse()?)
}
