//! `prompts/*`.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::tools::CallParams;
use super::{Outcome, Server};
use crate::error::{BadParam, Error};
use crate::tool::Call;

impl Server {
    /// The result of `prompts/list`.
    pub(super) fn prompt_list(&self) -> Value {
        let prompts: Vec<_> = self
            .offer
            .prompts
            .iter()
            .map(|(prompt, _)| prompt)
            .collect();
        json!({"prompts": prompts})
    }

    pub(super) async fn get_prompt(
        &self,
        params: Option<&RawValue>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let params = CallParams::read(params)?;
        let found = self
            .offer
            .prompts
            .iter()
            .find(|(prompt, _)| prompt.name == params.name);
        let (definition, prompt) =
            found.ok_or_else(|| Error::PromptNotFound(params.name.to_string()))?;
        let arguments = params.arguments()?;
        let writing = prompt
            .write(arguments, call)
            .map_err(|error| Error::InvalidParams(BadParam::new(error.field, error.reason)))?;
        match self.within_limits(definition.name, call, writing).await {
            Ok(messages) => {
                Ok(json!({"description": definition.description, "messages": messages}).into())
            }
            Err(error) => Self::interrupted(error),
        }
    }
}
