//! `create_agent`, `get_agent` and `delete_agent`: an agent is an agent profile of OpenHands.

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted_code;

use crate::OpenHands;

/// Adds an agent: an agent profile of OpenHands. Its model's key stays there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateAgent {
    /// Its name; of a path, the file name without extension.
    config_file: String,
    /// The model's profile in OpenHands; default that of the active agent.
    llm_profile: Option<String>,
    /// Added to its instructions.
    instructions: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct CreatedAgent {
    /// For execute_task.
    agent_id: String,
    config_file: String,
    api_available: bool,
}

impl Tool for CreateAgent {
    const NAME: &'static str = "create_agent";
    const EFFECT: Effect = Effect::Additive;
    type Service = OpenHands;
    type Output = CreatedAgent;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<CreatedAgent, ToolError> {
        let name = agent_name(&self.config_file)?;
        let server = service.servers.shared_agent().await?;
        let names = server.profile_names().await?;
        if names.iter().any(|other| other == name) {
            return Err(ToolError::conflict(format!(
                "There is an agent {name:?} already: use it, or delete it first with delete_agent."
            )));
        }
        let llm = match self.llm_profile {
            Some(llm) => llm,
            None => server.llm_profile(None).await?.ok_or_else(|| {
                ToolError::invalid_argument(
                    "llm_profile is needed: the active agent has no model to share.",
                )
            })?,
        };
        server
            .save_profile(name, &llm, self.instructions.as_deref())
            .await?;
        Ok(CreatedAgent {
            agent_id: name.to_owned(),
            config_file: self.config_file,
            api_available: true,
        })
    }
}

/// The name of the agent for a configuration file.
fn agent_name(config_file: &str) -> Result<&str, ToolError> {
    let file = config_file.rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('.').map_or(file, |(name, _)| name);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(ToolError::invalid_argument(
            "config_file must give a name of up to 64 letters, digits, - and _, such as \
             reviewer.toml.",
        ));
    }
    Ok(name)
}

/// Returns an agent: its agent profile, without any key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetAgent {
    /// From create_agent.
    agent_id: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct AgentInfo {
    agent_id: String,
    api_available: bool,
    config: AgentConfig,
}

#[derive(Serialize, JsonSchema)]
struct AgentConfig {
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
    type Output = AgentInfo;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<AgentInfo, ToolError> {
        let server = service.servers.shared_agent().await?;
        let profile = server.profile(&self.agent_id).await?;
        let instructions = profile.system_message_suffix;
        Ok(AgentInfo {
            agent_id: profile.name,
            api_available: true,
            config: AgentConfig {
                agent_kind: profile.agent_kind,
                llm_profile: profile.llm_profile_ref,
                instructions: instructions.map(|text| redacted_code(&text).into_owned()),
            },
        })
    }
}

/// Deletes an agent: an agent profile of OpenHands. Its tasks stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteAgent {
    /// From create_agent.
    agent_id: String,
    /// The agent_id again, if the user agrees.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct DeletedAgent {
    success: bool,
    message: String,
}

impl Tool for DeleteAgent {
    const NAME: &'static str = "delete_agent";
    const EFFECT: Effect = Effect::Destructive;
    type Service = OpenHands;
    type Output = DeletedAgent;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<DeletedAgent, ToolError> {
        let agent = self.agent_id;
        let server = service.servers.shared_agent().await?;
        server.profile(&agent).await?;
        let loss = format!("Deletes the agent profile {agent:?} of OpenHands.");
        call.confirm(&loss, &agent, self.confirm.as_deref()).await?;
        server.remove_profile(&agent).await?;
        Ok(DeletedAgent {
            success: true,
            message: format!("The agent {agent} was deleted."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::agent_name;

    #[test]
    fn agent_is_named_by_its_file() {
        for file in ["/etc/openhands/reviewer.toml", "reviewer"] {
            assert_eq!(agent_name(file).unwrap(), "reviewer");
        }
        for bad in ["", "/", ".toml", "a b", "../..", "ä"] {
            assert!(agent_name(bad).is_err(), "{bad:?}");
        }
    }
}
