//! Three gateways on one PostgreSQL, each with a proxy in front of its database, and nginx in front of them all.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::client::Client;
use super::proxy::{Mode, Proxy};
use crate::instance::{Instance, Purpose, clear_dir, free_port};
use crate::layout::Layout;
use crate::nginx;
use crate::process::{Process, Program};
use crate::servers::Gateway;
use crate::services::Service as _;
use crate::services::postgres::Postgres;
use crate::test_server::{self, FIXTURE, RunningServer};

pub(super) const REPLICAS: usize = 3;
/// The number of nginx in the clients' list of servers, after the replicas.
pub(super) const BALANCER: usize = REPLICAS;

/// The key of all replicas, as long as they demand.
const SESSION_KEY: &str = "one key for all, of 32 characters";

const START_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Cluster<'a> {
    pub(super) layout: &'a Layout,
    programs: PathBuf,
    dir: PathBuf,
    pub(super) ports: Vec<u16>,
    pub(super) gateways: Vec<Option<RunningServer>>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) client: Client,
    pub(super) nginx_port: u16,
    _nginx: Process,
    _backend: RunningServer,
    standby: Option<Standby>,
    postgres: Process,
    instance: Instance,
}

/// A server that can take the place of the first one.
struct Standby {
    port: u16,
    _process: Process,
}

impl<'a> Cluster<'a> {
    pub(super) fn start(
        layout: &'a Layout,
        programs: PathBuf,
        has_standby: bool,
    ) -> anyhow::Result<Self> {
        let instance = Instance::lock(layout, "replicas", Purpose::Test, 0)?;
        instance.clear()?;
        Postgres.install(layout)?;
        let postgres = Postgres.start(layout, &instance)?;
        let standby = has_standby.then(|| {
            let port = free_port(0)?;
            let process = Postgres.start_standby(layout, &instance, port)?;
            anyhow::Ok(Standby {
                port,
                _process: process,
            })
        });
        let standby = standby.transpose()?;
        let dir = layout.backends().join("replicas");
        clear_dir(&dir)?;
        let log = layout.fresh_log("replicas-backend")?;
        let backend = Program::new(programs.join(FIXTURE))?.words("--port 0");
        let backend = test_server::unconfigured(backend);
        let backend = test_server::listen(layout, backend, &log, test_server::listens_on)?;
        let child = programs.join(FIXTURE);
        let config = format!(
            "[backends.http]\nurl = \"http://127.0.0.1:{}/mcp\"\nbare = true\n\
             [backends.old]\ncommand = [{child:?}, \"legacy\"]\ndeny = [\"test://*\", \"codefluss://*\"]\n",
            backend.port
        );
        fs::write(dir.join("gateway.toml"), config)?;
        let proxies: Vec<_> = (0..REPLICAS)
            .map(|_| Proxy::start(instance.port))
            .collect::<Result<_, _>>()?;
        let ports: Vec<u16> = (0..REPLICAS)
            .map(|_| free_port(0))
            .collect::<Result<_, _>>()?;
        let (nginx, nginx_port) = start_nginx(layout, &dir, &ports)?;
        let mut cluster = Self {
            layout,
            programs,
            dir,
            client: Client::new(&[&ports[..], &[nginx_port]].concat()),
            ports,
            gateways: Vec::new(),
            proxies,
            nginx_port,
            _nginx: nginx,
            _backend: backend,
            standby,
            postgres,
            instance,
        };
        for at in 0..REPLICAS {
            let gateway = cluster.launch(at)?;
            cluster.gateways.push(Some(gateway));
        }
        for at in 0..REPLICAS {
            cluster.wait_ready(at)?;
        }
        Ok(cluster)
    }

