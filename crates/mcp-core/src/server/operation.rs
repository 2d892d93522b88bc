//! The durations of the requests of a server, by method, tool and kind of error.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Server;
use super::mcp_method::McpMethod;
use super::outcome::MethodResult;
use crate::error::Error;
use crate::metrics::{DurationMetric, Durations, LabelledDurations, Labels, OperationDurations};

/// The kind of a failure of which only the result of a tool tells, as the conventions of OpenTelemetry name it.
const TOOL_ERROR: &str = "tool_error";

/// The durations of all requests that have ended.
#[derive(Debug)]
pub struct Operations {
    /// Of the methods, by their number; of those that call a tool, only requests without a known one.
    methods: [Arc<Durations>; McpMethod::COUNT],
    /// Of the calls of tools, by label.
    tools: LabelledDurations<Arc<str>>,
    labels: Labels,
}

impl Default for Operations {
    fn default() -> Self {
        Self {
            methods: std::array::from_fn(|_| Arc::default()),
            tools: LabelledDurations::default(),
            labels: Labels::default(),
        }
    }
}

impl Operations {
    /// The durations of the calls of the tool `name`.
    pub(super) fn of_tool(&self, name: &str) -> Arc<Durations> {
        self.tools.get(self.labels.label(name))
    }

    /// All durations.
    pub fn metric(&self) -> DurationMetric {
        let methods = McpMethod::ALL.into_iter().zip(&self.methods);
        let methods = methods.map(|(method, durations)| (method, None, Arc::clone(durations)));
        let tools = self.tools.all().into_iter();
        let tools = tools.map(|(tool, durations)| (McpMethod::CallTool, Some(tool), durations));
        let all = methods.chain(tools);
        let all = all.map(|(method, tool, durations)| OperationDurations {
            backend: None,
            method: method.name(),
            tool,
            durations,
        });
        DurationMetric::answered(all.collect())
    }
}

/// One request, which is counted when this is dropped: so is a request whose client has disconnected.
pub(super) struct Operation<'a> {
    server: &'a Server,
    pub(super) method: McpMethod,
    started: Duration,
    /// The durations of the tool that is called.
    tool: OnceLock<Arc<Durations>>,
    /// The kind of the tool's error, which is not in every result.
    failed: OnceLock<&'static str>,
    /// The kind of its error, if it has one, and its duration.
    end: OnceLock<(Option<&'static str>, Duration)>,
}

impl<'a> Operation<'a> {
    /// A request that has started at this uptime of the server.
    pub(super) fn new(server: &'a Server, method: McpMethod, started: Duration) -> Self {
        Self {
            server,
            method,
            started,
            tool: OnceLock::new(),
            failed: OnceLock::new(),
            end: OnceLock::new(),
        }
    }

    /// Notes the tool that is called.
    pub(super) fn calls(&self, tool: &Arc<Durations>) {
        // A request calls one tool.
        let _ = self.tool.set(Arc::clone(tool));
    }

    /// Notes the error of the tool.
    pub(super) fn failed(&self, kind: &'static str) {
        // Only the first one counts.
        let _ = self.failed.set(kind);
    }

    /// Notes its end, and returns its duration.
    pub(super) fn end(&self, outcome: &Result<MethodResult, Error>) -> Duration {
        let took = self.took();
        let error = match outcome {
            Ok(result) => result.is_error.then_some(TOOL_ERROR),
            Err(error) => Some(error.kind()),
        };
        // It ends once.
        let _ = self.end.set((error, took));
        took
    }

    fn took(&self) -> Duration {
        self.server.uptime().saturating_sub(self.started)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if self.method == McpMethod::Listen {
            // It lasts as long as its client listens.
            return;
        }
        let (error, took) = match self.end.get() {
            Some((None, took)) => (None, *took),
            Some((error, took)) => (self.failed.get().copied().or(*error), *took),
            None if std::thread::panicking() => (Some("internal"), self.took()),
            None => (Some("cancelled"), self.took()),
        };
        let durations = self.tool.get();
        let durations = durations.unwrap_or(&self.server.operations.methods[self.method as usize]);
        durations.record(error, took);
    }
}
