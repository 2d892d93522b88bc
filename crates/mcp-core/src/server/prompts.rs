//! `prompts/*`.

use serde_json::json;
use serde_json::value::RawValue;

use super::tools::CallParams;
use super::{Outcome, Server, imported};
use crate::era::Era;
use crate::error::{BadParam, Error};
use crate::prompt::Written;
use crate::tool::Call;

impl Server {
    pub(super) async fn get_prompt(
        &self,
        params: Option<&RawValue>,
        era: Era,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let params = CallParams::read(params)?;
        let offered = self.offered();
        let found = offered
            .prompts
            .iter()
            .find(|(prompt, _)| prompt.name == params.name);
        let (definition, prompt) =
            found.ok_or_else(|| Error::PromptNotFound(params.name.to_string()))?;
        let arguments = params.arguments()?;
        let writing = prompt
            .write(arguments, call)
            .map_err(|error| Error::InvalidParams(BadParam::new(error.field, error.reason)))?;
        match self.within_limits(&definition.name, call, writing).await {
            Ok(Written::Imported(result)) => Ok(imported::of_method(&result, era)),
            Ok(Written::Messages(messages)) => {
                Ok(json!({"description": definition.description, "messages": messages}).into())
            }
            Err(error) => Self::interrupted(error),
        }
    }
}
