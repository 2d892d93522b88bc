//! Local Docker Engines and Podman: own data, own socket, and for tests an own network. The programs are those on the
//! search path, or Debian's.

mod podman;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Service};
use anyhow::Result;

use crate::console::Heartbeat;
use crate::install::debian::{self, DebianPackages};
use crate::instance::{Instance, Purpose};
use crate::layout::{create_dir, on_path};
use crate::process::{Process, Program, is_root};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `unshare` for an engine of the tests. In its own network it can neither see nor change the bridges and
/// packet filters of another engine on this machine, and it cannot reach the internet, which suits tests. Its containers
/// and mounts live in namespaces that end with it, so that nothing is left of it when it is killed.
const NAMESPACES: &str = "--net --pid --fork --kill-child --mount-proc";

/// Published ports need the loopback interface, which is down in a new network.
const WITH_LOOPBACK: &str = r#"ip link set lo up; exec "$0" "$@""#;

/// The longest path below the folder of the sockets.
const LONGEST_SOCKET: &str = "/exec/containerd/containerd-debug.sock";
/// The longest path that Linux allows for a socket.
const MAX_SOCKET_PATH: usize = 107;

const ENGINE_PACKAGES: DebianPackages = DebianPackages("docker", "", "docker.io busybox-static");

/// Replaces [`ENGINE_PACKAGES`] if `dockerd` is installed: the shell for the example image.
const BUSYBOX: DebianPackages = DebianPackages("busybox", "", "busybox-static");

/// `docker compose` and `docker buildx`.
const PLUGINS: DebianPackages =
    DebianPackages("docker-plugins", "trixie", "docker-compose docker-buildx");

/// A registry and an SSH server, which tests start in front of an engine.
const REGISTRY: DebianPackages = DebianPackages("registry", "", "docker-registry");
const SSH: DebianPackages = DebianPackages("ssh", "", "openssh-server openssh-client");

/// A kind of engine, each in its own instance.
pub(crate) struct Engine {
    name: &'static str,
    /// Packages beside those of the first engine.
    packages: Option<DebianPackages>,
    /// The variable in which the tests find its address.
    test_variable: &'static str,
    /// Returns its command; the path is that of its packages.
    command: fn(&Instance, Option<&Path>) -> Result<Program>,
}

/// The engine for `run-all`: the installed one, or Debian's. In `nightly` Docker 20.10, with version 1.41 of the API.
pub(crate) static DOCKER: Engine = Engine {
    name: "docker",
    packages: None,
    test_variable: "MCP_TEST_DOCKER_HOSTS",
    command: dockerd,
};

/// The engine of the tests, Docker 26.1, with version 1.45 of the API. It shares the container runtime of the first one,
/// as its own needs a newer C library than this machine may have.
pub(crate) static DOCKER_26: Engine = newer("docker-26", "trixie", "MCP_TEST_DOCKER_HOST");

/// The newest engine that Debian has, Docker 28.5 with version 1.51 of the API, in `nightly`. It shares that, as well.
pub(crate) static DOCKER_28: Engine = newer("docker-28", "sid", "MCP_TEST_DOCKER_HOSTS");

const fn newer(name: &'static str, release: &'static str, test_variable: &'static str) -> Engine {
    Engine {
        name,
        packages: Some(DebianPackages(name, release, "docker.io containerd")),
        test_variable,
        command: dockerd,
    }
}

/// Podman 4.3 behind the interface of Docker, for the tests.
pub(crate) static PODMAN: Engine = Engine {
    name: "podman",
    packages: Some(podman::PACKAGES),
    test_variable: "MCP_TEST_PODMAN_HOST",
    command: podman::command,
};

fn is_installed() -> bool {
    on_path("dockerd").is_some()
}

fn packages() -> &'static DebianPackages {
    match is_installed() {
        true => &BUSYBOX,
        false => &ENGINE_PACKAGES,
    }
}

