//! `prompts/get`.

use serde_json::json;

use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::{Server, passed_on};
use crate::error::Error;
use crate::prompt::Written;

impl Server {
    pub(super) async fn get_prompt(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let (name, arguments) = context.params.named_call()?;
        let offered = self.offered();
        let mut prompts = offered.prompts.iter();
        let found = prompts.find(|(prompt, _)| prompt.name == name);
        let (definition, prompt) = found.ok_or_else(|| Error::PromptNotFound(name.to_string()))?;
        let writing = prompt.write(arguments, &context.call)?;
        match self.within_limits(&definition.name, context, writing).await {
            CallEnd::Done(Written::Imported(result)) => {
                Ok(passed_on::method(&result, context.era).into())
            }
            CallEnd::Done(Written::Messages(messages)) => {
                Ok(json!({"description": definition.description, "messages": messages}).into())
            }
            CallEnd::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
            CallEnd::Failed(error) => Err(error.into()),
        }
    }
}
