//! What a single request may ask for beyond its answer.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// How one request is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long to wait for the answer, however much progress is reported; the client's default
    /// where absent.
    pub timeout: Option<Duration>,
    /// Asks the server to report progress and says where to. A report that finds the channel full
    /// is dropped: a slow reader never holds up the answer.
    pub progress: Option<mpsc::Sender<Progress>>,
}

impl Options {
    /// Waits at most `timeout` for the answer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends progress reports to `reports`.
    #[must_use]
    pub fn progress(mut self, reports: mpsc::Sender<Progress>) -> Self {
        self.progress = Some(reports);
        self
    }
}

/// One report of a server about how far a request is (specification, `notifications/progress`).
#[derive(Clone, Debug, Deserialize)]
pub struct Progress {
    /// How much is done; grows from report to report.
    pub progress: f64,
    /// How much there is to do in the same unit, where the server knows.
    #[serde(default)]
    pub total: Option<f64>,
    /// What the server is doing.
    #[serde(default)]
    pub message: Option<String>,
    /// The parameters as the server wrote them.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}
