//! `list_agent_profiles`

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;

/// Returns the agent profiles and models of OpenHands, for `agent` and `model` of run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAgentProfiles {}

#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentProfiles {
    profiles: Vec<ProfileRow>,
    models: Vec<ModelRow>,
}

#[derive(Serialize, JsonSchema)]
struct ModelRow {
    /// For run_task.
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ProfileRow {
    /// For run_task.
    name: String,
    /// Such as openhands.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_kind: Option<String>,
    /// The model's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Used by default.
    default: bool,
}

impl Tool for ListAgentProfiles {
    const NAME: &'static str = "list_agent_profiles";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = AgentProfiles;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<AgentProfiles, ToolError> {
        let server = service.servers.shared_agent().await?;
        let (profiles, active) = server.agent_profiles().await?;
        let row = |profile: crate::api::AgentProfile| ProfileRow {
            default: match &service.profile {
                Some(name) => *name == profile.name,
                None => active.as_ref() == Some(&profile.id),
            },
            name: profile.name,
            agent_kind: profile.agent_kind,
            model: profile.llm_profile_ref,
        };
        let models = server.models().await?.into_iter();
        let models =
            models.map(|crate::api::ModelProfile { name, model }| ModelRow { name, model });
        Ok(AgentProfiles {
            profiles: profiles.into_iter().map(row).collect(),
            models: models.collect(),
        })
    }
}
