//! Whether a call may go on after its request was answered.

/// How a tool runs where the client knows tasks: the extension `io.modelcontextprotocol/tasks`, or
/// the experimental tasks of 2025-11-25.
///
/// The body is the same either way. As a task, its progress becomes the task's status message, what
/// it [asks](super::Call::ask) waits in the task for the client's answer, and the task's
/// cancellation is the call's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// The request is answered with the result.
    #[default]
    Never,
    /// Clients that know tasks get one unless the result is there at once; others wait.
    Optional,
    /// The call itself finds out whether it takes long ([`Call::continue_as_task`]): until then it may
    /// still be answered with its result.
    ///
    /// [`Call::continue_as_task`]: super::Call::continue_as_task
    Late,
    /// It takes longer than anybody waits: clients that do not know tasks are refused.
    Required,
}

impl TaskSupport {
    /// The name on the wire (2025-11-25, `execution.taskSupport`).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "forbidden",
            Self::Optional | Self::Late => "optional",
            Self::Required => "required",
        }
    }
}
