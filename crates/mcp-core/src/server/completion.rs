//! `completion/complete`: values for an argument of a prompt or a variable of a template.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Outcome, Server};
use crate::error::{BadParam, Error};

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
    pub(super) async fn completion(&self, params: Option<&RawValue>) -> Result<Outcome, Error> {
        let params: Params = serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| Error::InvalidParams(BadParam::new("params", error.to_string())))?;
        let Argument { name, value } = params.argument;
        let mut values = match params.reference {
            Reference::Prompt { name: prompt } => {
                let found = self
                    .offer
                    .prompts
                    .iter()
                    .find(|(definition, _)| definition.name == prompt);
                let (_, prompt) = found.ok_or(Error::PromptNotFound(prompt))?;
                prompt.complete(&name, &value).await
            }
            Reference::Resource { uri } => {
                let found = self
                    .offer
                    .resources
                    .iter()
                    .find(|(definition, _)| definition.uri == uri);
                let (_, resource) = found.ok_or(Error::ResourceNotFound(uri))?;
                resource.complete(&name, &value).await
            }
        };
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }
}
