//! The collector, reached with the client for MCP servers: its certificates and its proxy.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use mcp_client::{Endpoint, Poster};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::settings::Settings;

/// Sends the requests of the SDK, from its thread.
pub(super) struct Collector {
    runtime: Runtime,
    poster: Poster,
    timeout: Duration,
    /// True if the last request failed. Only a change is logged.
    is_failing: AtomicBool,
}

impl Collector {
    /// Prepares to send. Does not connect.
    ///
    /// # Errors
    /// If the address, TLS or the proxy cannot be used.
    pub(super) fn new(settings: &Settings) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let poster = Endpoint::new(&settings.url).and_then(Poster::new);
        Ok(Self {
            runtime: runtime.map_err(|error| error.to_string())?,
            poster: poster.map_err(|error| error.to_string())?,
            timeout: settings.timeout,
            is_failing: AtomicBool::default(),
        })
    }

    /// Logs the first failure, and its end.
    fn tell(&self, problem: Option<&str>) {
        let peer = self.poster.peer();
        match (problem, self.is_failing.swap(problem.is_some(), Relaxed)) {
            (Some(problem), false) => tracing::warn!(
                "OpenTelemetry: cannot export to {peer}: {problem}. Calls are not affected; spans are dropped \
                 when too many wait"
            ),
            (None, true) => tracing::info!("OpenTelemetry: {peer} accepts the export again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (mut head, body) = request.into_parts();
        let values = head.headers.values_mut();
        values.for_each(|value| value.set_sensitive(true));
        // The thread of the SDK has no runtime, and nothing else to do meanwhile.
        let answered = self
            .runtime
            .block_on(async { timeout(self.timeout, self.poster.post(head.headers, body)).await });
        // An error names the address and the kind of failure, and no header.
        let answered = answered.map_err(|_| "it did not answer in time".to_owned());
        let answered = answered.and_then(|answer| answer.map_err(|error| error.to_string()));
        let status = answered.as_ref().map(Response::status);
        match status {
            Ok(status) if status.is_success() => self.tell(None),
            Ok(status) => self.tell(Some(&format!(
                "it answered with status {}",
                status.as_u16()
            ))),
            Err(problem) => self.tell(Some(problem)),
        }
        Ok(answered?)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}
