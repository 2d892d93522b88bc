//! What stands before another server: the gateway, and nginx to measure it beside as a plain reverse
//! proxy.
//!
//! The gateway does all that it does in use: it asks for a token, checks what it passes on, and
//! writes every call into its event log, a SQLite file. nginx does nothing but pass on. It is that of
//! this machine, or Debian's package unpacked beside the rest.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::ensure;

use super::peer::{Bench, Cpu, Peer};
use crate::fixture::{self, FIXTURE};
use crate::gateway::PROGRAM;
use crate::install::debian::{self, Packages};
use crate::instance::free_port;
use crate::layout::{create_dir, on_path};

/// How long the gateway may take to reach its backend.
const START_TIMEOUT: Duration = Duration::from_secs(30);

const PACKAGES: Packages = Packages {
    who: "bench",
    folder: "nginx",
    suite: None,
    names: &["nginx"],
};

/// nginx's own defaults, except what would cost it something that a proxy in use would not pay:
/// connections to the backend are kept, and none is given up for its age.
const CONFIG: &str = include_str!("nginx.conf");

/// Starts nginx in front of our server. One process, as the CPU time of one is read.
pub(super) fn nginx(bench: &Bench<'_>) -> anyhow::Result<Peer> {
    let backend = bench.ours(Cpu::Load)?;
    let (program, libraries) = match on_path("nginx") {
        Some(installed) => (installed, Vec::new()),
        None => {
            PACKAGES.install(bench.layout)?;
            let root = PACKAGES.root(bench.layout);
            let program = root.join("usr/sbin/nginx");
            (program, debian::environment(&[root])?)
        }
    };
    let dir = bench.layout.backends().join("bench/nginx");
    create_dir(&dir)?;
    let port = free_port(0)?;
    let config = CONFIG
        .replace("BACKEND", &backend.port.to_string())
        .replace("PORT", &port.to_string());
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let nginx = bench
        .program(Cpu::Own, program)?
        .words("-e stderr")
        .args(["-p".as_ref(), dir.as_os_str()])
        .args(["-c".as_ref(), file.as_os_str()])
        .envs(libraries);
    let mut nginx = bench.launch(Cpu::Own, nginx, |_| {
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        connected.is_ok().then_some(port)
    })?;
    nginx.backend = Some(Box::new(backend));
    Ok(nginx)
}

/// Starts the gateway in front of our server over HTTP.
pub(super) fn gateway_before_http(bench: &Bench<'_>, cpu: Cpu) -> anyhow::Result<Peer> {
    let backend = bench.ours(if cpu == Cpu::Own { Cpu::Load } else { cpu })?;
    let port = backend.port;
    let lines = format!("url = \"http://127.0.0.1:{port}/mcp\"\ntoken = \"bench\"");
    let mut gateway = gateway(bench, "http", &lines, cpu)?;
    gateway.backend = Some(Box::new(backend));
    Ok(gateway)
}

/// Starts the gateway with our server as its child.
pub(super) fn gateway_before_child(bench: &Bench<'_>) -> anyhow::Result<Peer> {
    let child = bench.binary(FIXTURE);
    let lines = format!("command = [\"{child}\", \"--stdio\", \"--log\", \"error\"]");
    gateway(bench, "stdio", &lines, Cpu::Any)
}

/// Starts a gateway in front of one backend, whose tools keep their names.
fn gateway(bench: &Bench<'_>, name: &str, backend: &str, cpu: Cpu) -> anyhow::Result<Peer> {
    let dir = bench.layout.backends().join("bench").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    create_dir(&dir)?;
    let file = dir.join("gateway.toml");
    let config = format!("[backends.fixture]\n{backend}\nbare = true\n");
    fs::write(&file, config)?;
    let gateway = bench
        .program(cpu, bench.binary(PROGRAM))?
        .args(["--config".as_ref(), file.as_os_str()])
        .args(["--events".as_ref(), dir.join("events.db").as_os_str()])
        .words("--token bench --port 0");
    let gateway = bench.launch(cpu, gateway, fixture::listens_on)?;
    // Its backend takes a moment more.
    let once = "http echo --requests 1";
    let passes = || gateway.load(bench, once, 0).is_ok();
    let passes = bench.layout.stop.wait_until(START_TIMEOUT, passes);
    ensure!(passes, "the gateway does not reach its backend over {name}");
    Ok(gateway)
}
