//! The durations of the requests of a server, by method, tool and kind of error.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Server;
use super::mcp_method::McpMethod;
use super::outcome::MethodResult;
use crate::error::Error;
use crate::metrics::{Durations, LabelledDurations, Labels};

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

/// The durations of one method, or of the calls of one tool.
#[derive(Clone, Debug)]
pub struct OperationDurations {
    /// The name of the method.
    pub method: &'static str,
    /// The label of the tool.
    pub tool: Option<Arc<str>>,
    /// Its durations.
    pub durations: Arc<Durations>,
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
    pub fn all(&self) -> Vec<OperationDurations> {
        let methods = McpMethod::ALL.into_iter().zip(&self.methods);
        let methods = methods.map(|(method, durations)| OperationDurations {
            method: method.name(),
            tool: None,
            durations: Arc::clone(durations),
        });
        let tools = self.tools.all().into_iter();
        let tools = tools.map(|(tool, durations)| OperationDurations {
            method: McpMethod::CallTool.name(),
            tool: Some(tool),
            durations,
        });
        methods.chain(tools).collect()
    }
}

/// One request, which is counted when this is dropped: so is a request whose client has disconnected.
pub(super) struct Operation<'a> {
    server: &'a Server,
    pub(super) method: McpMethod,
    started: Duration,
    tool: OnceLock<Arc<Durations>>,
    /// The kind of the tool's error, which is not in every result.
    failed: OnceLock<&'static str>,
    /// The kind of its error, if it has one.
    end: OnceLock<Option<&'static str>>,
}

impl<'a> Operation<'a> {
    pub(super) fn new(server: &'a Server, method: McpMethod) -> Self {
        Self {
            server,
            method,
            started: server.uptime(),
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

    /// Notes its end.
    pub(super) fn end(&self, outcome: &Result<MethodResult, Error>) {
        let error = match outcome {
            Ok(result) => result.is_error.then_some(TOOL_ERROR),
            Err(error) => Some(error.kind()),
        };
        // It ends once.
        let _ = self.end.set(error);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if self.method == McpMethod::Listen {
            // It lasts as long as its client listens.
            return;
        }
        let error = match self.end.get() {
            Some(None) => None,
            Some(error) => self.failed.get().copied().or(*error),
            None if std::thread::panicking() => Some("internal"),
            None => Some("cancelled"),
        };
        let took = self.server.uptime().saturating_sub(self.started);
        let durations = self.tool.get();
        let durations = durations.unwrap_or(&self.server.operations.methods[self.method as usize]);
        durations.record(error, took);
    }
}
