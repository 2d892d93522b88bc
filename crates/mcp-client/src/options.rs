//! The options of a single request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use mcp_core::tool::LogLevel;
use mcp_core::trace::TraceContext;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::handler::Handler;
use crate::message::HeaderList;

/// The timeout of one request.
#[derive(Clone, Copy, Default)]
pub(crate) enum RequestTimeout {
    /// That of the client.
    #[default]
    Default,
    After(Duration),
    Never,
}

/// The caller of a request, where one client serves several callers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerId {
    /// A name that only this caller has.
    Name(Arc<str>),
    /// A number that only this caller has.
    Number(u64),
}

/// Options of one request. Dropping the future of a request cancels it in any case.
#[derive(Clone, Default)]
#[must_use]
pub struct Options {
    pub(crate) timeout: RequestTimeout,
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) capabilities: Option<Arc<RawValue>>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) caller: Option<CallerId>,
    pub(crate) headers: HeaderList,
}

impl Options {
    /// Sets the timeout of the response; the client's by default. Progress does not extend it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = RequestTimeout::After(timeout);
        self
    }

    /// Waits without a timeout: for callers that have their own, and drop the request after it.
    pub fn without_timeout(mut self) -> Self {
        self.timeout = RequestTimeout::Never;
        self
    }

    /// Asks the server to report progress and sends the reports to this channel. A report is dropped
    /// if the channel is full: a slow reader never delays the response.
    pub fn progress(mut self, reports: mpsc::Sender<Progress>) -> Self {
        self.progress = Some(reports);
        self
    }

    /// Sets the handler of the messages that belong to this request: its progress if
    /// `_meta.progressToken` of the parameters asks for it, log messages, and requests of the server.
    pub fn handler(mut self, handler: Arc<dyn Handler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// Sets the caller of the request. A question or log message that names no request is
    /// passed to a request's handler only if all requests in flight are for the same caller; a request
    /// without a caller counts as one of a caller of its own.
    pub fn caller(mut self, caller: impl Into<Option<CallerId>>) -> Self {
        self.caller = caller.into();
        self
    }

    /// Adds headers to the request over HTTP. Those of the protocol take precedence.
    pub fn headers(mut self, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.headers = headers;
        self
    }

    /// Replaces the client's capabilities for this request. Only the modern era has capabilities per
    /// request; ignored in the others.
    pub fn capabilities(mut self, capabilities: Arc<RawValue>) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Sets the lowest severity of the log messages of this request. Only the modern era has one per request;
    /// ignored in the others.
    pub fn log_level(mut self, level: impl Into<Option<LogLevel>>) -> Self {
        self.log_level = level.into();
        self
    }

    /// Sets the span of which this request is a part. The context of the request's own span is sent in `_meta`, and
    /// over HTTP also as headers.
    pub fn trace(mut self, parent: impl Into<Option<TraceContext>>) -> Self {
        self.trace = parent.into();
        self
    }
}

/// A progress report of the server (specification, `notifications/progress`).
#[derive(Clone, Debug, Deserialize)]
pub struct Progress {
    /// The amount done; grows from report to report.
    pub progress: f64,
    /// The total amount in the same unit, if the server knows it.
    pub total: Option<f64>,
    /// A message for people.
    pub message: Option<String>,
    /// The parameters as the server wrote them.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}
