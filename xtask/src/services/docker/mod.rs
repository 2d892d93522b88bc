//! A Docker Engine of our own: own data, own socket, and for the tests an own network.

pub(crate) mod cli;
pub(crate) mod compose;
mod debian;
mod example;
pub(crate) mod install;
mod leftover;
pub(crate) mod newer;
pub(crate) mod podman;

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::{Process, Program};
use crate::services::{Place, Purpose, wait_ready};

/// Where an engine listens unless told otherwise.
pub(crate) const DEFAULT_SOCKET: &str = "/var/run/docker.sock";

pub(crate) use example::IMAGE;
pub(crate) use leftover::clear;

/// The engine gives its containers ten seconds before it ends.
const GRACE: Duration = Duration::from_secs(25);

/// Starts the engine in a network namespace of its own. There it can neither see nor change
/// the bridges and packet filters of another engine on this machine, and it has no way out,
/// which suits tests. Published ports need the loopback interface, which starts switched off.
const OWN_NETWORK: &str = r#"ip link set lo up; exec dockerd "$0" "$@""#;

/// True when an engine answers on this socket.
pub(crate) fn answers(socket: &Path) -> bool {
    let ping = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ping().is_ok_and(|answer| answer.ends_with(b" 200"))
}

/// The socket of the engine of this place.
pub(crate) fn socket(place: &Place) -> PathBuf {
    runtime_dir(place).join("docker.sock")
}

/// The address of the engine of this place, as `DOCKER_HOST` wants it.
pub(crate) fn host(place: &Place) -> String {
    format!("unix://{}", socket(place).display())
}

/// Starts it, with an image and a container to look at.
pub(crate) fn start(layout: &Layout, place: &Place) -> anyhow::Result<Process> {
    let log = match place.purpose {
        Purpose::RunAll => "dockerd",
        Purpose::Test => "dockerd-test",
    };
    let environment = install::environment(layout)?;
    launch(layout, place, log, environment, &[])
}

/// Starts the newer one, with the same image.
pub(crate) fn start_newer(layout: &Layout, place: &Place, log: &str) -> anyhow::Result<Process> {
    let environment = newer::environment(layout)?;
    let proxy = newer::proxy(layout).into_os_string();
    let args = ["--userland-proxy-path".into(), proxy];
    launch(layout, place, log, environment, &args)
}

fn launch(
    layout: &Layout,
    place: &Place,
    log: &str,
    environment: Vec<(&'static str, OsString)>,
    args: &[OsString],
) -> anyhow::Result<Process> {
    let mut beat = Heartbeat::start("docker", "starting a Docker Engine");
    let log = layout.fresh_log(log)?;
    let runtime = runtime_dir(place);
    create_dir(&runtime)?;
    // Left by a killed engine, which is gone by now; a new one would refuse to start.
    let own_pid_file = place.file("dockerd.pid");
    let _ = std::fs::remove_file(&own_pid_file);

    let (program, first) = match place.purpose {
        Purpose::RunAll => ("dockerd", &[][..]),
        Purpose::Test => ("unshare", &["--net", "sh", "-c", OWN_NETWORK][..]),
    };
    let mut process = Program::guarded(program, GRACE, Some(&place.pid_path()))?
        .args(first)
        .args(["--data-root".as_ref(), place.file("data").as_os_str()])
        .args(["--exec-root".as_ref(), runtime.join("exec").as_os_str()])
        .args(["--pidfile".as_ref(), own_pid_file.as_os_str()])
        .args(["--host", &host(place)])
        .args(args)
        .envs(environment)
        .env_remove("DOCKER_HOST")
        .log_to(&log)?
        .spawn()?;
    let socket = socket(place);
    wait_ready(
        &mut process,
        &layout.stop,
        &log,
        Duration::from_secs(60),
        || {
            beat.beat();
            answers(&socket)
        },
    )?;
    example::provide(layout, place)?;
    Ok(process)
}

/// Where the sockets are. The system allows a path of 107 bytes for one, so a workspace
/// that lies deep has them in the folder for temporary files.
fn runtime_dir(place: &Place) -> PathBuf {
    const LONGEST_SOCKET: &str = "/exec/containerd/containerd-debug.sock";
    if place.dir.as_os_str().len() + LONGEST_SOCKET.len() <= 107 {
        return place.dir.clone();
    }
    let mut hasher = DefaultHasher::new();
    place.dir.hash(&mut hasher);
    std::env::temp_dir().join(format!("docker-{:016x}", hasher.finish()))
}
