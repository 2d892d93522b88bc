//! `completion/complete`: values for an argument of a prompt or a variable of a template.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::tools::or_empty;
use super::{Outcome, Server};
use crate::error::{BadParam, Error};
use crate::method::Answering;
use crate::tool::Call;

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
    pub(super) async fn completion(
        &self,
        raw: Option<&RawValue>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let raw = or_empty(raw)?;
        let params: Params = serde_json::from_str(raw.get())
            .map_err(|error| Error::InvalidParams(BadParam::new("params", error.to_string())))?;
        let offered = self.offered();
        let Argument { name, value } = params.argument;
        let mut values = match params.reference {
            Reference::Prompt { name: prompt } => {
                let found = offered
                    .prompts
                    .iter()
                    .find(|(definition, _)| definition.name == prompt);
                let (_, prompt) = found.ok_or(Error::PromptNotFound(prompt))?;
                if let Some(answering) = prompt.completion(raw, call) {
                    return self.passed_on(call, answering).await;
                }
                prompt.complete(&name, &value).await
            }
            Reference::Resource { uri } => {
                let found = offered
                    .resources
                    .iter()
                    .find(|(definition, _)| definition.uri == uri);
                let (_, resource) = found.ok_or(Error::ResourceNotFound(uri))?;
                if let Some(answering) = resource.completion(raw, call) {
                    return self.passed_on(call, answering).await;
                }
                resource.complete(&name, &value).await
            }
        };
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }

    /// The answer of another server.
    async fn passed_on(&self, call: &Call, answering: Answering<'_>) -> Result<Outcome, Error> {
        match self
            .within_limits("completion/complete", call, answering)
            .await
        {
            Ok(json) => Ok(json.into()),
            Err(error) => Self::interrupted(error),
        }
    }
}
