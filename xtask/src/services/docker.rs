//! Local Docker Engines and Podman: own data, own socket, and for tests an own network. The programs
//! are those on the search path, or Debian's, unpacked into `target/backends`.

pub(crate) mod cli;
mod podman;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Service};
use crate::install::debian::{self, DebianPackages};
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{Process, Program};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `unshare` for an engine of the tests. In its own network it can neither see nor change
/// the bridges and packet filters of another engine on this machine, and it cannot reach the
/// internet, which suits tests. Its containers live in a namespace of processes that ends with it,
/// and its mounts in another, so that nothing is left of it when it is killed.
const NAMESPACES: &str = "--net --pid --fork --kill-child --mount-proc";

/// Published ports need the loopback interface, which is down in a new network.
const WITH_LOOPBACK: &str = r#"ip link set lo up; exec "$0" "$@""#;

/// The longest path below the folder of the sockets.
const LONGEST_SOCKET: &str = "/exec/containerd/containerd-debug.sock";
/// The longest path that Linux allows for a socket.
const MAX_SOCKET_PATH: usize = 107;

const ENGINE_PACKAGES: DebianPackages =
    DebianPackages::new("docker", &["docker.io", "busybox-static"]);

/// Replaces [`ENGINE_PACKAGES`] if `dockerd` is installed: the shell for the example image.
const BUSYBOX: DebianPackages = DebianPackages::new("busybox", &["busybox-static"]);

/// `docker compose` and `docker buildx`.
const PLUGINS: DebianPackages =
    DebianPackages::new("docker-plugins", &["docker-compose", "docker-buildx"])
        .with_suite("trixie");

/// A registry and an SSH server, which tests start in front of an engine. An installed registry would
/// need no package, but is rare.
const REGISTRY: DebianPackages = DebianPackages::new("registry", &["docker-registry"]);
const SSH: DebianPackages = DebianPackages::new("ssh", &["openssh-server", "openssh-client"]);

/// A kind of engine, each in its own instance.
#[derive(Debug)]
pub(crate) struct Engine {
    name: &'static str,
    /// Packages beside those of the first engine.
    packages: Option<DebianPackages>,
    /// The variable in which the tests find its address.
    test_variable: &'static str,
    command: fn(&Layout, &Instance, Option<PathBuf>) -> anyhow::Result<Program>,
}

/// The engine for `run-all`: the installed one, or Debian's. For the tests Docker 20.10, with version 1.41 of the
/// API, in `nightly`.
pub(crate) static DOCKER: Engine = Engine {
    name: "docker",
    packages: None,
    test_variable: "MCP_TEST_DOCKER_HOSTS",
    command: dockerd,
};

/// The engine of the tests, Docker 26.1, with version 1.45 of the API. It shares the container runtime of the first one, as its
/// own needs a newer C library than this machine may have.
pub(crate) static DOCKER_26: Engine = Engine {
    name: "docker-26",
    packages: Some(
        DebianPackages::new("docker-26", &["docker.io", "containerd"]).with_suite("trixie"),
    ),
    test_variable: "MCP_TEST_DOCKER_HOST",
    command: dockerd,
};

/// Podman 4.3 behind the interface of Docker, for the tests.
pub(crate) static PODMAN: Engine = Engine {
    name: "podman",
    packages: Some(podman::PACKAGES),
    test_variable: "MCP_TEST_PODMAN_HOST",
    command: podman::command,
};

/// Returns the packages of the first engine.
fn packages() -> &'static DebianPackages {
    if on_path("dockerd").is_some() {
        &BUSYBOX
    } else {
        &ENGINE_PACKAGES
    }
}

impl Service for Engine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        // The folder of this process in /proc belongs to its user.
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
        Some(format!(
            "no Docker Engine found: {what}, or set DOCKER_HOST to use another one"
        ))
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
        if self.to_fetch(layout).is_some() {
            packages().install(layout)?;
        }
        match &self.packages {
            Some(packages) => packages.install(layout),
            None => Ok(()),
        }
    }

    /// Starts it with an example image, and for `run-all` with an example container.
    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        create_dir(&runtime_dir(instance))?;
        let root = self.packages.as_ref().map(|packages| packages.root(layout));
        let program = (self.command)(layout, instance, root.clone())?;
        let program = program.envs(environment(layout, root)?);
        let (step, socket) = ("starting an engine", socket(instance));
        let process = instance.start(layout, step, START_TIMEOUT, program, || answers(&socket))?;
        cli::provide_example(layout, instance)?;
        Ok(process)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        vec![(self.test_variable, host(instance).into())]
    }
}

