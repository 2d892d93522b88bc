//! The servers that are measured, and the program that measures them.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::fixture;
use crate::layout::{Layout, on_path};
use crate::process::{Process, Program};

/// What the servers ask for.
pub(super) const TOKEN: &str = "bench";

/// Where a server runs, and with it the load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Core {
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
    /// What keeps a program on one processor; `None` where that or a second one is missing.
    taskset: Option<PathBuf>,
    /// Servers started so far.
    started: Cell<usize>,
}

/// A running server. Dropping it ends it.
pub(super) struct Peer {
    pub(super) port: u16,
    pub(super) pid: u32,
    core: Core,
    _process: Process,
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

    pub(super) fn binary(&self, name: &str) -> PathBuf {
        self.layout.binaries(true).join(name)
    }

    /// Our fixture server, with all that a server in use has on.
    pub(super) fn ours(&self, core: Core) -> anyhow::Result<Peer> {
        self.start(&[self.path("mcp-conformance")], &["--token", TOKEN], core)
    }

    /// The bare hyper server.
    pub(super) fn floor(&self) -> anyhow::Result<Peer> {
        self.start(&[self.path("bench-floor")], &[], Core::Own)
    }

    /// Starts a program of ours, which says where it listens.
    pub(super) fn start(
        &self,
        program: &[String],
        args: &[&str],
        core: Core,
    ) -> anyhow::Result<Peer> {
        let program = program.iter().map(String::as_str);
        let command: Vec<OsString> = program
            .chain(["--port", "0"])
            .chain(args.iter().copied())
            .map(OsString::from)
            .collect();
        let env = [("MCP_SESSION_KEY", "bench".into())];
        self.launch(&command, &env, core, fixture::listens_on)
    }

    /// Starts a program that can be reached once `listens_on`, which is given what the program has
    /// logged, knows its port.
    pub(super) fn launch(
        &self,
        command: &[OsString],
        env: &[(&str, OsString)],
        core: Core,
        listens_on: impl Fn(&str) -> Option<u16>,
    ) -> anyhow::Result<Peer> {
        let command = [self.kept_on(core), command.to_vec()].concat();
        let (program, args) = command.split_first().context("no program")?;
        // The guard of each ends all that were started with the same pid file.
        let name = format!("bench-server-{}", self.started.get());
        self.started.set(self.started.get() + 1);
        let log = self.layout.fresh_log(&name)?;
        let pid_file = self.layout.log(&format!("{name}-pid"))?;
        let _ = fs::remove_file(&pid_file);
        let program = Program::guarded(program, Duration::from_secs(12), Some(&pid_file))?;
        let mut process = fixture::unconfigured(program)
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .log_to(&log)?
            .spawn()?;
        let mut port = None;
        self.layout.stop.wait_until(Duration::from_secs(30), || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            port = listens_on(&text);
            port.is_some() || process.ended()
        });
        let port =
            port.with_context(|| format!("it did not start: {}", self.layout.shown(&log)))?;
        let pid = fs::read_to_string(&pid_file)?;
        let pid = pid.split_whitespace().next().context("no process id")?;
        Ok(Peer {
            port,
            pid: pid.parse()?,
            core,
            _process: process,
        })
    }

    /// Runs the load, and gives what it has measured.
    pub(super) fn load(&self, args: &[&str]) -> anyhow::Result<Value> {
        self.load_on(Core::Any, args)
    }

    fn load_on(&self, core: Core, args: &[&str]) -> anyhow::Result<Value> {
        let log = self.layout.fresh_log("bench-load")?;
        let mut command = self.kept_on(core);
        command.push(self.binary("bench-load").into());
        let (program, before) = command.split_first().context("no program")?;
        let program = fixture::unconfigured(Program::new(program)?);
        let status = program
            .args(before)
            .args(args)
            .log_to(&log)?
            .spawn()?
            .wait(&self.layout.stop, || {})?;
        let output = fs::read_to_string(&log)?;
        ensure!(status.success(), "the load failed: {}", output.trim());
        let measured = output.lines().last().context("nothing was measured")?;
        Ok(serde_json::from_str(measured)?)
    }

    /// What stands before a command so that it stays there.
    fn kept_on(&self, core: Core) -> Vec<OsString> {
        let number = match core {
            Core::Own => "0",
            Core::Load => "1",
            Core::Any => return Vec::new(),
        };
        let Some(taskset) = &self.taskset else {
            return Vec::new();
        };
        vec![taskset.into(), "--cpu-list".into(), number.into()]
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.binary(name).to_string_lossy().into_owned()
    }
}

impl Peer {
    /// The load over HTTP at this server.
    pub(super) fn load(&self, bench: &Bench<'_>, args: &[&str]) -> anyhow::Result<Value> {
        let (port, pid) = (self.port.to_string(), self.pid.to_string());
        let (kind, rest) = args.split_first().context("no load")?;
        let mut all = vec![*kind, "--port", &port, "--pid", &pid];
        all.extend(["--header", "Authorization: Bearer bench"]);
        all.extend(rest);
        let core = match self.core {
            Core::Own | Core::Load => Core::Load,
            Core::Any => Core::Any,
        };
        bench.load_on(core, &all)
    }
}
