//! A plain reverse proxy to measure the gateway beside: the nginx of this machine, or Debian's
//! package unpacked beside the rest.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::peer::{Bench, Core, Peer};
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Program;
use crate::services::last_line;

/// Fetches the package with the libraries that it names, except the C library, which has to be the
/// machine's own.
const UNPACK: &str = r#"
    set -e
    wanted() { apt-cache depends "$1" | sed -n "s/.*Depends: \($2\)\$/\1/p"; }
    libraries=$(wanted nginx 'lib[a-z0-9.+-]*')
    apt-get download nginx $(echo "$libraries" | grep -v '^libc6$' | sort -u)
    for archive in *.deb; do dpkg -x "$archive" "$0"; done
    rm -- *.deb
"#;

/// nginx's own defaults, except what would cost it something that a proxy in use would not pay:
/// connections to the backend are kept, and none is given up for its age.
const CONFIG: &str = r#"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream backend {
        server 127.0.0.1:BACKEND;
        keepalive 256;
        keepalive_requests 1000000000;
    }
    server {
        listen 127.0.0.1:PORT;
        location / {
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Host 127.0.0.1:BACKEND;
            proxy_set_header Connection "";
        }
    }
}
"#;

/// Starts it in front of the server on `backend`. One process, as the CPU time of one is read.
pub(super) fn start(bench: &Bench<'_>, backend: u16) -> anyhow::Result<Peer> {
    let nginx = program(bench.layout)?;
    let dir = bench.layout.backends().join("bench/nginx");
    create_dir(&dir)?;
    let port = free_port()?;
    let config = CONFIG
        .replace("BACKEND", &backend.to_string())
        .replace("PORT", &port.to_string());
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let args = [
        OsString::from("-p"),
        dir.into(),
        "-e".into(),
        "stderr".into(),
        "-c".into(),
        file.into(),
    ];
    let answers = |_: &str| {
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        connected.is_ok().then_some(port)
    };
    let program = [&[nginx.into_os_string()][..], &args].concat();
    bench.launch(&program, &libraries(bench.layout), Core::Own, answers)
}

/// Its program, fetched where the machine has none.
fn program(layout: &Layout) -> anyhow::Result<PathBuf> {
    if let Some(installed) = on_path("nginx") {
        return Ok(installed);
    }
    let dir = dir(layout);
    if !cfg!(target_os = "linux") || on_path("apt-get").is_none() {
        bail!("nginx is not installed");
    }
    layout.install_once("nginx", &dir, || {
        let log = layout.fresh_log("nginx-install")?;
        let step = "fetching nginx from Debian's packages: about 4 MB";
        Program::new("sh")?
            .args([OsString::from("-c"), UNPACK.into(), OsString::from(&dir)])
            .dir(&dir)
            .log_to(&log)?
            .run(&layout.stop, &mut Heartbeat::start("bench", step))
            .with_context(|| {
                let why = last_line(&log);
                format!("nginx is not installed and cannot be fetched: {why}")
            })
    })?;
    let unpacked = dir.join("usr/sbin/nginx");
    if !unpacked.is_file() {
        bail!("Debian's package of nginx holds no program");
    }
    Ok(unpacked)
}

fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join("nginx")
}

/// Where an unpacked one finds its libraries.
fn libraries(layout: &Layout) -> Vec<(&'static str, OsString)> {
    if on_path("nginx").is_some() {
        return Vec::new();
    }
    let folder = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = ["usr/lib", "lib"].map(|lib| dir(layout).join(lib).join(&folder));
    let joined = std::env::join_paths(folders.iter().map(Path::new)).ok();
    joined
        .map(|path| ("LD_LIBRARY_PATH", path))
        .into_iter()
        .collect()
}

/// nginx does not choose one by itself.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}
