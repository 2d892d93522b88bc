//! The servers that are measured, and the program that measures them.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, ensure};
use nix::unistd::Pid;
use serde_json::Value;

use super::load;
use crate::fixture::{self, FIXTURE, Listening};
use crate::layout::{Layout, on_path};
use crate::process::Program;

/// Where a server runs, and with it the load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpu {
    /// On a processor of its own, the load on the other: neither takes time from the other one, and
    /// what is measured depends less on what the scheduler makes of both.
    Own,
    /// On that of the load.
    Load,
    /// Wherever there is room.
    Any,
}

pub(super) struct Bench<'a> {
    pub(super) layout: &'a Layout,
    /// Keeps a program on one processor; `None` where that or a second one is missing.
    taskset: Option<PathBuf>,
    /// Servers started so far.
    started: Cell<usize>,
}

/// A running server. Dropping it ends it, and then what is behind it.
pub(super) struct Peer {
    pub(super) port: u16,
    pid: Pid,
    cpu: Cpu,
    _server: Listening,
    pub(super) backend: Option<Box<Peer>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(layout: &'a Layout) -> Self {
        let is_alone = thread::available_parallelism().is_ok_and(|count| count.get() < 2);
        Self {
            layout,
            taskset: on_path("taskset").filter(|_| !is_alone),
            started: Cell::default(),
        }
    }

    /// Returns a built program of this workspace.
    pub(super) fn binary(&self, name: &str) -> String {
        let binary = self.layout.binaries(true).join(name);
        binary.to_string_lossy().into_owned()
    }

    /// Returns a program that stays on a processor.
    pub(super) fn program(&self, cpu: Cpu, program: impl AsRef<OsStr>) -> anyhow::Result<Program> {
        let number = match cpu {
            Cpu::Own => "0",
            Cpu::Load => "1",
            Cpu::Any => return Ok(Program::new(program)?),
        };
        Ok(match &self.taskset {
            Some(taskset) => Program::new(taskset)?
                .args(["--cpu-list", number])
                .args([program]),
            None => Program::new(program)?,
        })
    }

    /// Starts our fixture server, with all that a server in use has on.
    pub(super) fn ours(&self, cpu: Cpu) -> anyhow::Result<Peer> {
        self.start(cpu, self.binary(FIXTURE), "--token bench")
    }

    /// Starts a program of ours, which says where it listens.
    pub(super) fn start(
        &self,
        cpu: Cpu,
        program: impl AsRef<OsStr>,
        words: &str,
    ) -> anyhow::Result<Peer> {
        let program = self.program(cpu, program)?.words(words).words("--port 0");
        self.launch(cpu, program, fixture::listens_on)
    }

    /// Starts a program that can be reached once `listens_on` knows its port from its log.
    pub(super) fn launch(
        &self,
        cpu: Cpu,
        program: Program,
        listens_on: impl Fn(&str) -> Option<u16>,
    ) -> anyhow::Result<Peer> {
        let log = format!("bench-server-{}", self.started.get());
        let log = self.layout.fresh_log(&log)?;
        self.started.set(self.started.get() + 1);
        let program = fixture::unconfigured(program).envs([("MCP_SESSION_KEY", "bench")]);
        let server = fixture::listen(self.layout, program, &log, listens_on)?;
        Ok(Peer {
            port: server.port,
            pid: server.process.pid().context("no process id")?,
            cpu,
            _server: server,
            backend: None,
        })
    }

    /// Runs the load, and gives what it has measured; `size` is that of an answer, where it matters.
    pub(super) fn load(&self, cpu: Cpu, line: &str, size: usize) -> anyhow::Result<Value> {
        let log = self.layout.fresh_log("bench-load")?;
        let program = fixture::unconfigured(self.program(cpu, self.binary("bench-load"))?);
        let status = program
            .args(load::words(line, size))
            .log_to(&log)?
            .spawn()?
            .wait(&self.layout.stop, || {})?;
        let output = fs::read_to_string(&log)?;
        ensure!(status.success(), "the load failed: {}", output.trim());
        let measured = output.lines().last().context("nothing was measured")?;
        Ok(serde_json::from_str(measured)?)
    }
}

impl Peer {
    /// Runs the load over HTTP at this server.
    pub(super) fn load(&self, bench: &Bench<'_>, line: &str, size: usize) -> anyhow::Result<Value> {
        let Self { port, pid, .. } = self;
        let cpu = match self.cpu {
            Cpu::Own | Cpu::Load => Cpu::Load,
            Cpu::Any => Cpu::Any,
        };
        let line = format!("{line} --header TOKEN --port {port} --pid {pid}");
        bench.load(cpu, &line, size)
    }
}
