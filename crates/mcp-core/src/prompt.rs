//! Declares prompts: one struct with the arguments, and one [`Prompt`] impl.
//!
//! ```
//! use std::sync::Arc;
//!
//! use mcp_core::prompt::{Prompt, PromptMessage, PromptSet};
//! use mcp_core::tool::{Call, Content, ToolError};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// Writes a greeting.
//! #[derive(Deserialize, JsonSchema)]
//! struct Greeting {
//!     /// The user's name.
//!     name: String,
//! }
//!
//! impl Prompt for Greeting {
//!     const NAME: &'static str = "greeting";
//!     type Service = ();
//!
//!     async fn messages(self, (): &(), _: &Call) -> Result<Vec<PromptMessage>, ToolError> {
//!         let text = format!("Write a greeting for {}.", self.name);
//!         Ok(vec![PromptMessage::user(Content::text(text))])
//!     }
//! }
//!
//! let prompts = PromptSet::new().with::<Greeting>().bind(&Arc::new(()));
//! assert!(prompts[0].0.arguments[0].required);
//! ```

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

/// A prompt. The fields of the implementing struct are the arguments, all of them strings; its doc
/// comment is the description.
pub trait Prompt: DeserializeOwned + JsonSchema + Send + 'static {
    /// Published name.
    const NAME: &'static str;
    /// The service that it reads from.
    type Service: Send + Sync + 'static;

    /// Writes the messages.
    ///
    /// # Errors
    /// An argument names something that does not exist, or the service is unavailable.
    fn messages(
        self,
        service: &Self::Service,
        call: &Call,
    ) -> impl Future<Output = Result<Vec<PromptMessage>, ToolError>> + Send;

    /// Completions: values for `argument` that start with `value`, best first.
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
    /// A message of the user.
    pub fn user(content: Content) -> Self {
        let role = Role::User;
        Self { role, content }
    }

    /// A message of the model.
    pub fn assistant(content: Content) -> Self {
        let role = Role::Assistant;
        Self { role, content }
    }
}