/// Returns the command of a Docker Engine; `root` holds packages that replace those of the first one.
fn dockerd(_: &Layout, instance: &Instance, root: Option<PathBuf>) -> anyhow::Result<Program> {
    let runtime = runtime_dir(instance);
    // A new engine refuses to start when a killed one has left this file.
    let pid_file = instance.file("dockerd.pid");
    let _ = fs::remove_file(&pid_file);
    let program = match instance.purpose {
        Purpose::RunAll => Program::new("dockerd")?,
        Purpose::Test => in_namespaces("dockerd")?,
    };
    // The engine does not look on its search path for the program that forwards published ports.
    let proxy = root.map(|root| root.join("usr/sbin/docker-proxy"));
    let proxy = proxy.map(|proxy| ["--userland-proxy-path".into(), proxy.into_os_string()]);
    Ok(program
        .args(["--data-root".as_ref(), instance.file("data").as_os_str()])
        .args(["--exec-root".as_ref(), runtime.join("exec").as_os_str()])
        .args(["--pidfile".as_ref(), pid_file.as_os_str()])
        .args(["--host", &host(instance)])
        .args(proxy.iter().flatten())
        .without(["DOCKER_HOST"]))
}

/// Downloads the plugins of the docker command if one is missing; returns the folder of `docker-compose` and
/// `docker-buildx`.
pub(crate) fn install_plugins(layout: &Layout) -> anyhow::Result<PathBuf> {
    let installed = on_path("docker-compose").and_then(|file| Some(file.parent()?.to_owned()));
    if let Some(folder) = installed.filter(|folder| folder.join("docker-buildx").exists()) {
        return Ok(folder);
    }
    PLUGINS.install(layout)?;
    // Each is also a program of its own.
    Ok(PLUGINS.root(layout).join("usr/libexec/docker/cli-plugins"))
}

/// Downloads the programs that tests start themselves, as far as they are missing; returns the
/// variable of each, with its file or folder.
pub(crate) fn install_test_programs(
    layout: &Layout,
) -> Vec<(&'static str, anyhow::Result<PathBuf>)> {
    let install = |packages: &DebianPackages, file: &str| {
        packages.install(layout)?;
        Ok(packages.root(layout).join(file))
    };
    let command =
        on_path("docker").unwrap_or_else(|| packages().root(layout).join("usr/bin/docker"));
    vec![
        ("MCP_TEST_COMPOSE_DIR", install_plugins(layout)),
        (
            "MCP_TEST_REGISTRY",
            install(&REGISTRY, "usr/bin/docker-registry"),
        ),
        ("MCP_TEST_SSH_ROOT", install(&SSH, "")),
        ("MCP_TEST_DOCKER_COMMAND", Ok(command)),
    ]
}

/// Returns true when an engine answers on this socket.
pub(crate) fn answers(socket: &Path) -> bool {
    let ping = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        io::Result::Ok(status)
    };
    ping().is_ok_and(|status| status.ends_with(b" 200"))
}

/// Returns the socket of the engine of this instance.
pub(crate) fn socket(instance: &Instance) -> PathBuf {
    runtime_dir(instance).join("docker.sock")
}

/// Returns the address of the engine of this instance, for `DOCKER_HOST`.
pub(crate) fn host(instance: &Instance) -> String {
    format!("unix://{}", socket(instance).display())
}

/// Returns the variables with which the programs of the first engine find each other; those in
/// another root go before them.
fn environment(layout: &Layout, before: Option<PathBuf>) -> anyhow::Result<Environment> {
    let root = packages().root(layout);
    let arch = std::env::consts::ARCH;
    let extensions = root.join(format!("usr/lib/{arch}-linux-gnu/xtables"));
    let roots: Vec<_> = before.into_iter().chain([root]).collect();
    let mut environment = debian::environment(&roots)?;
    environment.push(("XTABLES_LIBDIR", extensions.into()));
    Ok(environment)
}

fn in_namespaces(program: &str) -> anyhow::Result<Program> {
    let unshare = Program::new("unshare")?.words(NAMESPACES);
    Ok(unshare.args(["sh", "-c", WITH_LOOPBACK, program]))
}

/// Returns the folder of the sockets: the instance's, or one for temporary files if that path would be
/// too long.
fn runtime_dir(instance: &Instance) -> PathBuf {
    if instance.dir.as_os_str().len() + LONGEST_SOCKET.len() <= MAX_SOCKET_PATH {
        return instance.dir.clone();
    }
    let mut hasher = DefaultHasher::new();
    instance.dir.hash(&mut hasher);
    std::env::temp_dir().join(format!("docker-{:016x}", hasher.finish()))
}
