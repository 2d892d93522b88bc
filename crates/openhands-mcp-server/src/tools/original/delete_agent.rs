//! `delete_agent`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;

/// Deletes an agent: an agent profile of OpenHands. Its tasks stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteAgent {
    /// From create_agent.
    agent_id: String,
    /// The agent_id again, if the user agrees.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleted {
    success: bool,
    message: String,
}

impl Tool for DeleteAgent {
    const NAME: &'static str = "delete_agent";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = Deleted;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<Deleted, ToolError> {
        let agent = self.agent_id;
        service.agent_server().await?.profile(&agent).await?;
        let loss = format!("Deletes the agent profile {agent:?} of OpenHands.");
        call.confirm(&loss, &agent, self.confirm.as_deref()).await?;
        service.agent_server().await?.remove_profile(&agent).await?;
        Ok(Deleted {
            success: true,
            message: format!("The agent {agent} was deleted."),
        })
    }
}