    fn launch(&self, at: usize) -> anyhow::Result<RunningServer> {
        let log = self.layout.fresh_log(&format!("replicas-gateway-{at}"))?;
        let mut hosts = format!("127.0.0.1:{}", self.proxies[at].port);
        if let Some(standby) = &self.standby {
            hosts += &format!(",127.0.0.1:{}", standby.port);
        }
        let store = format!("postgres://mcp@{hosts}/postgres?sslmode=disable");
        let program = Program::new(self.programs.join(Gateway::PROGRAM))?
            .args([
                "--config".as_ref(),
                self.dir.join("gateway.toml").as_os_str(),
            ])
            .args(["--port", &self.ports[at].to_string(), "--events", &store]);
        let program = test_server::unconfigured(program);
        let program = program.envs([("MCP_SESSION_KEY", SESSION_KEY)]);
        test_server::listen(self.layout, program, &log, test_server::listens_on)
    }

    /// Waits until a replica lists the tools of both backends.
    fn wait_ready(&self, at: usize) -> anyhow::Result<()> {
        let is_ready = self.layout.shutdown.wait_until(START_TIMEOUT, || {
            let listed = self.client.ask(at, "", "tools/list", json!({}));
            let listed = listed.map(|listed| listed.to_string()).unwrap_or_default();
            ["\"slow\"", "\"old__slow\""]
                .iter()
                .all(|name| listed.contains(name))
        });
        ensure!(is_ready, "replica {at} does not list the tools");
        Ok(())
    }

    /// Kills a replica, which does not notice it.
    pub(super) fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        let gateway = self.gateways[at].take().context("it does not run")?;
        kill_process(&gateway.process)
    }

    /// Kills the first server of the database.
    pub(super) fn kill_database(&self) -> anyhow::Result<()> {
        kill_process(&self.postgres)
    }

    /// Makes the standby take its place.
    pub(super) fn promote(&self) -> anyhow::Result<()> {
        Postgres.promote(self.layout, &self.instance)
    }

    /// Asks a replica to end, and waits for that.
    pub(super) fn stop(&mut self, at: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateways[at].take().context("it does not run")?;
        kill(
            gateway.process.pid().context("no process id")?,
            Signal::SIGTERM,
        )?;
        let timeout = Duration::from_secs(30);
        let has_ended = (self.layout.shutdown).wait_until(timeout, || gateway.process.ended());
        ensure!(has_ended, "replica {at} does not end");
        Ok(())
    }

    /// Starts a replica that was stopped or killed.
    pub(super) fn restart(&mut self, at: usize) -> anyhow::Result<()> {
        self.gateways[at] = Some(self.launch(at)?);
        self.wait_ready(at)
    }

    /// Ends all faults, so that a row which failed does not fail the next ones.
    pub(super) fn repair(&mut self) -> anyhow::Result<()> {
        for proxy in &self.proxies {
            proxy.set(Mode::Open);
        }
        for at in 0..REPLICAS {
            if self.gateways[at]
                .as_mut()
                .is_none_or(|gateway| gateway.process.ended())
            {
                self.restart(at)?;
            }
        }
        Ok(())
    }
}

fn kill_process(process: &Process) -> anyhow::Result<()> {
    kill(process.pid().context("no process id")?, Signal::SIGKILL)?;
    Ok(())
}

fn start_nginx(
    layout: &Layout,
    dir: &std::path::Path,
    ports: &[u16],
) -> anyhow::Result<(Process, u16)> {
    let port = free_port(0)?;
    // The file that users get, with the addresses of this machine.
    let mut config = include_str!("../../../docker-compose.nginx.conf").replace("/tmp/", "");
    let names = (1..).map(|number| format!("mcp-gateway-{number}:3455"));
    let servers = names.zip(ports.iter().map(|port| format!("127.0.0.1:{port}")));
    for (from, to) in servers.chain([("listen 3455".into(), format!("listen 127.0.0.1:{port}"))]) {
        ensure!(
            config.contains(&from),
            "docker-compose.nginx.conf has no {from}"
        );
        config = config.replace(&from, &to);
    }
    let file = dir.join("nginx.conf");
    fs::write(&file, format!("daemon off;\n{config}"))?;
    let log = layout.fresh_log("replicas-nginx")?;
    let (program, libraries) = nginx::install(layout)?;
    let mut nginx = nginx::program(Program::new(program)?, dir, &file, libraries)
        .log_to(&log)?
        .spawn()?;
    nginx.wait_ready(&layout.shutdown, &log, START_TIMEOUT, || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    })?;
    Ok((nginx, port))
}
