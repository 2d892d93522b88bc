//! The three services behind the servers, as they run on this machine.

pub(crate) mod docker;
pub(crate) mod n8n;
pub(crate) mod openhands;
pub(crate) mod postgres;

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::console;
use crate::identity::PidFile;
use crate::layout::{Layout, create_dir};
use crate::process::Process;
use crate::stop::Stop;

/// A service, and with it the server that speaks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The workflow engine.
    N8n,
    /// The agent server of OpenHands.
    OpenHands,
    /// The Docker Engine.
    Docker,
}

impl Service {
    /// All of them, in the order of their ports.
    pub(crate) const ALL: [Self; 3] = [Self::N8n, Self::OpenHands, Self::Docker];

    /// The name for `--only` and as a prefix.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::N8n => "n8n",
            Self::OpenHands => "openhands",
            Self::Docker => "docker",
        }
    }

    /// The binary of its server.
    pub(crate) fn server(self) -> &'static str {
        match self {
            Self::N8n => "n8n-mcp-server",
            Self::OpenHands => "openhands-mcp-server",
            Self::Docker => "docker-mcp-server",
        }
    }

    /// The port of its server.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::N8n => 3456,
            Self::OpenHands => 3457,
            Self::Docker => 3458,
        }
    }

    /// Why a local one cannot be had on this machine, and what would change that.
    pub(crate) fn obstacle(self, layout: &Layout) -> Option<String> {
        match self {
            Self::N8n => n8n::install::obstacle(layout, n8n::Release::Current),
            Self::OpenHands => openhands::install::obstacle(layout),
            Self::Docker => docker::install::obstacle(layout),
        }
    }

    /// What has to be fetched before it can start, and how large that is.
    pub(crate) fn to_fetch(self, layout: &Layout) -> Option<&'static str> {
        match self {
            Self::N8n => n8n::install::to_fetch(layout, n8n::Release::Current),
            Self::OpenHands => openhands::install::to_fetch(layout),
            Self::Docker => docker::install::to_fetch(layout),
        }
    }

    /// Fetches what is not here yet.
    pub(crate) fn install(self, layout: &Layout) -> anyhow::Result<()> {
        match self {
            Self::N8n => n8n::install::install(layout, n8n::Release::Current),
            Self::OpenHands => openhands::install::install(layout),
            Self::Docker => docker::install::install(layout),
        }
    }

    /// Starts the installed service and returns when it can be used.
    pub(crate) fn start(self, layout: &Layout, place: &Place) -> anyhow::Result<Process> {
        match self {
            Self::N8n => n8n::start(layout, place, n8n::Release::Current),
            Self::OpenHands => openhands::start(layout, place),
            Self::Docker => docker::start(layout, place),
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::N8n => n8n::DEFAULT_PORT,
            Self::OpenHands => openhands::DEFAULT_PORT,
            // Any: an engine listens on a socket in its place.
            Self::Docker => 0,
        }
    }
}

/// What a local service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a person, who finds her data again next time.
    RunAll,
    /// For one run of the tests: cut off from everything else, gone afterwards.
    Test,
}

/// Where a local service lives while it runs. Nobody else uses it as long as this exists.
#[derive(Debug)]
pub(crate) struct Place {
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// Its data, keys and pid file.
    pub(crate) dir: PathBuf,
    /// Its port on loopback; none for Docker.
    pub(crate) port: u16,
    _lock: File,
}

impl Place {
    /// Takes the place of a service and ends what a killed run left running there; an
    /// error when another process has it.
    pub(crate) fn take(
        layout: &Layout,
        service: Service,
        purpose: Purpose,
    ) -> anyhow::Result<Self> {
        let (folder, port) = match purpose {
            Purpose::RunAll => ("run-all", service.default_port()),
            Purpose::Test => ("test", 0),
        };
        Self::take_folder(
            layout,
            &format!("{folder}/{}", service.name()),
            purpose,
            port,
        )
    }

    /// Takes the place of a second engine for a run of the tests.
    pub(crate) fn take_newer_docker(layout: &Layout) -> anyhow::Result<Self> {
        Self::take_folder(layout, "test/docker-26", Purpose::Test, 0)
    }

    /// Takes the place of Podman for a run of the tests.
    pub(crate) fn take_podman(layout: &Layout) -> anyhow::Result<Self> {
        Self::take_folder(layout, "test/podman", Purpose::Test, 0)
    }

    /// Takes the place of the engine that the project of docker-compose.yml comes up on.
    pub(crate) fn take_compose(layout: &Layout) -> anyhow::Result<Self> {
        Self::take_folder(layout, "test/compose", Purpose::Test, 0)
    }

    /// Takes the place of a second n8n for a run of the tests: of the oldest version that the
    /// server speaks with.
    pub(crate) fn take_older_n8n(layout: &Layout) -> anyhow::Result<Self> {
        Self::take_folder(layout, "test/n8n-1", Purpose::Test, 0)
    }

    fn take_folder(
        layout: &Layout,
        folder: &str,
        purpose: Purpose,
        port: u16,
    ) -> anyhow::Result<Self> {
        let dir = layout.backends().join(folder);
        create_dir(&dir)?;
        // Container runtimes refuse paths with symbolic links in them.
        let dir = dir.canonicalize()?;
        let lock = File::create(dir.with_extension("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another cargo xtask is using the local {folder}; end that one first");
        }
        let mut place = Self {
            purpose,
            dir,
            port,
            _lock: lock,
        };
        for file in [place.server_pid_path(), place.pid_path()] {
            let grace = Duration::from_secs(25);
            if PidFile::at(file).stop_leftover(&layout.stop, grace) {
                console::say(
                    "xtask",
                    format_args!("ended what a killed run had left running as {folder}"),
                );
            }
        }
        place.port = free_port(port)?;
        Ok(place)
    }

    /// Forgets everything that an earlier service in this place kept.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        docker::clear(&self.dir)?;
        create_dir(&self.dir)
    }

    /// The address of the service, for one that speaks HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where the running service is noted.
    pub(crate) fn pid_path(&self) -> PathBuf {
        self.dir.with_extension("pid")
    }

    /// Where the running server in front of it is noted.
    pub(crate) fn server_pid_path(&self) -> PathBuf {
        self.dir.with_extension("server-pid")
    }

    /// A file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// The wished port when it is free, else any other; 0 wishes nothing.
fn free_port(wished: u16) -> anyhow::Result<u16> {
    let bind = |port| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| listener.local_addr())
    };
    let address = bind(wished).or_else(|_| bind(0)).context("no free port")?;
    Ok(address.port())
}

/// Waits until a service that was just started is ready; says what it logged when it ended instead.
fn wait_ready(
    process: &mut Process,
    stop: &Stop,
    log: &Path,
    limit: Duration,
    mut ready: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let mut ended = false;
    let up = stop.wait_until(limit, || {
        ended = process.ended();
        ended || ready()
    });
    match (up, ended) {
        (true, false) => Ok(()),
        (_, true) => bail!("it ended while starting: {}", last_line(log)),
        _ if stop.requested() => bail!("stopped"),
        _ => bail!("not ready within {} s: {}", limit.as_secs(), last_line(log)),
    }
}

/// The last line of a log that says something.
pub(crate) fn last_line(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("its log is empty")
        .to_owned()
}
