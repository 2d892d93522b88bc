//! How a backend is, from `stopped` to `crash_loop`.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ServerInfo};
use tokio::time::Instant;

/// The state of a backend; the first four have the names of seed 003's gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not started, or ended on purpose.
    #[default]
    Stopped,
    /// Being started.
    Starting,
    /// Can be called.
    Running,
    /// Fell or could not be reached; will be tried again.
    Failed,
    /// Fell too often; waits for `gateway_restart`.
    CrashLoop,
}

impl State {
    /// Its name in `gateway_status`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Failed => "failed",
            Self::CrashLoop => "crash_loop",
        }
    }
}

/// How a backend is, and how it got there.
#[derive(Clone, Default)]
pub(crate) struct Status {
    pub(crate) state: State,
    /// How often it was started.
    pub(crate) generation: u64,
    /// The way to it; only while it runs.
    pub(crate) client: Option<Client>,
    /// What it said about itself when it was last met.
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// Why it last fell, in our words.
    pub(crate) last_error: Option<String>,
    /// When it will be tried again.
    pub(crate) next_try: Option<Instant>,
}

impl Status {
    /// The same backend while its circuit is open.
    pub(super) fn cut_off(self, wait: Duration) -> Self {
        Self {
            state: State::Failed,
            last_error: Some("it did not answer five times in a row".to_owned()),
            next_try: Some(Instant::now() + wait),
            ..self
        }
    }

    /// Seconds until it is tried again, to tenths; `None` where that is not planned.
    pub(crate) fn next_try_s(&self) -> Option<f64> {
        let wait = self.next_try?.saturating_duration_since(Instant::now());
        Some((wait.as_secs_f64() * 10.0).round() / 10.0)
    }
}
