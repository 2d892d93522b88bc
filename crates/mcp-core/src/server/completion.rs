//! `completion/complete`: values for an argument of a prompt or a variable of a template.

use serde::Deserialize;
use serde_json::json;

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
use super::params::{object, or_empty};
use crate::completion::Completes;
use crate::error::Error;

/// The limit of the specification for one response.
const MAX_VALUES: usize = 100;

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "ref", deserialize_with = "object")]
    reference: Reference,
    #[serde(deserialize_with = "object")]
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
        let params: Params = context.parse("params")?;
        let catalog = self.catalog_of(context.caller);
        let item: &dyn Completes = match params.reference {
            Reference::Prompt { name } => {
                let found = catalog.prompt(&name);
                &*found.ok_or(Error::PromptNotFound(name))?.1
            }
            Reference::Resource { uri } => {
                let mut resources = catalog.resources_for(&uri).iter();
                let found = resources.find(|(resource, _)| resource.uri == uri);
                &*found.ok_or(Error::ResourceNotFound(uri))?.1
            }
        };
        if let Some(answer) = item.completion(or_empty(context.raw)?, &context.call) {
            let end = self.within_limits("completion/complete", context, answer);
            return end.await.into_outcome(Outcome::from);
        }
        let Argument { name, value } = params.argument;
        let mut values = item.complete(&name, &value).await;
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }
}
