//! Three gateways on one PostgreSQL with a standby, and nginx in front of them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::http::Client;
use crate::instance::{clear_dir, free_port};
use crate::process::{Process, Program};
use crate::servers::{self, Gateway};
use crate::services::RunningService;
use crate::services::postgres::Postgres;
use crate::test_server::{self, FIXTURE, RunningServer};
use crate::{layout, shutdown};

pub(super) const REPLICAS: usize = 3;
/// The number of nginx in the clients' list of servers, after the replicas.
pub(super) const BALANCER: usize = REPLICAS;

/// The key of all replicas, as long as they demand.
const SESSION_KEY: &str = "one key for all, of 32 characters";

/// The file of nginx that users get.
const NGINX_CONFIG: &str = include_str!("../../../deploy/nginx.conf");

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The time in which gateways say that the database is away, or is back.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than any answer takes, and shorter than the gateway's own timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    config: PathBuf,
    ports: Vec<u16>,
    gateways: [Option<RunningServer>; REPLICAS],
    pub(super) clients: Vec<Client>,
    pub(super) nginx: RunningServer,
    _backend: RunningServer,
    standby_port: u16,
    _standby: Process,
    postgres: RunningService,
}

impl Cluster {
    pub(super) fn start() -> Result<Self> {
        let postgres = RunningService::start(&Postgres)?;
        let standby_port = free_port(0)?;
        let standby = Postgres.start_standby(&postgres.instance, standby_port)?;
        let backend = test_server::start(FIXTURE, "replicas-backend", &[])?;
        let dir = layout::backends().join("replicas");
        clear_dir(&dir)?;
        let config = dir.join("gateway.toml");
        let (url, old) = (servers::url(backend.port), test_server::binary());
        let text = format!(
            "[backends.http]\nurl = \"{url}\"\nbare = true\n\
             [backends.old]\ncommand = [{old:?}, \"legacy\"]\ndeny = [\"test://*\", \"codefluss://*\"]\n"
        );
        fs::write(&config, text)?;
        let ports: Vec<_> = (0..REPLICAS).map(|_| free_port(0)).collect::<Result<_>>()?;
        let nginx = start_nginx(&ports)?;
        let all = ports.iter().chain([&nginx.port]);
        let client =
            |port: &u16| Client::at(*port, CALL_TIMEOUT).with("accept", "application/json");
        let mut cluster = Self {
            config,
            clients: all.map(client).collect(),
            ports,
            gateways: [const { None }; REPLICAS],
            nginx,
            _backend: backend,
            standby_port,
            _standby: standby,
            postgres,
        };
        cluster.repair()?;
        Ok(cluster)
    }

    fn launch(&self, at: usize) -> Result<RunningServer> {
        let (primary, standby) = (self.postgres.instance.port, self.standby_port);
        let hosts = format!("127.0.0.1:{primary},127.0.0.1:{standby}");
        let store = format!("postgres://mcp@{hosts}/postgres?sslmode=disable");
        let program = Program::new(layout::binaries(false).join(Gateway::PROGRAM))
            .option("--config", &self.config)
            .option("--port", self.ports[at].to_string())
            .option("--events", store);
        let env = [("MCP_SESSION_KEY", SESSION_KEY)];
        test_server::launch(&format!("replicas-gateway-{at}"), program, &env)
    }

    /// Waits until a replica lists the tools of both backends.
    fn wait_ready(&self, at: usize) -> Result<()> {
        let is_ready = shutdown::wait_until(START_TIMEOUT, || {
            let listed = self.clients[at].ask("", "tools/list", json!({}));
            let listed = listed.map(|listed| listed.to_string()).unwrap_or_default();
            listed.contains("\"slow\"") && listed.contains("\"old__slow\"")
        });
        ensure!(is_ready, "replica {at} does not list the tools");
        Ok(())
    }

    /// Kills a replica, which does not notice it.
    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        let gateway = self.gateways[at].take().context("it does not run")?;
        Ok(kill(gateway.process.pid, Signal::SIGKILL)?)
    }

    /// Sends a signal to the first server of the database, and to its processes: a stopped one keeps its connections, and
    /// answers nothing.
    pub(super) fn signal_database(&self, signal: Signal) -> Result<()> {
        let server = self.postgres.process.pid;
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"))?;
        kill(server, signal)?;
        for child in children.split_whitespace() {
            // One that has ended meanwhile is none.
            let _ = kill(Pid::from_raw(child.parse()?), signal);
        }
        Ok(())
    }

    pub(super) fn restart_database(&mut self) -> Result<()> {
        let postgres = &mut self.postgres;
        // Before the new one, which has its mark.
        postgres.process.stop();
        postgres.process = Postgres.start_again(&postgres.instance)?;
        Ok(())
    }

    /// Waits until all gateways say that they have their database, or that they do not.
    pub(super) fn are_ready(&self, is_ready: bool) -> Result<Duration> {
        let started = Instant::now();
        let all_are = shutdown::wait_until(READY_TIMEOUT, || {
            let mut clients = self.clients[..REPLICAS].iter();
            clients.all(|client| client.is_up("/readyz") == is_ready)
        });
        let what = "/readyz is not 200 at all gateways, or not other";
        ensure!(all_are, "{what}: {is_ready}");
        Ok(started.elapsed())
    }

    pub(super) fn promote(&self) -> Result<()> {
        Postgres.promote(&self.postgres.instance)
    }

    pub(super) fn upgrade(&mut self, at: usize) -> Result<()> {
        drop(self.gateways[at].take());
        self.repair()
    }

    /// Starts the replicas that do not run.
    pub(super) fn repair(&mut self) -> Result<()> {
        let mut started = Vec::new();
        for at in 0..REPLICAS {
            let gateway = self.gateways[at].as_mut();
            if gateway.is_none_or(|gateway| gateway.process.ended()) {
                self.gateways[at] = Some(self.launch(at)?);
                started.push(at);
            }
        }
        started.into_iter().try_for_each(|at| self.wait_ready(at))
    }
}

fn start_nginx(ports: &[u16]) -> Result<RunningServer> {
    let port = free_port(0)?;
    // With the addresses of this machine.
    let mut config = NGINX_CONFIG.replace("/tmp/", "");
    let names = (1..).map(|number| format!("mcp-gateway-{number}:3455"));
    let servers = names.zip(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    for (from, to) in servers.chain([("listen 3455".into(), format!("listen 127.0.0.1:{port}"))]) {
        ensure!(config.contains(&from), "deploy/nginx.conf has no {from}");
        config = config.replace(&from, &to);
    }
    let config = format!("daemon off;\n{config}");
    test_server::start_nginx("replicas-nginx", &config, port, Program::new)
}
