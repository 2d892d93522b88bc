//! Starts the servers to measure, and the load program.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cargo;
use crate::clients;
use crate::http::Client;
use crate::instance::{clear_dir, free_port};
use crate::layout::{Layout, create_dir, on_path};
use crate::nginx;
use crate::process::Program;
use crate::servers::Gateway;
use crate::test_server::{self, FIXTURE, RunningServer};

/// The server with any number of tools and results of any size.
const ITEMS: &str = "bench-server";

/// The time in which the gateway must reach its backend.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// nginx's own defaults, except for settings whose cost a real proxy would not pay: connections to the
/// backend are kept, and are not closed for their age.
const NGINX_CONFIG: &str = include_str!("nginx.conf");

/// The names in a load's command line.
const NAMES: &str = include_str!("load.txt");

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cpu {
    /// Its own, with the load on the other: neither takes time from the other, and the measurement
    /// depends less on the scheduler.
    Own,
    Load,
    /// Any, also for the load.
    Any,
}

pub(super) struct Bench<'a> {
    pub(super) layout: &'a Layout,
    /// Whether the programs are those of a release build.
    pub(super) is_release: bool,
    /// Keeps a program on one processor; `None` if that or a second processor is missing.
    taskset: Option<PathBuf>,
    started: Cell<usize>,
}

/// A running server. Dropping it ends it, and then its backend.
pub(super) struct BenchServer {
    port: u16,
    pub(super) pid: Pid,
    cpu: Cpu,
    _server: RunningServer,
    pub(super) backend: Option<Box<BenchServer>>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(layout: &'a Layout, is_release: bool) -> Self {
        let has_one_cpu = thread::available_parallelism().is_ok_and(|count| count.get() < 2);
        Self {
            layout,
            is_release,
            taskset: on_path("taskset").filter(|_| !has_one_cpu),
            started: Cell::default(),
        }
    }

