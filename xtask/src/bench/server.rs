//! Starts the servers to measure, each with one thread on one processor, and the load on another.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::unistd::Pid;

use crate::cargo;
use crate::http::Client;
use crate::install::debian::{self, DebianPackages, Libraries};
use crate::instance::{clear_dir, free_port};
use crate::layout::{Layout, on_path};
use crate::nginx;
use crate::process::Program;
use crate::servers::Gateway;
use crate::test_server::{self, FIXTURE, RunningServer};

const TOKEN: &str = "bench-with-a-token";

/// The headers of each request. Some servers refuse clients that do not accept both types.
pub(super) const HEADERS: [(&str, &str); 2] = [
    ("Authorization", "Bearer bench-with-a-token"),
    ("Accept", "application/json, text/event-stream"),
];

/// The time in which the gateway must reach its backend.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// nginx's own defaults, except for settings whose cost a real proxy would not pay: connections to the
/// backend are kept, and are not closed for their age. One process, whose CPU time is that of the server.
const NGINX_CONFIG: &str = include_str!("nginx.conf");

const WRK: DebianPackages = DebianPackages::new("wrk", &["wrk"]);

/// Neither takes time from the other, and a measurement depends less on the scheduler.
#[derive(Clone, Copy)]
enum Cpu {
    Server,
    /// That of the load, and of the servers behind a proxy.
    Load,
}

/// The programs and folders with which servers and loads are started.
pub(super) struct Bench<'a> {
    pub(super) layout: &'a Layout,
    wrk: (PathBuf, Libraries),
    /// Keeps a program on one processor; `None` if that or a second processor is missing.
    taskset: Option<PathBuf>,
    started: Cell<usize>,
}

/// A running server. Dropping it ends it, and then its backend.
pub(super) struct BenchServer {
    pub(super) port: u16,
    pub(super) pid: Pid,
    _server: RunningServer,
    _backend: Option<Box<Self>>,
}

impl<'a> Bench<'a> {
    /// Takes the installed wrk, or Debian's.
    pub(super) fn install(layout: &'a Layout) -> anyhow::Result<Self> {
        let wrk = debian::installed_or(&WRK, "wrk", "usr/bin/wrk", layout)?;
        let has_one_cpu = thread::available_parallelism().is_ok_and(|count| count.get() < 2);
        Ok(Self {
            layout,
            wrk,
            taskset: on_path("taskset").filter(|_| !has_one_cpu),
            started: Cell::default(),
        })
    }

    pub(super) fn binary(&self, name: &str) -> PathBuf {
        self.layout.binaries(true).join(name)
    }

    /// Starts our fixture server, which checks a token.
    pub(super) fn fixture(&self) -> anyhow::Result<BenchServer> {
        self.fixture_on(Cpu::Server)
    }

    fn fixture_on(&self, cpu: Cpu) -> anyhow::Result<BenchServer> {
        let fixture = self.program(cpu, self.binary(FIXTURE))?;
        let limits = "--connection-limit 2000 --stream-limit 2000";
        let options = format!("--token {TOKEN} --port 0 {limits}");
        self.launch(fixture.words(&options), test_server::listens_on)
    }

    /// Starts the bare server.
    pub(super) fn hyper(&self) -> anyhow::Result<BenchServer> {
        let floor = self.program(Cpu::Server, self.binary("bench-floor"))?;
        self.launch(floor, test_server::listens_on)
    }

    /// Builds and starts the echo tool on the official Rust SDK.
    pub(super) fn rmcp(&self) -> anyhow::Result<BenchServer> {
        let target = self.layout.backends().join("bench-rmcp");
        let build = "build --release --locked --manifest-path tests/bench/rmcp/Cargo.toml";
        let env = [("CARGO_TARGET_DIR", &*target.to_string_lossy())];
        let is_built = cargo::run(self.layout, build, &env)?;
        ensure!(is_built, "the server on rmcp could not be built");
        let rmcp = self.program(Cpu::Server, target.join("release/bench-rmcp"))?;
        self.launch(rmcp, test_server::listens_on)
    }

