//! The durations of the requests of a server, by method, tool and kind of error.

use std::sync::OnceLock;
use std::time::Duration;

use super::Server;
use super::mcp_method::McpMethod;
use super::outcome::MethodResult;
use crate::error::Error;
use crate::metrics::{Durations, Labels, OperationLabels};

/// The kind of a failure of which only the result of a tool tells, as the conventions of OpenTelemetry name it.
const TOOL_ERROR: &str = "tool_error";

/// The durations of all requests that have ended, and the tools with labels of their own.
#[derive(Debug, Default)]
pub(super) struct Operations {
    pub(super) durations: Durations,
    labels: Labels,
}

/// One request, which is counted when this is dropped: so is a request whose client has disconnected.
pub(super) struct Operation<'a> {
    server: &'a Server,
    pub(super) method: McpMethod,
    started: Duration,
    /// The name of the tool that is called.
    tool: OnceLock<String>,
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
    pub(super) fn calls(&self, tool: &str) {
        // A request calls one tool.
        let _ = self.tool.set(tool.to_owned());
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
        let Operations { durations, labels } = &self.server.operations;
        let tool = self.tool.get().map(|tool| labels.label(tool));
        let method = match tool {
            // Also by its name in seed 001.
            Some(_) => McpMethod::CallTool,
            None => self.method,
        };
        let labels = OperationLabels {
            backend: None,
            method: method.name(),
            tool,
            error,
        };
        durations.record(labels, took);
    }
}
