//! `completion/complete`: values for an argument of a prompt or a variable of a template.

use serde::Deserialize;
use serde_json::json;

use super::Server;
use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::params::{or_empty, wrong};
use crate::error::Error;
use crate::method::MethodFuture;

/// The most values of one answer, by the specification.
const MAX_VALUES: usize = 100;

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "ref")]
    reference: Reference,
    argument: Argument,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

impl Server {
    pub(super) async fn complete(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let raw = or_empty(context.raw)?;
        let params: Params =
            serde_json::from_str(raw.get()).map_err(|error| wrong("params", &error.to_string()))?;
        let catalog = self.catalog();
        let Argument { name, value } = params.argument;
        let mut values = match params.reference {
            Reference::Prompt { name: prompt } => {
                let found = catalog
                    .prompts
                    .iter()
                    .find(|(definition, _)| definition.name == prompt);
                let (_, prompt) = found.ok_or(Error::PromptNotFound(prompt))?;
                if let Some(answering) = prompt.completion(raw, &context.call) {
                    return self.end_of("completion/complete", context, answering).await;
                }
                prompt.complete(&name, &value).await
            }
            Reference::Resource { uri } => {
                let found = catalog
                    .resources
                    .iter()
                    .find(|(definition, _)| definition.uri == uri);
                let (_, resource) = found.ok_or(Error::ResourceNotFound(uri))?;
                if let Some(answering) = resource.completion(raw, &context.call) {
                    return self.end_of("completion/complete", context, answering).await;
                }
                resource.complete(&name, &value).await
            }
        };
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }

    /// The answer of a method that brings its own words.
    pub(super) async fn end_of(
        &self,
        name: &str,
        context: &Context<'_>,
        answering: MethodFuture<'_>,
    ) -> Result<Outcome, Error> {
        match self.within_limits(name, context, answering).await {
            CallEnd::Done(json) => Ok(json.into()),
            CallEnd::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
            CallEnd::Failed(error) => Err(error.into()),
        }
    }
}
