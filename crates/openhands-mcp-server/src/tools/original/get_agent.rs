//! `get_agent`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;

/// Returns an agent: what an agent profile says, without any key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetAgent {
    /// From create_agent.
    agent_id: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Agent {
    agent_id: String,
    api_available: bool,
    config: Config,
}

#[derive(Serialize, JsonSchema)]
struct Config {
    /// Such as openhands.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_kind: Option<String>,
    /// The model's profile in OpenHands.
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

impl Tool for GetAgent {
    const NAME: &'static str = "get_agent";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = Agent;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Agent, ToolError> {
        let profile = service
            .agent_server()
            .await?
            .profile(&self.agent_id)
            .await?;
        Ok(Agent {
            agent_id: profile.name,
            api_available: true,
            config: Config {
                agent_kind: profile.agent_kind,
                llm_profile: profile.llm_profile_ref,
                instructions: profile.system_message_suffix,
            },
        })
    }
}
