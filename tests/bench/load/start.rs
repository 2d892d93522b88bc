//! The time from the start of a server to its first answer, and its memory then.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::http::request;
use crate::process;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of starts.
    #[arg(long)]
    times: usize,
    #[arg(long)]
    body: String,
    /// An additional header line.
    #[arg(long)]
    header: Vec<String>,
    /// The server and its arguments; its port is added.
    #[arg(last = true)]
    program: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Value> {
    let mut starts = Vec::new();
    let mut memory = Vec::new();
    for _ in 0..options.times.max(1) {
        let (took, resident) = measure_start(options)?;
        starts.push(took.as_secs_f64() * 1e3);
        memory.push(resident);
    }
    starts.sort_by(f64::total_cmp);
    memory.sort_unstable();
    let middle = starts.len() / 2;
    Ok(json!({"millis": starts[middle], "best_millis": starts[0], "memory_kib": memory[middle]}))
}

fn measure_start(options: &Options) -> anyhow::Result<(Duration, u64)> {
    let (program, args) = options.program.split_first().context("no program")?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let request = request("/mcp", port, &options.header, &options.body);
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .args(["--port", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let answered = first_answer(port, &request, started);
    let took = started.elapsed();
    let memory = process::memory(child.id());
    child.kill()?;
    child.wait()?;
    answered?;
    Ok((took, memory?))
}

fn first_answer(port: u16, request: &[u8], started: Instant) -> anyhow::Result<()> {
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) if started.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_micros(200)),
        }
    };
    stream.write_all(request)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    ensure!(&head == b"HTTP/1.1 200", "answered {head:?}");
    Ok(())
}