    /// Starts nginx in front of our server, as a plain reverse proxy: the installed one, or Debian's.
    pub(super) fn nginx(&self) -> anyhow::Result<BenchServer> {
        let backend = self.fixture_on(Cpu::Load)?;
        let (program, libraries) = nginx::install(self.layout)?;
        let dir = self.dir("nginx")?;
        let port = free_port(0)?;
        let config = NGINX_CONFIG.replace("BACKEND", &backend.port.to_string());
        let file = dir.join("nginx.conf");
        fs::write(&file, config.replace("PORT", &port.to_string()))?;
        let nginx = self.program(Cpu::Server, program)?;
        let nginx = nginx::program(nginx, &dir, &file, libraries);
        let nginx = self.launch(nginx, |_| {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            connected.is_ok().then_some(port)
        })?;
        Ok(nginx.in_front_of(backend))
    }

    /// Starts the gateway in front of our server. Other than nginx, which only passes bytes on, it does all its work:
    /// it checks a token and every message, and writes every call into its event log, a SQLite file.
    pub(super) fn gateway(&self) -> anyhow::Result<BenchServer> {
        let backend = self.fixture_on(Cpu::Load)?;
        let dir = self.dir("gateway")?;
        let file = dir.join("gateway.toml");
        let port = backend.port;
        let config = format!(
            "[backends.fixture]\nurl = \"http://127.0.0.1:{port}/mcp\"\ntoken = \"{TOKEN}\"\nbare = true\n"
        );
        fs::write(&file, config)?;
        let gateway = self
            .program(Cpu::Server, self.binary(Gateway::PROGRAM))?
            .args(["--config".as_ref(), file.as_os_str()])
            .args(["--events".as_ref(), dir.join("events.db").as_os_str()])
            .words(&format!("--token {TOKEN} --port 0"));
        let gateway = self.launch(gateway, test_server::listens_on)?;
        // Its backend needs a moment more.
        let client = gateway.client();
        let is_ready = || client.is_up("/readyz");
        let is_ready = self.layout.shutdown.wait_until(START_TIMEOUT, is_ready);
        ensure!(is_ready, "the gateway does not reach its backend");
        Ok(gateway.in_front_of(backend))
    }

    /// Returns wrk on the processor of the load.
    pub(super) fn wrk(&self) -> anyhow::Result<Program> {
        let (program, libraries) = &self.wrk;
        let libraries = libraries.iter().map(|(name, value)| (name, value));
        Ok(self.program(Cpu::Load, program)?.envs(libraries))
    }

    fn dir(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.layout.backends().join("bench").join(name);
        clear_dir(&dir)?;
        Ok(dir)
    }

    /// Returns a program that stays on a processor.
    fn program(&self, cpu: Cpu, program: impl AsRef<OsStr>) -> anyhow::Result<Program> {
        let Some(taskset) = &self.taskset else {
            return Ok(Program::new(program)?);
        };
        let number = match cpu {
            Cpu::Server => "0",
            Cpu::Load => "1",
        };
        let taskset = Program::new(taskset)?.args(["--cpu-list", number]);
        Ok(taskset.args([program]))
    }

    /// Starts a program and waits until `listens_on` finds its port in its log.
    fn launch(
        &self,
        program: Program,
        listens_on: impl Fn(&str) -> Option<u16>,
    ) -> anyhow::Result<BenchServer> {
        let log = format!("bench-server-{}", self.started.get());
        let log = self.layout.fresh_log(&log)?;
        self.started.set(self.started.get() + 1);
        let own = [("MCP_SESSION_KEY", "bench"), ("TOKIO_WORKER_THREADS", "1")];
        let program = test_server::unconfigured(program).envs(own);
        let server = test_server::listen(self.layout, program, &log, listens_on)?;
        Ok(BenchServer {
            port: server.port,
            pid: server.process.pid().context("no process id")?,
            _server: server,
            _backend: None,
        })
    }
}

impl BenchServer {
    fn in_front_of(mut self, backend: Self) -> Self {
        self._backend = Some(Box::new(backend));
        self
    }

    /// Returns a client with the headers that every server here takes.
    pub(super) fn client(&self) -> Client {
        let base = format!("http://127.0.0.1:{}", self.port);
        HEADERS.into_iter().fold(
            Client::new(&base, START_TIMEOUT),
            |client, (name, value)| client.with(name, value),
        )
    }
}