impl Service for Engine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn obstacle(&self) -> Option<String> {
        let is_here = packages().is_complete() || is_installed();
        let what = if !cfg!(target_os = "linux") {
            "install and start Docker"
        } else if !is_root() {
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

    fn to_fetch(&self) -> Option<String> {
        let what = if is_installed() {
            "busybox from Debian's packages, for an example container: 1 MB, seconds"
        } else {
            "Docker Engine and busybox from Debian's packages: about 70 MB to fetch, 260 MB on disk, seconds"
        };
        let is_needed = !packages().is_complete() && on_path("apt-get").is_some();
        is_needed.then(|| what.to_owned())
    }

    fn install(&self) -> Result<()> {
        if self.to_fetch().is_some() {
            packages().install()?;
        }
        self.packages.iter().try_for_each(DebianPackages::install)
    }

    /// Starts it with an example image, and for `run-all` with an example container.
    fn start(&self, instance: &Instance) -> Result<Process> {
        create_dir(&runtime_dir(instance))?;
        let root = self.packages.as_ref().map(|packages| packages.root());
        let program = (self.command)(instance, root.as_deref())?;
        let program = program.envs(environment(root)?);
        let (step, socket) = ("starting an engine", socket(instance));
        let process = instance.start(step, START_TIMEOUT, program, || answers(&socket))?;
        provide_example(instance)?;
        Ok(process)
    }

    fn test_environment(&self, instance: &Instance) -> Environment {
        vec![(self.test_variable, host(instance).into())]
    }
}

/// Returns the command of a Docker Engine; `root` holds packages that replace those of the first one.
fn dockerd(instance: &Instance, root: Option<&Path>) -> Result<Program> {
    // A new engine refuses to start when a killed one has left this file.
    let pid_file = instance.file("dockerd.pid");
    let _ = fs::remove_file(&pid_file);
    let program = match instance.purpose {
        Purpose::RunAll => Program::new("dockerd"),
        Purpose::Test => in_namespaces("dockerd"),
    };
    let program = program
        .option("--data-root", instance.file("data"))
        .option("--exec-root", runtime_dir(instance).join("exec"))
        .option("--pidfile", pid_file)
        .option("--host", host(instance))
        .without(["DOCKER_HOST"]);
    // The engine does not look on its search path for the program that forwards published ports.
    Ok(match root {
        Some(root) => program.option("--userland-proxy-path", root.join("usr/sbin/docker-proxy")),
        None => program,
    })
}

/// Makes an image from busybox if it is missing, and unless `$0` is "Test" also a container that says hello.
const EXAMPLE: &str = r#"
    set -e
    if docker image inspect busybox:test > /dev/null 2>&1; then exit; fi
    mkdir -p busybox/bin busybox/tmp
    cp "$BUSYBOX" busybox/bin/busybox
    # Links for its commands.
    busybox/bin/busybox --install busybox/bin
    tar --owner=0 --group=0 -cf - -C busybox . |
        docker import --change 'ENV PATH=/bin' --change 'CMD ["/bin/sh"]' - busybox:test
    [ "$0" != Test ] || exit 0
    # Its shell ignores SIGTERM, so one second is a long enough timeout.
    docker run --detach --name hello-world --restart unless-stopped --stop-timeout 1 busybox:test \
        sh -c "while true; do echo 'Hello, World!'; sleep 2; done"
"#;

fn provide_example(instance: &Instance) -> Result<()> {
    let unpacked = Some(packages().root().join("bin/busybox"));
    let unpacked = unpacked.filter(|file| file.exists());
    let Some(busybox) = unpacked.or_else(|| on_path("busybox")) else {
        let text = "no busybox to make an example image from; the engine has no image yet";
        print_as!("docker", "{text}");
        return Ok(());
    };
    let program = Program::new("sh")
        .args(["-c", EXAMPLE, &format!("{:?}", instance.purpose)])
        .envs(environment(None)?)
        .envs([("DOCKER_HOST", host(instance))])
        .envs([("BUSYBOX", busybox)])
        // They would select another engine, or another way to this one.
        .without(["DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"])
        .dir(&instance.dir);
    let heartbeat = Heartbeat::start(instance.service, "making an example image");
    program.run(heartbeat, &instance.log()?)
}

/// Downloads `docker-compose` and `docker-buildx` if one is missing; returns their folder.
pub(crate) fn install_plugins() -> Result<PathBuf> {
    let installed = on_path("docker-compose").and_then(|file| Some(file.parent()?.to_owned()));
    if let Some(folder) = installed.filter(|folder| folder.join("docker-buildx").exists()) {
        return Ok(folder);
    }
    PLUGINS.install()?;
    // Each is also a program of its own.
    Ok(PLUGINS.root().join("usr/libexec/docker/cli-plugins"))
}

/// Downloads missing programs that tests start themselves; returns the variable of each, with its file or folder.
pub(crate) fn install_test_programs() -> [(&'static str, Result<PathBuf>); 4] {
    let unpacked = |packages: &DebianPackages, file| {
        packages.install()?;
        Ok(packages.root().join(file))
    };
    let registry = unpacked(&REGISTRY, "usr/bin/docker-registry");
    let docker = || packages().root().join("usr/bin/docker");
    let docker = on_path("docker").unwrap_or_else(docker);
    [
        ("MCP_TEST_COMPOSE_DIR", install_plugins()),
        ("MCP_TEST_REGISTRY", registry),
        ("MCP_TEST_SSH_ROOT", unpacked(&SSH, "")),
        ("MCP_TEST_DOCKER_COMMAND", Ok(docker)),
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

fn socket(instance: &Instance) -> PathBuf {
    runtime_dir(instance).join("docker.sock")
}

/// Returns the address of the engine of this instance, for `DOCKER_HOST`.
pub(crate) fn host(instance: &Instance) -> String {
    format!("unix://{}", socket(instance).display())
}

/// Returns the variables with which the programs of the first engine find each other, after those in another root.
fn environment(before: Option<PathBuf>) -> Result<Environment> {
    let root = packages().root();
    let arch = std::env::consts::ARCH;
    let extensions = root.join(format!("usr/lib/{arch}-linux-gnu/xtables"));
    let roots: Vec<_> = before.into_iter().chain([root]).collect();
    let mut environment = debian::environment(&roots)?;
    environment.push(("XTABLES_LIBDIR", extensions.into()));
    Ok(environment)
}

fn in_namespaces(program: &str) -> Program {
    let unshare = Program::new("unshare").words(NAMESPACES);
    unshare.args(["sh", "-c", WITH_LOOPBACK, program])
}

/// Returns the folder of the sockets: the instance's, or one for temporary files if that path would be too long.
fn runtime_dir(instance: &Instance) -> PathBuf {
    if instance.dir.as_os_str().len() + LONGEST_SOCKET.len() <= MAX_SOCKET_PATH {
        return instance.dir.clone();
    }
    let mut hasher = DefaultHasher::new();
    instance.dir.hash(&mut hasher);
    std::env::temp_dir().join(format!("docker-{:016x}", hasher.finish()))
}
