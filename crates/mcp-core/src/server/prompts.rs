//! `prompts/get`.

use serde_json::json;

use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::{Server, relayed};
use crate::error::Error;
use crate::prompt::PromptOutput;

impl Server {
    pub(super) async fn get_prompt(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog();
        let mut prompts = catalog.prompts.iter();
        let found = prompts.find(|(prompt, _)| prompt.name == name);
        let (definition, prompt) = found.ok_or_else(|| Error::PromptNotFound(name.to_string()))?;
        let writing = prompt.write(arguments, &context.call)?;
        match self.within_limits(&definition.name, context, writing).await {
            CallEnd::Done(PromptOutput::Relayed(result)) => {
                Ok(relayed::method(&result, context.era).into())
            }
            CallEnd::Done(PromptOutput::Messages(messages)) => {
                Ok(json!({"description": definition.description, "messages": messages}).into())
            }
            CallEnd::NeedsInput(questions) => Ok(Outcome::NeedsInput(questions)),
            CallEnd::Failed(error) => Err(error.into()),
        }
    }
}
