//! How a prompt is declared: one struct that is its arguments, and one [`Prompt`] impl.

mod set;

use std::future::Future;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tool::{Call, Content, ToolError};

pub use set::{
    BoundPrompt, PromptArgument, PromptDefinition, PromptFuture, PromptKind, PromptOutput,
    PromptSet,
};

/// One prompt. The implementing struct is its arguments, all of them strings; its doc comment is
/// the description.
pub trait Prompt: DeserializeOwned + JsonSchema + Send + 'static {
    /// Published name.
    const NAME: &'static str;
    /// What it may look things up in.
    type Service: Send + Sync + 'static;

    /// Writes the messages.
    ///
    /// # Errors
    /// When an argument names nothing, or the service cannot be asked.
    fn messages(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<Vec<PromptMessage>, ToolError>> + Send;

    /// Values for the argument `argument` that start with `value`, the best first.
    fn complete(
        service: &Self::Service,
        argument: &str,
        value: &str,
    ) -> impl Future<Output = Vec<String>> + Send {
        let _ = (service, argument, value);
        std::future::ready(Vec::new())
    }
}

/// One message of a prompt.
#[derive(Clone, Debug, Serialize)]
pub struct PromptMessage {
    role: Role,
    content: Content,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

impl PromptMessage {
    /// What the user says.
    pub fn user(content: Content) -> Self {
        Self {
            role: Role::User,
            content,
        }
    }

    /// What the model says.
    pub fn assistant(content: Content) -> Self {
        Self {
            role: Role::Assistant,
            content,
        }
    }
}
