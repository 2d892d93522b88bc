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

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;

use crate::completion::Completes;
use crate::registry::{Bound, Definition, Registry};
use crate::tool::{ArgumentError, Call, Content, ToolError, parse_arguments, schema};

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
    role: &'static str,
    content: Content,
}

impl PromptMessage {
    /// A message of the user.
    pub fn user(content: Content) -> Self {
        let role = "user";
        Self { role, content }
    }

    /// A message of the model.
    pub fn assistant(content: Content) -> Self {
        let role = "assistant";
        Self { role, content }
    }
}

/// A prompt's published definition.
#[derive(Clone, Debug, Serialize)]
pub struct PromptDefinition {
    /// Unique within a server.
    pub name: Cow<'static, str>,
    /// Its purpose, in a sentence.
    pub description: String,
    /// Its arguments, in order.
    pub arguments: Vec<PromptArgument>,
    /// The original definition, if the prompt is relayed from another server.
    #[serde(skip)]
    pub relayed: Option<Box<RawValue>>,
}

impl PromptDefinition {
    /// The definition as JSON.
    pub(crate) fn encode(&self) -> String {
        match &self.relayed {
            Some(relayed) => relayed.get().to_owned(),
            None => json!(self).to_string(),
        }
    }
}

/// One argument of a prompt.
#[derive(Clone, Debug, Serialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub description: String,
    /// True if it must be given.
    pub required: bool,
}

/// The result of a prompt.
#[derive(Clone, Debug)]
pub enum PromptOutput {
    /// Its messages.
    Messages(Vec<PromptMessage>),
    /// The whole result of another server, unchanged.
    Relayed(Box<RawValue>),
}

/// A running request for a prompt.
pub type PromptFuture<'a> = BoxFuture<'a, Result<PromptOutput, ToolError>>;

/// A prompt together with its service.
pub trait BoundPrompt: Completes {
    /// Parses the arguments and starts to write.
    ///
    /// # Errors
    /// Invalid arguments; nothing was started.
    fn write<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<PromptFuture<'a>, ArgumentError>;
}

/// The prompts of a server, in the order in which they are listed.
pub type PromptSet<S> = Registry<PromptDefinition, S>;

impl Definition for PromptDefinition {
    type Bound = dyn BoundPrompt;
    const NOUN: &'static str = "prompt";

    fn id(&self) -> &str {
        &self.name
    }
}

impl<S: Send + Sync + 'static> PromptSet<S> {
    /// Adds a prompt.
    ///
    /// # Panics
    /// If its name is taken or it has no doc comment; the first test finds both.
    #[must_use]
    pub fn with<P: Prompt<Service = S>>(self) -> Self {
        self.add(define::<P>(), |service| {
            Arc::new(Bound::<PromptDefinition, P, S>::new(service))
        })
    }
}

fn define<P: Prompt>() -> PromptDefinition {
    let (description, schema) = schema::documented::<P>("prompt", P::NAME);
    let required = schema["required"].as_array();
    let required = |name: &str| required.is_some_and(|all| all.iter().any(|item| item == name));
    let properties = schema["properties"].as_object().into_iter().flatten();
    let arguments = properties.map(|(name, property)| PromptArgument {
        name: name.clone(),
        description: property["description"].as_str().unwrap_or("").to_owned(),
        required: required(name),
    });
    PromptDefinition {
        name: P::NAME.into(),
        description,
        arguments: arguments.collect(),
        relayed: None,
    }
}

impl<P: Prompt> BoundPrompt for Bound<PromptDefinition, P, P::Service> {
    fn write<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<PromptFuture<'a>, ArgumentError> {
        let prompt: P = parse_arguments(arguments)?;
        Ok(Box::pin(async move {
            let messages = prompt.messages(&self.service, call).await?;
            Ok(PromptOutput::Messages(messages))
        }))
    }
}

impl<P: Prompt> Completes for Bound<PromptDefinition, P, P::Service> {
    fn complete<'a>(&'a self, argument: &'a str, value: &'a str) -> BoxFuture<'a, Vec<String>> {
        Box::pin(P::complete(&self.service, argument, value))
    }
}
