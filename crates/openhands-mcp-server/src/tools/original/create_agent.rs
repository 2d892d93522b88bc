//! `create_agent`

use mcp_core::tool::{Call, Effect, Tool, ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::OpenHands;
use crate::file_name::FileName;

/// Makes an agent: an agent profile of OpenHands. Its model's key stays there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateAgent {
    /// Its name; of a path, the last part without its ending.
    config_file: String,
    /// The model's profile in OpenHands; default that of the active agent.
    llm_profile: Option<String>,
    /// What is added to its instructions.
    instructions: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Created {
    /// For execute_task.
    agent_id: String,
    config_file: String,
    api_available: bool,
}

impl Tool for CreateAgent {
    const NAME: &'static str = "create_agent";
    const EFFECT: Effect = Effect::Additive;
    type Service = OpenHands;
    type Output = Created;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Created, ToolError> {
        let name = name(&self.config_file)?;
        let server = service.agent_server().await?;
        if server
            .profile_names()
            .await?
            .iter()
            .any(|other| other == name)
        {
            return Err(ToolError::new(
                ToolErrorKind::Conflict,
                format!("There is an agent {name:?} already: use it, or delete_agent it first."),
            ));
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
        Ok(Created {
            agent_id: name.to_owned(),
            config_file: self.config_file,
            api_available: true,
        })
    }
}

/// The name of the agent that a configuration file stands for.
fn name(config_file: &str) -> Result<&str, ToolError> {
    let file = config_file.rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('.').map_or(file, |(name, _)| name);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if FileName::new(name).is_err() || name.len() > 64 || !name.chars().all(plain) {
        return Err(ToolError::invalid_argument(
            "config_file must give a name of up to 64 letters, digits, - and _, such as \
             reviewer.toml.",
        ));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_file_stands_for_an_agent() {
        assert_eq!(name("/etc/openhands/reviewer.toml").unwrap(), "reviewer");
        assert_eq!(name("reviewer").unwrap(), "reviewer");
        for bad in ["", "/", ".toml", "a b", "../..", "ä"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
