//! The end of a process, while others take its clients.
//!
//! A load balancer notices the end of a process by a connection that is refused or closed. It may send a request on a
//! connection at the moment in which that is closed, and may not repeat it, since the tool may have run. So a process goes on
//! for a while: each response says that its connection ends with it, and the load balancer closes those that it does
//! not use. Then no connection is open without a request, and the port can be closed.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::Server;
use tokio_util::sync::CancellationToken;

use crate::SharedSessions;
use crate::http::HttpService;

/// Time from the signal until the port is closed. Longer than load balancers keep connections without requests: 5 s in
/// `docker-compose.nginx.conf`.
const DRAIN_TIME: Duration = Duration::from_secs(6);

/// Ends the streams and tasks of `server` after the signal `stop`. Returns a token that is cancelled when the port is to
/// be closed: at once, or after the drain where other processes are alive.
pub(crate) fn close_after(
    stop: CancellationToken,
    server: Arc<Server>,
    shared: Option<(HttpService, Arc<dyn SharedSessions>)>,
) -> CancellationToken {
    let closing = CancellationToken::new();
    let closed = closing.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        if let Some((service, shared)) = shared {
            service.drain();
            if shared.has_others() {
                tracing::info!("other processes take the requests");
                tokio::time::sleep(DRAIN_TIME).await;
            }
        }
        server.close();
        closed.cancel();
    });
    closing
}
