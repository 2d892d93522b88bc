//! The prompts of a server: declared without a service, then bound to one.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Prompt, PromptMessage};
use crate::method::Answering;
use crate::tool::{ArgumentError, Call, ToolError, parse_arguments, schema};

/// A prompt's published definition.
#[derive(Clone, Debug, Serialize)]
pub struct PromptDefinition {
    /// Unique within a server.
    pub name: Cow<'static, str>,
    /// What it is for.
    pub description: String,
    /// Its arguments, in order.
    pub arguments: Vec<PromptArgument>,
    /// Its definition as its own server wrote it, where it has another.
    #[serde(skip)]
    pub imported: Option<Box<RawValue>>,
}

impl PromptDefinition {
    /// The definition as JSON.
    pub(crate) fn encode(&self) -> String {
        match &self.imported {
            Some(imported) => imported.get().to_owned(),
            None => json!(self).to_string(),
        }
    }
}

/// One argument of a prompt.
#[derive(Clone, Debug, Serialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it means.
    pub description: String,
    /// True if the prompt cannot do without.
    pub required: bool,
}

/// What a prompt says.
#[derive(Clone, Debug)]
pub enum Written {
    /// Its messages.
    Messages(Vec<PromptMessage>),
    /// The whole result, as another server wrote it.
    Imported(Box<RawValue>),
}

/// Messages that are being written.
pub type Writing<'a> = Pin<Box<dyn Future<Output = Result<Written, ToolError>> + Send + 'a>>;

/// A prompt together with its service.
pub trait BoundPrompt: Send + Sync {
    /// Reads the arguments and starts writing.
    ///
    /// # Errors
    /// The arguments do not fit.
    fn write<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<Writing<'a>, ArgumentError>;

    /// The result of `completion/complete` with these parameters; `None` if [`Self::complete`]
    /// knows the values.
    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<Answering<'a>> {
        let _ = (params, call);
        None
    }

    /// Values for an argument.
    fn complete<'a>(
        &'a self,
        argument: &'a str,
        value: &'a str,
    ) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>>;
}

/// The prompts of a server, in the order in which they are listed.
pub struct PromptSet<S> {
    prompts: Vec<Declared<S>>,
}

struct Declared<S> {
    definition: PromptDefinition,
    bind: fn(Arc<S>) -> Arc<dyn BoundPrompt>,
}

impl<S: Send + Sync + 'static> PromptSet<S> {
    /// No prompts.
    pub fn new() -> Self {
        Self {
            prompts: Vec::new(),
        }
    }

    /// Adds one.
    ///
    /// # Panics
    /// When its name is taken or it has no doc comment: both are found by the first test.
    #[must_use]
    pub fn with<P: Prompt<Service = S>>(mut self) -> Self {
        let taken = self
            .prompts
            .iter()
            .any(|prompt| prompt.definition.name == P::NAME);
        assert!(!taken, "prompt {} is declared twice", P::NAME);
        self.prompts.push(Declared {
            definition: define::<P>(),
            bind: |service| Arc::new(Bound::<P> { service }),
        });
        self
    }

    /// Hands the prompts their service.
    pub fn bind(self, service: &Arc<S>) -> Vec<(PromptDefinition, Arc<dyn BoundPrompt>)> {
        let bind = |prompt: Declared<S>| (prompt.definition, (prompt.bind)(Arc::clone(service)));
        self.prompts.into_iter().map(bind).collect()
    }
}

impl<S: Send + Sync + 'static> Default for PromptSet<S> {
    fn default() -> Self {
        Self::new()
    }
}

fn define<P: Prompt>() -> PromptDefinition {
    let (description, schema) = schema::input::<P>();
    assert!(
        !description.is_empty(),
        "prompt {} has no doc comment",
        P::NAME
    );
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let arguments = properties.map(|(name, property)| PromptArgument {
        name: name.clone(),
        description: property["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        required: required.contains(&name.as_str()),
    });
    PromptDefinition {
        name: P::NAME.into(),
        description,
        arguments: arguments.collect(),
        imported: None,
    }
}

struct Bound<P: Prompt> {
    service: Arc<P::Service>,
}

impl<P: Prompt> BoundPrompt for Bound<P> {
    fn write<'a>(
        &'a self,
        arguments: &RawValue,
        call: &'a Call,
    ) -> Result<Writing<'a>, ArgumentError> {
        let prompt: P = parse_arguments(arguments)?;
        Ok(Box::pin(async move {
            let messages = prompt.messages(&self.service, call).await?;
            Ok(Written::Messages(messages))
        }))
    }

    fn complete<'a>(
        &'a self,
        argument: &'a str,
        value: &'a str,
    ) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>> {
        Box::pin(P::complete(&self.service, argument, value))
    }
}
