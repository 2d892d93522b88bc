//! Requests to a child process over stdio, several of them in flight.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::process;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Requests in flight.
    #[arg(long)]
    window: usize,
    /// Duration in milliseconds.
    #[arg(long)]
    millis: u64,
    /// Maximum number of requests.
    #[arg(long, default_value_t = usize::MAX)]
    requests: usize,
    /// The request, one line.
    #[arg(long)]
    body: String,
    /// An `initialize` request, which is sent first.
    #[arg(long)]
    initialize: Option<String>,
    /// Text that every answer must contain.
    #[arg(long, default_value = "")]
    expect: String,
    /// The server and its arguments.
    #[arg(last = true)]
    program: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Value> {
    let (program, args) = options.program.split_first().context("no program")?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let output = child.stdout.take().context("no output")?;
    // Another thread reads the answers, so that the pipes do not fill up.
    let (read, answers) = sync_channel::<usize>(1024);
    let expect = options.expect.clone();
    let mut is_handshake = options.initialize.is_some();
    let reader = std::thread::spawn(move || -> anyhow::Result<()> {
        let mut output = BufReader::with_capacity(64 * 1024, output);
        let mut line = String::new();
        let mut count = 0;
        while output.read_line(&mut line)? > 0 {
            let is_expected = std::mem::take(&mut is_handshake) || line.contains(&expect);
            ensure!(is_expected, "answered {line}");
            line.clear();
            count += 1;
            if output.buffer().is_empty() {
                if read.send(count).is_err() {
                    break;
                }
                count = 0;
            }
        }
        Ok(())
    });
    let line = format!("{}\n", options.body);
    // After the first answer the server has started.
    match &options.initialize {
        Some(initialize) => writeln!(input, "{initialize}")?,
        None => input.write_all(line.as_bytes())?,
    }
    let mut answered = answers.recv()?;
    let (cpu, started) = (process::cpu(child.id())?, Instant::now());
    let mut sent = 1;
    let until = started + Duration::from_millis(options.millis);
    while answered < options.requests && Instant::now() < until {
        let free = (options.window - (sent - answered)).min(options.requests - sent);
        input.write_all(line.repeat(free).as_bytes())?;
        sent += free;
        answered += answers.recv()?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = process::cpu(child.id())?.saturating_sub(cpu);
    drop((input, answers));
    child.wait()?;
    reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let count = answered as f64;
    Ok(json!({"per_second": count / seconds, "cpu_us": cpu.as_secs_f64() * 1e6 / count}))
}
