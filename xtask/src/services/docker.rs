//! Docker Engines of our own: own data, own socket, and for the tests an own network. They are the one
//! on the search path, or Debian's, unpacked beside the rest.

pub(crate) mod cli;
mod example;
pub(crate) mod podman;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Service};
use crate::install::debian::{self, Packages};
use crate::instance::{Instance, Purpose, Start};
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{Process, Program};

pub(crate) use example::IMAGE;

/// How long an engine may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs an engine of the tests in a world of its own. In its network it can neither see nor change
/// the bridges and packet filters of another engine on this machine, and it has no way out, which
/// suits tests. Its containers live in a namespace of processes that ends with it, and its mounts in
/// another, so that nothing is left of it when it is killed.
const OWN_WORLD: &str = "--net --pid --fork --kill-child --mount-proc";

/// Published ports need the loopback interface, which starts switched off.
const WITH_LOOPBACK: &str = r#"ip link set lo up; exec "$0" "$@""#;

const OWN: Packages = Packages {
    who: "docker",
    folder: "docker",
    suite: None,
    names: &["docker.io", "busybox-static"],
};

/// An engine that is installed but not running is used; the shell for the example image is always
/// fetched.
const BUSYBOX: Packages = Packages {
    folder: "busybox",
    names: &["busybox-static"],
    ..OWN
};

const NEWER: Packages = Packages {
    who: "docker-26",
    folder: "docker-26",
    suite: Some("trixie"),
    names: &["docker.io", "containerd"],
};

/// Compose 2.26.
const COMPOSE: Packages = Packages {
    who: "compose",
    folder: "compose",
    suite: Some("trixie"),
    names: &["docker-compose"],
};

/// The engine that a person would have.
#[derive(Debug)]
pub(crate) struct Engine;

/// An engine of a newer generation for the tests, Docker 26.1, which speaks version 1.45 of the
/// interface; the first engine speaks 1.41. It shares the container runtime of the first one, as its
/// own wants a newer C library than this machine may have.
#[derive(Debug)]
pub(crate) struct NewerEngine;

/// The packages of the first engine.
fn packages() -> &'static Packages {
    if on_path("dockerd").is_some() {
        &BUSYBOX
    } else {
        &OWN
    }
}

impl Service for Engine {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        let instead = "or set DOCKER_HOST to use another one";
        // Root is who owns this process's folder in /proc.
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let is_here = packages().is_complete(layout) || on_path("dockerd").is_some();
        let what = if !cfg!(target_os = "linux") {
            "install and start Docker"
        } else if !is_root {
            "and only root can start one: start Docker"
        } else if !is_here && on_path("apt-get").is_none() {
            "install Docker (dockerd)"
        } else {
            return None;
        };
        Some(format!("no Docker Engine found: {what}, {instead}"))
    }

    fn to_fetch(&self, layout: &Layout) -> Option<String> {
        let what = if on_path("dockerd").is_some() {
            "busybox from Debian's packages, for an example container: 1 MB, seconds"
        } else {
            "Docker Engine and busybox from Debian's packages: about 70 MB to fetch, 260 MB on disk, seconds"
        };
        let is_needed = !packages().is_complete(layout) && on_path("apt-get").is_some();
        is_needed.then(|| what.to_owned())
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        match self.to_fetch(layout) {
            Some(_) => packages().install(layout),
            None => Ok(()),
        }
    }

    /// Starts it, with an image and a container to look at.
    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        launch(layout, instance, environment(layout, None)?, None)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        vec![("MCP_TEST_DOCKER_HOST", host(instance).into())]
    }
}

impl Service for NewerEngine {
    fn name(&self) -> &'static str {
        "docker-26"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        Engine.obstacle(layout)
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        Engine.install(layout)?;
        NEWER.install(layout)
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let root = NEWER.root(layout);
        // It does not look for what forwards published ports on its search path.
        let proxy = root.join("usr/sbin/docker-proxy");
        let environment = environment(layout, Some(root))?;
        launch(layout, instance, environment, Some(proxy))
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        vec![("MCP_TEST_DOCKER_HOSTS", host(instance).into())]
    }
}

