//! `completion/complete`: values for an argument of a prompt or a variable of a template.

use serde::Deserialize;
use serde_json::{Value, json};

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
use super::params::{MAX_NAME, MAX_URI, check_length, object, or_empty};
use crate::completion::Completes;
use crate::error::Error;
use crate::jsonrpc::Json;

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

/// A result of completion with those of its values that `is_kept`.
fn with_values(result: &Json, is_kept: impl Fn(&str) -> bool) -> Json {
    let result: Value = serde_json::from_str(result.as_str()).unwrap_or_default();
    let values = result["completion"]["values"].as_array();
    let values = values.into_iter().flatten().filter_map(Value::as_str);
    let values: Vec<&str> = values.filter(|value| is_kept(value)).collect();
    json!({"completion": {"values": values}}).into()
}

impl Server {
    pub(super) async fn complete(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let params: Params = context.parse("params")?;
        match &params.reference {
            Reference::Prompt { name } => check_length("ref.name", name, MAX_NAME)?,
            Reference::Resource { uri } => check_length("ref.uri", uri, MAX_URI)?,
        }
        check_length("argument.name", &params.argument.name, MAX_NAME)?;
        // A variable of a template is a part of a URI.
        check_length("argument.value", &params.argument.value, MAX_URI)?;
        let catalog = self.catalog_of(context.caller);
        let template = match &params.reference {
            Reference::Resource { uri } if !catalog.is_open() => Some(uri.clone()),
            _ => None,
        };
        let Argument { name, value } = params.argument;
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
        if let Some(answer) = item.completion(or_empty(context.raw())?, &context.call) {
            let end = self.within_limits("completion/complete", context, answer);
            return end.await.into_outcome(|result| match template {
                None => result.into(),
                Some(template) => {
                    // The values are parts of URIs, some of which this caller may not know.
                    let fills = ["{", "{+"].map(|open| format!("{open}{name}}}"));
                    let is_allowed = |value: &str| {
                        let uri = fills.iter().fold(template.clone(), |uri, variable| {
                            uri.replace(variable, value)
                        });
                        catalog.allows_uri(&uri)
                    };
                    with_values(&result, is_allowed).into()
                }
            });
        }
        let mut values = item.complete(&name, &value).await;
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }
}
