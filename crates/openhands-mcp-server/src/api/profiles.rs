//! Agent profiles: which agent works, with which model. Keys of models stay on the agent server.

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;

use super::failure::{Failure, no_model};
use super::http::AgentServer;

#[derive(Deserialize)]
struct Settings {
    active_agent_profile_id: Option<String>,
    #[serde(default)]
    llm_api_key_is_set: bool,
    agent_settings: AgentSettings,
}

#[derive(Deserialize)]
struct AgentSettings {
    agent_kind: Option<String>,
    llm: Option<Llm>,
}

#[derive(Deserialize)]
struct Llm {
    base_url: Option<Value>,
}

impl Settings {
    /// A model was chosen: a key, an own endpoint, or an agent that brings its model along.
    fn have_model(&self) -> bool {
        let endpoint = self.agent_settings.llm.as_ref();
        let endpoint = endpoint.and_then(|llm| llm.base_url.as_ref());
        self.llm_api_key_is_set
            || endpoint.is_some_and(|url| !url.is_null())
            || self.agent_settings.agent_kind.as_deref() == Some("acp")
    }
}

impl AgentServer {
    /// Id of the agent profile `name`, or of the active one.
    ///
    /// # Errors
    /// When there is none that could work: says what to do.
    pub(crate) async fn agent_profile(&self, name: Option<&str>) -> Result<String, ToolError> {
        match name {
            Some(name) => Ok(self.named_profile(name).await?),
            None => self.active_profile().await,
        }
    }

    async fn named_profile(&self, name: &str) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            profile: Profile,
        }
        #[derive(Deserialize)]
        struct Profile {
            id: String,
        }
        let answer = self
            .get(&["api", "agent-profiles", name], &[])
            .send::<Answer>();
        let answer = answer.await;
        let answer = answer.map_err(|failure| failure.about_profile(name))?;
        Ok(answer.profile.id)
    }

    async fn active_profile(&self) -> Result<String, ToolError> {
        let settings: Settings = self.get(&["api", "settings"], &[]).send().await?;
        // Listing the profiles creates one from the settings where there is none. Before a model
        // was chosen that one would refer to nothing and stay broken, so it is not asked for.
        let active = match settings.active_agent_profile_id {
            None if settings.have_model() => self.default_profile().await?,
            active => active,
        };
        active.ok_or_else(no_model)
    }

    async fn default_profile(&self) -> Result<Option<String>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            active_agent_profile_id: Option<String>,
        }
        let answer: Answer = self.get(&["api", "agent-profiles"], &[]).send().await?;
        Ok(answer.active_agent_profile_id)
    }
}
