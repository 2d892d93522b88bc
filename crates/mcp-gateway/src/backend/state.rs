//! The status of a backend, from `stopped` to `crash_loop`.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ServerInfo};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The state of a backend; the first four are those of seed 003.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BackendState {
    /// Not started, or stopped on purpose.
    #[default]
    Stopped,
    /// Being started.
    Starting,
    /// Can be called.
    Running,
    /// Exited or could not be reached; will be tried again.
    Failed,
    /// Failed too often; waits for `gateway_restart`.
    CrashLoop,
    /// Not used; the configuration has the reason.
    Disabled,
}

/// The state of a backend, with its reason and its client.
#[derive(Clone, Default)]
pub(crate) struct BackendStatus {
    pub(crate) state: BackendState,
    /// Number of successful starts; identifies a client.
    pub(crate) generation: u64,
    /// The client for it, while it runs.
    pub(crate) client: Option<Client>,
    /// The backend's information from the last handshake.
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// The reason of the last failure.
    pub(crate) last_error: Option<String>,
    pub(crate) next_try: Option<Instant>,
}

impl BackendStatus {
    /// Returns the status of a running backend whose circuit breaker is open.
    pub(super) fn with_open_circuit(self, wait: Duration) -> Self {
        Self {
            state: BackendState::Failed,
            last_error: Some("it did not answer five requests in a row".to_owned()),
            next_try: Some(Instant::now() + wait),
            ..self
        }
    }

    /// Returns the status of a running backend that the last request could not use; the next probe comes within `wait`.
    pub(super) fn with_fault(self, fault: String, wait: Duration) -> Self {
        Self {
            state: BackendState::Failed,
            last_error: Some(fault),
            next_try: Some(Instant::now() + wait),
            ..self
        }
    }

    /// Returns the seconds until the next try, to tenths; `None` if none is planned.
    pub(crate) fn next_try_s(&self) -> Option<f64> {
        let wait = self.next_try?.saturating_duration_since(Instant::now());
        Some((wait.as_secs_f64() * 10.0).round() / 10.0)
    }
}
