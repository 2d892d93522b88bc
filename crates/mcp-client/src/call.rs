//! What a single request may ask for beyond its answer.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::Handler;

/// How long a request waits for its answer.
#[derive(Clone, Copy, Default)]
pub(crate) enum Patience {
    /// As long as the client's requests do.
    #[default]
    Usual,
    Until(Duration),
    Endless,
}

/// How one request is made. Dropping the future of a request cancels it, however it is made.
#[derive(Clone, Default)]
#[must_use]
pub struct Options {
    pub(crate) patience: Patience,
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) capabilities: Option<Arc<RawValue>>,
    pub(crate) traceparent: Option<String>,
}

impl Options {
    /// Waits at most `timeout` for the answer, however much progress is reported; the client's
    /// default where not set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.patience = Patience::Until(timeout);
        self
    }

    /// Waits for as long as it takes: for callers that have a limit of their own, and drop the
    /// request when it is reached.
    pub fn without_timeout(mut self) -> Self {
        self.patience = Patience::Endless;
        self
    }

    /// Asks the server to report progress and sends the reports here. A report that finds the
    /// channel full is dropped: a slow reader never holds up the answer.
    pub fn progress(mut self, reports: mpsc::Sender<Progress>) -> Self {
        self.progress = Some(reports);
        self
    }

    /// Who takes what belongs to this request: its progress if `_meta.progressToken` of the
    /// parameters asks for it, log messages, and requests of the server.
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// What the server may ask back during this request, instead of the client's capabilities. Only
    /// the modern era can say this per request; it is ignored elsewhere.
    pub fn capabilities(mut self, capabilities: Arc<RawValue>) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// The W3C trace context, sent as `_meta.traceparent` and over HTTP as a header too. A
    /// `tracestate` may stand in `_meta` of the parameters.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
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
