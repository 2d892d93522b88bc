//! Agent profiles: which agent works, with which model. Keys of models stay on the agent server.

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};
use upstream::http::Method;

use super::agent_server::{AgentServer, Request};
use super::failure::{Failure, Subject, no_model};

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

/// An agent profile; the model that it names holds the key, not the profile.
#[derive(Debug, Deserialize)]
pub(crate) struct Profile {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Such as `openhands`.
    pub(crate) agent_kind: Option<String>,
    /// Name of the model's profile.
    pub(crate) llm_profile_ref: Option<String>,
    /// What is added to the agent's instructions.
    pub(crate) system_message_suffix: Option<String>,
}

/// The list of agent profiles, which says less of each.
#[derive(Deserialize)]
struct Profiles {
    #[serde(default)]
    profiles: Vec<ListedProfile>,
    active_agent_profile_id: Option<String>,
}

#[derive(Deserialize)]
struct ListedProfile {
    id: String,
    name: String,
    llm_profile_ref: Option<String>,
}

#[derive(Deserialize)]
struct Detail {
    profile: Profile,
}

impl AgentServer {
    /// Id of the agent profile `name`, or of the active one.
    ///
    /// # Errors
    /// When there is none that could work: says what to do.
    pub(crate) async fn agent_profile(&self, name: Option<&str>) -> Result<String, ToolError> {
        match name {
            Some(name) => Ok(self.profile(name).await?.id),
            None => self.active_profile().await,
        }
    }

    /// The agent profile `name`.
    pub(crate) async fn profile(&self, name: &str) -> Result<Profile, Failure> {
        let request = self.about_profile(Method::GET, name);
        Ok(request.send::<Detail>().await?.profile)
    }

    /// The names of all agent profiles.
    pub(crate) async fn profile_names(&self) -> Result<Vec<String>, Failure> {
        let profiles = self.profiles().await?.profiles;
        Ok(profiles.into_iter().map(|profile| profile.name).collect())
    }

    /// Writes an agent profile; one of that name is replaced.
    pub(crate) async fn save_profile(
        &self,
        name: &str,
        llm_profile: &str,
        instructions: Option<&str>,
    ) -> Result<(), Failure> {
        let body = json!({
            "agent_kind": "openhands",
            "llm_profile_ref": llm_profile,
            "system_message_suffix": instructions,
        });
        let request = self.post(&["api", "agent-profiles", name], &[]);
        request.json(&body).run().await
    }

    /// Removes an agent profile; its tasks stay.
    pub(crate) async fn remove_profile(&self, name: &str) -> Result<(), Failure> {
        self.about_profile(Method::DELETE, name).run().await
    }

    /// Name of the model's profile that an agent profile uses: that with this id, or the active
    /// one.
    pub(crate) async fn llm_profile(&self, agent: Option<&str>) -> Result<Option<String>, Failure> {
        let listed = self.profiles().await?;
        let wanted = agent.or(listed.active_agent_profile_id.as_deref());
        let mut profiles = listed.profiles.into_iter();
        let profile = profiles.find(|profile| Some(&*profile.id) == wanted);
        Ok(profile.and_then(|profile| profile.llm_profile_ref))
    }

    async fn active_profile(&self) -> Result<String, ToolError> {
        let settings: Settings = self.get(&["api", "settings"], &[]).send().await?;
        // Listing the profiles creates one from the settings where there is none. Before a model
        // was chosen that one would refer to nothing and stay broken, so it is not asked for.
        let active = match settings.active_agent_profile_id {
            None if settings.have_model() => self.profiles().await?.active_agent_profile_id,
            active => active,
        };
        active.ok_or_else(no_model)
    }

    async fn profiles(&self) -> Result<Profiles, Failure> {
        self.get(&["api", "agent-profiles"], &[]).send().await
    }

    fn about_profile(&self, method: Method, name: &str) -> Request {
        let request = self.request(method, &["api", "agent-profiles", name], &[]);
        request.about(Subject::Profile(name.to_owned()))
    }
}
