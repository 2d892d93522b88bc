//! Declares tools: one struct with the arguments, and one [`Tool`] impl.
//!
//! ```
//! use mcp_core::tool::{Call, Effect, Tool, ToolError, Toolset};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! struct Greeter;
//!
//! /// Greets a user.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Greet {
//!     /// The user's name.
//!     name: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Greeting {
//!     text: String,
//! }
//!
//! impl Tool for Greet {
//!     const NAME: &'static str = "greet";
//!     const EFFECT: Effect = Effect::ReadOnly;
//!     type Service = Greeter;
//!     type Output = Greeting;
//!
//!     async fn call(self, _: &Greeter, _: &Call) -> Result<Greeting, ToolError> {
//!         Ok(Greeting { text: format!("Hello, {}!", self.name) })
//!     }
//! }
//!
//! let tools = Toolset::new().with::<Greet>();
//! assert_eq!(tools.definitions()[0].description, "Greets a user.");
//! ```
//!
//! Everything else follows from that declaration: validation, every list in every era, the
//! annotations, `--read-only`, the README tables and the snapshots of the public surface.
//!
//! [`Call`] reports [progress](Call::progress), asks the client for [input](Call::ask) and the user
//! for [confirmation](Call::confirm). [`TaskSupport`] lets a call run as a task.

mod arguments;
mod call;
mod client;
mod confirm;
mod definition;
mod error;
mod input_request;
mod limited;
mod output;
pub mod schema;
mod task;
mod toolset;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub use arguments::{ArgumentError, as_meant, without_tool_call_id};
pub(crate) use arguments::{parse_arguments, parse_params};
pub use call::Call;
pub use client::{AnswersFuture, CallClient, ClientFacts, LogLevel, Principal};
pub(crate) use confirm::CONFIRMATION;
pub use definition::{Detail, Effect, ToolDefinition, tokens};
pub(crate) use error::RpcError;
pub use error::{ToolError, ToolErrorKind};
pub use input_request::{ClientCapabilities, InputRequest};
pub(crate) use limited::limited;
pub use output::{Content, Output, ToolResult};
pub use schema::{Bounded, ShortText};
pub(crate) use schema::{is_longer, too_long};
pub use task::{EarlierTask, TaskSupport};
pub use toolset::{
    ALL_TOOLSETS, BoundTool, DEFAULT_TOOLSET, FoundCall, ToolFuture, Toolset, function,
};

/// A tool. The fields of the implementing struct are its arguments.
///
/// The struct's doc comment is the tool's description and its fields' doc comments describe the
/// arguments. The user pays for both on every turn of a conversation, so they are short. The struct
/// has `#[serde(deny_unknown_fields)]`, so that the error for an invented field lists the valid ones.
pub trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// Published name, `^[a-zA-Z0-9_-]{1,64}$`.
    const NAME: &'static str;
    /// The effect of a call on the service. Annotations and `--read-only` follow from it.
    const EFFECT: Effect;
    /// Whether a call may continue as a task after its request was answered.
    const TASK: TaskSupport = TaskSupport::Never;
    /// Whether an argument bounds the result, so that the server's own bound is not applied.
    const BOUNDS_ITS_RESULT: bool = false;
    /// The service that the tool works on.
    type Service: Send + Sync + 'static;
    /// The result: a `Serialize + JsonSchema` struct, or a [`ToolResult`] made by hand.
    type Output: Output;

    /// Does the work.
    ///
    /// # Errors
    /// A [`ToolError`] tells the model what went wrong and what to try next.
    fn call(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// The part of the id of this call's task after the random digits, so that [`Tool::find_task`] finds
    /// its work again after a restart of the server: ASCII letters, digits, `-` and `_`. `None` for
    /// tasks that end with the server.
    fn task_reference(&self, service: &Self::Service, call: &Call) -> Option<String> {
        let _ = (service, call);
        None
    }

    /// Finds the work of a task that was begun before a restart, for `call`, which asks for it: a call of
    /// the tool that goes on with it.
    ///
    /// # Errors
    /// [`ToolErrorKind::NotFound`] if there is none, or it is not this caller's.
    fn find_task(
        service: &Self::Service,
        task: EarlierTask<'_>,
        call: &Call,
    ) -> impl Future<Output = Result<Self, ToolError>> + Send {
        let _ = (service, task, call);
        std::future::ready(Err(ToolError::not_found("The task has ended.")))
    }
}
