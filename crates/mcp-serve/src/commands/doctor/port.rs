//! The port: free, in use by this server, or by something else.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::report::Report;

/// Timeout of one request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of one response.
const MAX_RESPONSE: u64 = 64 << 10;

/// The program that listens on the port.
pub(super) enum Listening {
    /// This server.
    Own,
    /// Something else, or nothing.
    Other,
}

/// The address at which a server with this one can be asked.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
        }
        _ => address,
    }
}

pub(super) async fn examine(
    report: &mut Report,
    address: SocketAddr,
    name: &str,
    has_tls: bool,
) -> Listening {
    match TcpListener::bind(address) {
        Ok(_) => {
            let text = format!("{} is free: {name} does not run", address.port());
            report.ok("port", text);
            return Listening::Other;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
        Err(error) => {
            report.fail(
                "port",
                format!("{address} cannot be used: {error}"),
                "choose another --bind or --port",
            );
            return Listening::Other;
        }
    }
    let other = "stop that program, or choose another --port";
    let help = get(reachable(address), "/mcp").await;
    let found = help.as_ref().and_then(|help| help["name"].as_str());
    match (found, help.as_ref()) {
        (Some(found), Some(help)) if found == name => {
            let version = help["version"].as_str().unwrap_or("of an unknown version");
            report.ok(
                "port",
                format!("{found} {version} runs on {}", address.port()),
            );
            Listening::Own
        }
        (Some(found), _) => {
            report.fail(
                "port",
                format!("{} is in use by {found}", address.port()),
                other,
            );
            Listening::Other
        }
        (None, _) if has_tls => {
            report.ok(
                "port",
                format!("{} is in use, and is not asked over TLS", address.port()),
            );
            Listening::Other
        }
        (None, _) => {
            let text = format!(
                "{} is in use by a program that is no server of this kind",
                address.port()
            );
            report.fail("port", text, other);
            Listening::Other
        }
    }
}

/// Gets the JSON at a path.
async fn get(address: SocketAddr, path: &str) -> Option<Value> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut response = String::new();
        stream
            .take(MAX_RESPONSE)
            .read_to_string(&mut response)
            .await
            .ok()?;
        let (_, body) = response.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    };
    tokio::time::timeout(REPLY_TIMEOUT, asked).await.ok()?
}
