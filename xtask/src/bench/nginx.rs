//! A plain reverse proxy to measure the gateway beside: the nginx of this machine, or Debian's
//! package unpacked beside the rest.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};

use super::peer::{Bench, Cpu, Peer};
use crate::install::debian::{self, Packages};
use crate::instance::free_port;
use crate::layout::{create_dir, on_path};

const PACKAGES: Packages = Packages {
    who: "bench",
    folder: "nginx",
    suite: None,
    names: &["nginx"],
};

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
    let (program, libraries) = match on_path("nginx") {
        Some(installed) => (installed, Vec::new()),
        None => {
            PACKAGES.install(bench.layout)?;
            let root = PACKAGES.root(bench.layout);
            let libraries = debian::environment(std::slice::from_ref(&root))?;
            (root.join("usr/sbin/nginx"), libraries)
        }
    };
    let dir = bench.layout.backends().join("bench/nginx");
    create_dir(&dir)?;
    let port = free_port(0)?;
    let config = CONFIG
        .replace("BACKEND", &backend.to_string())
        .replace("PORT", &port.to_string());
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let nginx = bench
        .program(Cpu::Own, program)?
        .words("-e stderr")
        .args([
            "-p".as_ref(),
            dir.as_os_str(),
            "-c".as_ref(),
            file.as_os_str(),
        ])
        .envs(libraries);
    bench.launch(Cpu::Own, nginx, |_| {
        let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        connected.is_ok().then_some(port)
    })
}
