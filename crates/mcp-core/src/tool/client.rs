//! The client of a call, as far as a tool can reach it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::{ClientCapabilities, InputRequest, LogLevel, ToolError, ToolErrorKind};

/// Facts about the client of a call.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// A name that no other client has, where it is known; what a call leaves behind is for it alone.
    pub name: Option<Arc<str>>,
    /// The capabilities that it has declared.
    pub capabilities: ClientCapabilities,
    /// Log messages that are less severe are not wanted; `None`: none are.
    pub log_level: Option<LogLevel>,
    /// It may be answered with a task (2026-07-28).
    pub supports_tasks: bool,
    /// The `_meta` of messages about the call: those of a task name it (2025-11-25, "Related Task
    /// Metadata").
    pub message_meta: Option<Arc<Value>>,
}

/// The way from a call to its client. Each era has its own, and so do tasks.
pub trait Client: Send + Sync {
    /// Facts about it.
    fn info(&self) -> &ClientInfo;

    /// Hands over one encoded notification, without a newline; lost where there is no way back.
    fn notify(&self, message: String);

    /// Closes its connection, but not the call: it comes back for the rest. Does nothing where it
    /// could not.
    fn disconnect(&self) {}

    /// Shows how the work stands, where that outlives the request.
    fn show_status(&self, _message: &str) {}

    /// Asks questions that its capabilities allow; the answers come in their order. Who has no
    /// capabilities is asked nothing.
    ///
    /// # Errors
    /// The refusal of the client, or [`ToolErrorKind::Interrupted`] where the call has to end
    /// before there is an answer.
    fn ask<'a>(&'a self, _questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Notes what it is to be asked by the end of the call, by key, and what the call wants to know
    /// then. Returns the error by which the call ends.
    fn require_input(&self, _questions: Map<String, Value>, _memo: Value) -> ToolError {
        ToolError::new(ToolErrorKind::Interrupted, "The client must answer first.")
    }

    /// True if an answer comes while the call goes on; false if the call has to end first.
    fn waits_for_answers(&self) -> bool {
        true
    }

    /// True while a person is being waited for.
    fn is_asking(&self) -> bool {
        false
    }

    /// Has the request answered with a task in which the call goes on; false if it is none that can.
    fn start_task(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Answers that are being waited for.
pub type AnswersFuture<'a> = BoxFuture<'a, Result<Vec<Value>, ToolError>>;

/// The client of a call that nobody made: it can neither be told nor asked anything.
pub(super) struct Nobody(pub(super) ClientInfo);

impl Client for Nobody {
    fn info(&self) -> &ClientInfo {
        &self.0
    }

    fn notify(&self, _: String) {}
}