    pub(super) fn binary(&self, name: &str) -> String {
        let binary = self.layout.binaries(self.is_release).join(name);
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

    /// Starts a server by its name in the comparisons.
    pub(super) fn start(&self, name: &str) -> anyhow::Result<BenchServer> {
        let own = |program, words| self.start_program(Cpu::Own, self.binary(program), words);
        let gateway = |cpu| self.program(cpu, self.binary(Gateway::PROGRAM));
        match name {
            "ours" | "JSON" => self.fixture(Cpu::Own),
            "hyper" => own("bench-floor", ""),
            "rmcp" => self.rmcp(),
            "TypeScript" => self.sdk("typescript", "bench.mjs"),
            "Python" => self.sdk("python", "bench.py"),
            "gateway" => self.gateway_over_http(gateway(Cpu::Own)?, self.fixture(Cpu::Load)?),
            "items-gateway" => {
                let backend = self.start_program(
                    Cpu::Load,
                    self.binary(ITEMS),
                    "--token bench-with-a-token",
                )?;
                self.gateway_over_http(gateway(Cpu::Own)?, backend)
            }
            "items" => {
                self.start_program(Cpu::Any, self.binary(ITEMS), "--token bench-with-a-token")
            }
            "HTTP" => self.gateway_over_http(gateway(Cpu::Any)?, self.fixture(Cpu::Any)?),
            "gateway-child" => {
                let child = self.binary(FIXTURE);
                let backend = format!(
                    "command = [\"{child}\", \"--stdio\", \"--log\", \"error\"]\nbare = true\n"
                );
                self.gateway(gateway(Cpu::Any)?, "stdio", &backend, Cpu::Any)
            }
            "nginx" => self.nginx(),
            other => match other.split_once('-') {
                Some((tools, "tools")) => own(
                    ITEMS,
                    &format!("--token bench-with-a-token --tools {tools}"),
                ),
                Some((threads, "threads")) => {
                    let program = self.program(Cpu::Any, self.binary(FIXTURE))?;
                    let threads = [("TOKIO_WORKER_THREADS", threads)];
                    self.start_words(
                        Cpu::Any,
                        program.envs(threads),
                        "--token bench-with-a-token",
                    )
                }
                Some((count, "backends")) => {
                    self.gateway_of(gateway(Cpu::Own)?, count.parse()?, self.fixture(Cpu::Load)?)
                }
                _ => match self.peer(other)? {
                    Some(peer) => Ok(peer),
                    None => bail!("there is no server {other}"),
                },
            },
        }
    }

    /// Starts our fixture server, with everything that a server in use has.
    pub(super) fn fixture(&self, cpu: Cpu) -> anyhow::Result<BenchServer> {
        self.start_program(
            cpu,
            self.binary(FIXTURE),
            "--token bench-with-a-token --connection-limit 11000 --stream-limit 11000",
        )
    }

    /// Starts one of our programs, which logs its port.
    fn start_program(
        &self,
        cpu: Cpu,
        program: impl AsRef<OsStr>,
        words: &str,
    ) -> anyhow::Result<BenchServer> {
        self.start_words(cpu, self.program(cpu, program)?, words)
    }

    fn start_words(&self, cpu: Cpu, program: Program, words: &str) -> anyhow::Result<BenchServer> {
        let program = program.words(words).words("--port 0");
        self.launch(cpu, program, test_server::listens_on)
    }

    /// Starts a program and waits until `listens_on` finds its port in its log.
    pub(super) fn launch(
        &self,
        cpu: Cpu,
        program: Program,
        listens_on: impl Fn(&str) -> Option<u16>,
    ) -> anyhow::Result<BenchServer> {
        let log = format!("bench-server-{}", self.started.get());
        let log = self.layout.fresh_log(&log)?;
        self.started.set(self.started.get() + 1);
        let program = test_server::unconfigured(program).envs([("MCP_SESSION_KEY", "bench")]);
        // Ours takes a second thread on a single processor, and the floor does not.
        let is_alone = cpu == Cpu::Own && self.taskset.is_some();
        let program = program.envs(is_alone.then_some(("TOKIO_WORKER_THREADS", "1")));
        let server = test_server::listen(self.layout, program, &log, listens_on)?;
        Ok(BenchServer {
            port: server.port,
            pid: server.process.pid().context("no process id")?,
            cpu,
            _server: server,
            backend: None,
        })
    }

    fn rmcp(&self) -> anyhow::Result<BenchServer> {
        let target = self.layout.backends().join("bench-rmcp");
        let build = "build --release --locked --manifest-path tests/bench/rmcp/Cargo.toml";
        let env = [("CARGO_TARGET_DIR", &*target.to_string_lossy())];
        let is_built = cargo::run(self.layout, build, &env)?;
        ensure!(is_built, "it could not be built");
        self.start_program(Cpu::Own, target.join("release/bench-rmcp"), "")
    }

    /// Starts a script of an SDK.
    fn sdk(&self, name: &str, script: &str) -> anyhow::Result<BenchServer> {
        let (program, script) = clients::install(self.layout, name, script)?;
        let program = self.program(Cpu::Own, program)?.args(script);
        self.launch(Cpu::Own, program, test_server::listens_on)
    }

    /// Starts nginx in front of our server, as a plain reverse proxy: the installed one, or Debian's.
    /// One process, because the CPU time of one process is measured.
    fn nginx(&self) -> anyhow::Result<BenchServer> {
        let backend = self.fixture(Cpu::Load)?;
        let (program, libraries) = nginx::install(self.layout)?;
        let dir = self.layout.backends().join("bench/nginx");
        create_dir(&dir)?;
        let port = free_port(0)?;
        let config = NGINX_CONFIG.replace("BACKEND", &backend.port.to_string());
        let file = dir.join("nginx.conf");
        fs::write(&file, config.replace("PORT", &port.to_string()))?;
        let nginx = nginx::program(self.program(Cpu::Own, program)?, &dir, &file, libraries);
        let mut nginx = self.launch(Cpu::Own, nginx, |_| {
            let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            connected.is_ok().then_some(port)
        })?;
        nginx.backend = Some(Box::new(backend));
        Ok(nginx)
    }

    /// Starts the gateway, as `program` begins, in front of a server.
    pub(super) fn gateway_over_http(
        &self,
        program: Program,
        backend: BenchServer,
    ) -> anyhow::Result<BenchServer> {
        self.gateway_of(program, 1, backend)
    }

    /// Starts a gateway with a number of backends, which are all the same server.
    fn gateway_of(
        &self,
        program: Program,
        count: usize,
        backend: BenchServer,
    ) -> anyhow::Result<BenchServer> {
        let lines = format!(
            "url = \"{}\"\ntoken = \"bench-with-a-token\"\n",
            backend.url()
        );
        let others = (1..count).map(|number| format!("[backends.n{number}]\n{lines}"));
        let config = format!("{lines}bare = true\n{}", others.collect::<String>());
        let cpu = match backend.cpu {
            Cpu::Load => Cpu::Own,
            cpu => cpu,
        };
        let mut gateway = self.gateway(program, "http", &config, cpu)?;
        gateway.backend = Some(Box::new(backend));
        Ok(gateway)
    }

    /// Starts a gateway with this configuration, whose first backend keeps the names of its tools. Other than
    /// nginx, which only relays, it does all its work: it checks a token and every message, and
    /// writes every call into its event log, a SQLite file.
    fn gateway(
        &self,
        program: Program,
        name: &str,
        backends: &str,
        cpu: Cpu,
    ) -> anyhow::Result<BenchServer> {
        let dir = self.layout.backends().join("bench").join(name);
        clear_dir(&dir)?;
        let file = dir.join("gateway.toml");
        fs::write(&file, format!("[backends.fixture]\n{backends}"))?;
        let gateway = program
            .args(["--config".as_ref(), file.as_os_str()])
            .args(["--events".as_ref(), dir.join("events.db").as_os_str()])
            .words("--token bench-with-a-token --port 0");
        let gateway = self.launch(cpu, gateway, test_server::listens_on)?;
        // Its backends need a moment more.
        let base = format!("http://127.0.0.1:{}", gateway.port);
        let client = Client::new(&base, START_TIMEOUT);
        let is_ready = || client.get("/readyz").is_ok_and(|ready| ready.status == 200);
        let is_ready = self.layout.shutdown.wait_until(START_TIMEOUT, is_ready);
        ensure!(
            is_ready,
            "the gateway does not reach its backends over {name}"
        );
        Ok(gateway)
    }

    /// Runs the load and returns its measurement; `size` is that of a response, for some loads.
    pub(super) fn load(&self, cpu: Cpu, line: &str, size: usize) -> anyhow::Result<Value> {
        let log = self.layout.fresh_log("bench-load")?;
        let program = test_server::unconfigured(self.program(cpu, self.binary("bench-load"))?);
        let program = program.args(load_args(line, size)).log_to(&log)?;
        let is_good = program.succeeds(&self.layout.shutdown, None)?;
        let output = fs::read_to_string(&log)?;
        ensure!(is_good, "the load failed: {}", output.trim());
        let measured = output.lines().last().context("nothing was measured")?;
        Ok(serde_json::from_str(measured)?)
    }
}

impl BenchServer {
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

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

/// Returns the arguments of a line with names of `load.txt`. `BATCH` stands for ten echoes, and `{size}`
/// for the size of a response, or for another number.
fn load_args(line: &str, size: usize) -> Vec<String> {
    let options = |word| match meaning(word) {
        Some(options) if word.chars().all(|c| !c.is_ascii_uppercase()) => options,
        _ => word,
    };
    let words = line.split_whitespace().map(options);
    let words = words.flat_map(str::split_whitespace);
    let arg = |word| match word {
        "BATCH" => format!("[{}]", [meaning("ECHO").unwrap_or_default(); 10].join(",")),
        word => meaning(word)
            .unwrap_or(word)
            .replace("{size}", &size.to_string()),
    };
    words.map(arg).collect()
}

fn meaning(name: &str) -> Option<&'static str> {
    let mut lines = NAMES.lines().filter_map(|line| line.split_once('='));
    let found = lines.find(|(other, _)| other.trim() == name);
    found.map(|(_, meaning)| meaning.trim())
}
