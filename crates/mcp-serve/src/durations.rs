//! The durations of a running server, which `/metrics` shows and OpenTelemetry exports.

use std::iter;
use std::sync::Arc;

use mcp_core::metrics::DurationMetric;
use mcp_core::server::Server;

use crate::Service;

/// Reads the durations of the requests that the server has answered, and of those that its service has sent.
pub(crate) fn reader<S: Service>(
    server: &Arc<Server>,
    service: &Arc<S>,
) -> impl Fn() -> Vec<DurationMetric> + Send + Sync + 'static {
    let (server, service) = (Arc::clone(server), Arc::clone(service));
    move || {
        let answered = server.operations().metric();
        let sent = service.sent_durations();
        iter::once(answered).chain(sent).collect()
    }
}