/// Fetches compose where it is missing; returns the folder that holds `docker-compose`.
pub(crate) fn install_compose(layout: &Layout) -> anyhow::Result<PathBuf> {
    let installed = on_path("docker-compose").and_then(|file| Some(file.parent()?.to_owned()));
    if let Some(folder) = installed {
        return Ok(folder);
    }
    COMPOSE.install(layout)?;
    // A plugin of the docker command that also runs by itself.
    let root = COMPOSE.root(layout);
    Ok(root.join("usr/libexec/docker/cli-plugins"))
}

/// Returns true when an engine answers on this socket.
pub(crate) fn answers(socket: &Path) -> bool {
    let ping = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        io::Result::Ok(answer)
    };
    ping().is_ok_and(|answer| answer.ends_with(b" 200"))
}

/// Returns the socket of the engine of this instance.
pub(crate) fn socket(instance: &Instance) -> PathBuf {
    runtime_dir(instance).join("docker.sock")
}

/// Returns the address of the engine of this instance, as `DOCKER_HOST` wants it.
pub(crate) fn host(instance: &Instance) -> String {
    format!("unix://{}", socket(instance).display())
}

/// Returns the variables with which the programs of the first engine find each other; what lies in
/// another root goes before them.
pub(crate) fn environment(layout: &Layout, before: Option<PathBuf>) -> anyhow::Result<Environment> {
    let root = packages().root(layout);
    let extensions = root.join(format!(
        "usr/lib/{}-linux-gnu/xtables",
        std::env::consts::ARCH
    ));
    let roots: Vec<_> = before.into_iter().chain([root]).collect();
    let mut environment = debian::environment(&roots)?;
    environment.push(("XTABLES_LIBDIR", extensions.into()));
    Ok(environment)
}

fn launch(
    layout: &Layout,
    instance: &Instance,
    environment: Environment,
    proxy: Option<PathBuf>,
) -> anyhow::Result<Process> {
    let runtime = runtime_dir(instance);
    create_dir(&runtime)?;
    // Left by a killed engine, which is gone by now; a new one would refuse to start.
    let own_pid_file = instance.file("dockerd.pid");
    let _ = fs::remove_file(&own_pid_file);

    let program = match instance.purpose {
        Purpose::RunAll => Program::new("dockerd")?,
        Purpose::Test => in_own_world("dockerd")?,
    };
    let proxy = proxy.map(|proxy| ["--userland-proxy-path".into(), proxy.into_os_string()]);
    let program = program
        .args(["--data-root".as_ref(), instance.file("data").as_os_str()])
        .args(["--exec-root".as_ref(), runtime.join("exec").as_os_str()])
        .args(["--pidfile".as_ref(), own_pid_file.as_os_str()])
        .args(["--host", &host(instance)])
        .args(proxy.iter().flatten())
        .envs(environment)
        .without(["DOCKER_HOST"]);
    start(layout, instance, "docker", program)
}

/// Starts an engine, with the example image.
fn start(
    layout: &Layout,
    instance: &Instance,
    who: &'static str,
    program: Program,
) -> anyhow::Result<Process> {
    let start = Start {
        who,
        step: "starting an engine".to_owned(),
        log: &layout.fresh_log(&format!("engine-{}", instance.name))?,
        timeout: START_TIMEOUT,
    };
    let socket = socket(instance);
    let process = instance.start(layout, start, program, || answers(&socket))?;
    example::provide(layout, instance)?;
    Ok(process)
}

fn in_own_world(program: &str) -> anyhow::Result<Program> {
    let unshare = Program::new("unshare")?.words(OWN_WORLD);
    Ok(unshare.args(["sh", "-c", WITH_LOOPBACK, program]))
}

/// Returns the folder of the sockets. The system allows a path of 107 bytes for one, so a workspace
/// that lies deep has them in the folder for temporary files.
fn runtime_dir(instance: &Instance) -> PathBuf {
    const LONGEST_SOCKET: &str = "/exec/containerd/containerd-debug.sock";
    if instance.dir.as_os_str().len() + LONGEST_SOCKET.len() <= 107 {
        return instance.dir.clone();
    }
    let mut hasher = DefaultHasher::new();
    instance.dir.hash(&mut hasher);
    std::env::temp_dir().join(format!("docker-{:016x}", hasher.finish()))
}
