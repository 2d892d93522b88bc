//! Watches the service, so that the server can say whether it is `online` or `degraded`.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::Server;

use crate::Service;

/// How long one probe may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two probes while all is well.
const CALM: Duration = Duration::from_secs(15);
/// Between two probes while it is not: a service that comes back is seen soon.
const ALERT: Duration = Duration::from_secs(1);

/// Probes `service` for ever and keeps the state of `server` up to date.
pub(crate) async fn watch(server: Arc<Server>, service: Arc<impl Service>) {
    loop {
        let probe = tokio::time::timeout(PATIENCE, service.probe()).await;
        let trouble = match probe {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::debug!(cause = error.causes(), "the probe failed");
                Some(error.message().to_owned())
            }
            Err(_) => Some(format!(
                "the service did not answer within {} s",
                PATIENCE.as_secs()
            )),
        };
        let pause = if trouble.is_none() { CALM } else { ALERT };
        if server.set_degraded(trouble.clone()) {
            match trouble {
                None => tracing::info!("the service answers: online"),
                Some(reason) => tracing::warn!("degraded: {reason}"),
            }
        }
        tokio::time::sleep(pause).await;
    }
}
