//! Errors of starting a task: whether it was started may be uncertain.

use mcp_core::tool::ToolError;

use crate::api::TaskId;

/// Why a conversation was not created.
pub(super) enum NotCreated {
    Full(ToolError),
    Certain(ToolError),
    /// It may have been.
    Uncertain(ToolError),
}

impl NotCreated {
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl From<NotCreated> for ToolError {
    fn from(reason: NotCreated) -> Self {
        use NotCreated as N;
        let (N::Full(error) | N::Certain(error) | N::Uncertain(error)) = reason;
        error
    }
}

/// The error where it is not known whether the task was started, for the reason that `error` gives.
pub(super) fn uncertain(id: TaskId, error: ToolError) -> ToolError {
    let message = format!(
        "{} Whether the task was started is not certain: ask get_task_status for task_id {id} \
         before you run it again.",
        error.message()
    );
    ToolError::new(error.kind(), message).caused_by(error)
}
