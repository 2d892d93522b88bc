//! The official Rust SDK: `rmcp-client URL SERVER` prints one line for each check, over both
//! transports, in every era.

mod checks;
mod peer;

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use tokio::process::Command;
use tokio::time::timeout;

use peer::{Peer, Steps};

/// Timeout of each check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (url, server) = args
        .next()
        .zip(args.next())
        .context("rmcp-client URL SERVER")?;
    for transport in ["http", "stdio"] {
        for era in ["legacy", "auto", "2026-07-28"] {
            let at = format!("rmcp {transport} {era}");
            let address = if transport == "http" { &url } else { &server };
            match within(connect(transport, address, era)).await {
                Ok(peer) => checks::run(&at, era, peer).await,
                Err(why) => failed(&at, "connect", &why),
            }
        }
    }
    Ok(())
}

async fn connect(transport: &str, address: &str, era: &str) -> anyhow::Result<Peer> {
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match era {
        "legacy" => ClientLifecycleMode::Initialize,
        "auto" => ClientLifecycleMode::Auto {
            preferred_versions: modern,
            legacy_version: None,
        },
        _ => ClientLifecycleMode::Discover {
            preferred_versions: modern,
        },
    };
    let (steps, seen) = Steps::new();
    let client = if transport == "http" {
        let http = StreamableHttpClientTransport::from_uri(address);
        steps.serve_with_lifecycle(http, mode).await?
    } else {
        let mut command = Command::new(address);
        command.arg("--stdio");
        let (child, _) = TokioChildProcess::builder(command)
            .stderr(Stdio::null())
            .spawn()?;
        steps.serve_with_lifecycle(child, mode).await?
    };
    Ok(Peer { client, seen })
}

/// Applies the timeout to `work`.
pub(crate) async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(CHECK_TIMEOUT, work).await.context("too slow")?
}

pub(crate) fn failed(at: &str, check: &str, why: &anyhow::Error) {
    println!(
        "FAILED {at} {check}: {}",
        format!("{why:#}").replace('\n', " ")
    );
}
