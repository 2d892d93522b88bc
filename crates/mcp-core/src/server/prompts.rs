//! `prompts/get`.

use serde_json::json;

use super::context::Context;
use super::outcome::Outcome;
use super::{Server, relayed};
use crate::error::Error;
use crate::prompt::PromptOutput;

impl Server {
    pub(super) async fn get_prompt(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog_of(context.caller);
        let found = catalog.prompt(&name);
        let (definition, prompt) = found.ok_or_else(|| Error::PromptNotFound(name.to_string()))?;
        let writing = prompt.write(arguments, &context.call)?;
        let end = self.within_limits(&definition.name, context, writing);
        end.await.into_outcome(|output| match output {
            PromptOutput::Relayed(result) => relayed::method(&result, context.era).into(),
            PromptOutput::Messages(messages) => {
                json!({"description": definition.description, "messages": messages}).into()
            }
        })
    }
}
