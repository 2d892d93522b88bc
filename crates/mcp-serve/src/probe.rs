//! Probes the service at an interval, so that the server can report `online` or `degraded`.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::Server;

use crate::Service;

/// Timeout of one probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of the probes while the service answers and no call fails.
const HEALTHY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the probes otherwise: its failure and its return are noticed soon.
const SHORT_INTERVAL: Duration = Duration::from_secs(1);

/// Probes `service` without end and keeps the state of `server` up to date.
pub(crate) async fn watch(server: Arc<Server>, service: Arc<impl Service>) {
    loop {
        let probe = tokio::time::timeout(PROBE_TIMEOUT, service.probe()).await;
        let failure = match probe {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::debug!(cause = error.causes(), "the probe failed");
                Some(error.message().to_owned())
            }
            Err(_) => Some(format!(
                "the service did not answer within {} s",
                PROBE_TIMEOUT.as_secs()
            )),
        };
        let is_healthy = failure.is_none();
        if server.set_degraded(failure.clone()) {
            match failure {
                None => tracing::info!("online: the service answers"),
                Some(reason) => tracing::warn!("degraded: {reason}"),
            }
        }
        tokio::time::sleep(SHORT_INTERVAL).await;
        if is_healthy {
            let rest = HEALTHY_INTERVAL - SHORT_INTERVAL;
            let _ = tokio::time::timeout(rest, server.service_failed()).await;
        }
    }
}
