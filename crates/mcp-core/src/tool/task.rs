//! Task support of tools.

/// Whether a tool runs as a task for clients that support tasks: with the extension
/// `io.modelcontextprotocol/tasks`, or the experimental tasks of 2025-11-25.
///
/// The tool's code is the same either way. In a task its progress becomes the status message, its
/// [questions](super::Call::ask) wait in the task for the client's answers, and cancellation of the
/// task cancels the call.
///
/// ```
/// use mcp_core::tool::{Call, Effect, TaskSupport, Tool, ToolDefinition, ToolError, ToolResult};
///
/// /// Builds an image.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct BuildImage {}
///
/// impl Tool for BuildImage {
///     const NAME: &'static str = "build_image";
///     const EFFECT: Effect = Effect::Additive;
///     const TASK: TaskSupport = TaskSupport::Optional;
///     type Service = ();
///     type Output = ToolResult;
///
///     async fn call(self, (): &(), call: &Call) -> Result<ToolResult, ToolError> {
///         call.progress(0.0, None, "building");
///         Ok(ToolResult::text("built"))
///     }
/// }
///
/// assert_eq!(ToolDefinition::from_tool::<BuildImage>().task, TaskSupport::Optional);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// The request is answered with the result.
    #[default]
    Never,
    /// Clients that support tasks get one, unless the result is ready at once; others wait.
    Optional,
    /// The call becomes a task when it asks for that ([`Call::continue_as_task`]); before, it may
    /// still be answered with its result.
    ///
    /// [`Call::continue_as_task`]: super::Call::continue_as_task
    Late,
    /// The call takes too long to wait for: clients that do not support tasks are refused.
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

/// A task that was begun before a restart of the server, as its id names it.
#[derive(Clone, Copy, Debug)]
pub struct EarlierTask<'a> {
    /// [`ClientFacts::task_id`] of its call.
    ///
    /// [`ClientFacts::task_id`]: super::ClientFacts::task_id
    pub digits: &'a str,
    /// The value of [`Tool::task_reference`].
    ///
    /// [`Tool::task_reference`]: super::Tool::task_reference
    pub reference: &'a str,
}
