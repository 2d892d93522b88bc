//! Agent profiles: they choose the agent and its model. Keys of models stay on the agent server.

use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};
use upstream::http::Method;

use crate::api::agent_server::{AgentServer, Request};
use crate::api::failure::{ApiResult, RequestTarget, no_model};

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
    /// Returns true if a model is set up: by its key, by its endpoint, or as part of the agent.
    fn have_model(&self) -> bool {
        let endpoint = self.agent_settings.llm.as_ref();
        let endpoint = endpoint.and_then(|llm| llm.base_url.as_ref());
        self.llm_api_key_is_set
            || endpoint.is_some_and(|url| !url.is_null())
            || self.agent_settings.agent_kind.as_deref() == Some("acp")
    }
}

/// An agent profile. It refers to a model's profile, which holds the key.
#[derive(Debug, Deserialize)]
pub(crate) struct AgentProfile {
    /// Its id, by which tasks are started.
    pub(crate) id: String,
    /// Its name, which callers use.
    pub(crate) name: String,
    /// Such as `openhands`.
    pub(crate) agent_kind: Option<String>,
    /// Name of the model's profile.
    pub(crate) llm_profile_ref: Option<String>,
    /// Text that is added to the agent's instructions.
    pub(crate) system_message_suffix: Option<String>,
}

/// The agent of a new conversation.
#[derive(Debug)]
pub(crate) enum NewAgent {
    /// That of the agent profile with this id.
    Profile(String),
    /// The standard one, on agent servers where the agents of profiles have no tools.
    Standard {
        /// Text that is added to its instructions.
        instructions: Option<String>,
        /// The name of the model's profile, which is to be set before it runs.
        model: String,
    },
}

/// The tools of the standard agent.
const STANDARD_TOOLS: [&str; 3] = ["terminal", "file_editor", "task_tracker"];

impl NewAgent {
    /// The part of the request for a conversation.
    pub(crate) fn add_to(&self, body: &mut Value) {
        match self {
            Self::Profile(id) => body["agent_profile_id"] = json!(id),
            Self::Standard { instructions, .. } => {
                body["agent_settings"] = json!({
                    "agent_kind": "openhands",
                    "llm": {"model": "none"},
                    "tools": STANDARD_TOOLS.map(|name| json!({"name": name})),
                    "agent_context": {"system_message_suffix": instructions},
                });
            }
        }
    }
}

/// A model's profile: the model, its endpoint and its key, which is not read.
#[derive(Debug, Deserialize)]
pub(crate) struct ModelProfile {
    pub(crate) name: String,
    /// Such as `anthropic/claude-sonnet-4-5`.
    pub(crate) model: Option<String>,
}

/// The list of agent profiles, without their instructions.
#[derive(Deserialize)]
struct Profiles {
    #[serde(default)]
    profiles: Vec<AgentProfile>,
    active_agent_profile_id: Option<String>,
}

impl AgentServer {
    /// The agent of the agent profile `name`, or of the active one.
    ///
    /// # Errors
    /// There is no usable profile; the error says what to do.
    pub(crate) async fn new_agent(&self, name: Option<&str>) -> Result<NewAgent, ToolError> {
        let id = match name {
            Some(name) => self.profile(name).await?.id,
            None => self.active_profile().await?,
        };
        if self.known_version().await?.has_tools_in_profiles() {
            return Ok(NewAgent::Profile(id));
        }
        let mut listed = self.profiles().await?.profiles.into_iter();
        let Some(listed) = listed.find(|profile| profile.id == id) else {
            return Ok(NewAgent::Profile(id));
        };
        let profile = self.profile(&listed.name).await?;
        Ok(match profile.llm_profile_ref {
            Some(model) => NewAgent::Standard {
                instructions: profile.system_message_suffix,
                model,
            },
            // An agent of another program, which has its own tools.
            None => NewAgent::Profile(id),
        })
    }

    /// The agent profile `name`.
    pub(crate) async fn profile(&self, name: &str) -> ApiResult<AgentProfile> {
        #[derive(Deserialize)]
        struct ProfileDetail {
            profile: AgentProfile,
        }
        let request = self.profile_request(Method::GET, name);
        Ok(request.send::<ProfileDetail>().await?.profile)
    }

    /// The profiles of models.
    pub(crate) async fn models(&self) -> ApiResult<Vec<ModelProfile>> {
        #[derive(Deserialize)]
        struct Models {
            profiles: Vec<ModelProfile>,
        }
        let request = self.get(&["api", "profiles"]);
        Ok(request.send::<Models>().await?.profiles)
    }

    /// The names of all agent profiles.
    pub(crate) async fn profile_names(&self) -> ApiResult<Vec<String>> {
        let profiles = self.profiles().await?.profiles;
        Ok(profiles.into_iter().map(|profile| profile.name).collect())
    }

    /// All agent profiles, and the id of the active one. Empty without a model, because to list them would
    /// create a broken one.
    pub(crate) async fn agent_profiles(&self) -> ApiResult<(Vec<AgentProfile>, Option<String>)> {
        let settings: Settings = self.get(&["api", "settings"]).send().await?;
        if settings.active_agent_profile_id.is_none() && !settings.have_model() {
            return Ok((Vec::new(), None));
        }
        let listed = self.profiles().await?;
        Ok((listed.profiles, listed.active_agent_profile_id))
    }

    /// Writes an agent profile; replaces an existing one of the same name.
    pub(crate) async fn save_profile(
        &self,
        name: &str,
        llm_profile: &str,
        instructions: Option<&str>,
    ) -> ApiResult<()> {
        let body = json!({
            "agent_kind": "openhands",
            "llm_profile_ref": llm_profile,
            "system_message_suffix": instructions,
        });
        let request = self.post(&["api", "agent-profiles", name]);
        request.json(&body).run().await
    }

    /// Removes an agent profile; its tasks stay.
    pub(crate) async fn remove_profile(&self, name: &str) -> ApiResult<()> {
        self.profile_request(Method::DELETE, name).run().await
    }

    /// The name of the model's profile that an agent profile uses: the one with the id `agent`, or the
    /// active one.
    pub(crate) async fn llm_profile(&self, agent: Option<&str>) -> ApiResult<Option<String>> {
        let listed = self.profiles().await?;
        let wanted = agent.or(listed.active_agent_profile_id.as_deref());
        let mut profiles = listed.profiles.into_iter();
        let profile = profiles.find(|profile| Some(&*profile.id) == wanted);
        Ok(profile.and_then(|profile| profile.llm_profile_ref))
    }

    async fn active_profile(&self) -> Result<String, ToolError> {
        let settings: Settings = self.get(&["api", "settings"]).send().await?;
        // Listing the profiles creates one from the settings if the list is empty. Without a model that
        // profile would refer to nothing and stay broken, so the list is not requested.
        let active = match settings.active_agent_profile_id {
            None if settings.have_model() => self.profiles().await?.active_agent_profile_id,
            active => active,
        };
        active.ok_or_else(no_model)
    }

    async fn profiles(&self) -> ApiResult<Profiles> {
        self.get(&["api", "agent-profiles"]).send().await
    }

    fn profile_request(&self, method: Method, name: &str) -> Request {
        let request = self.request(method, &["api", "agent-profiles", name]);
        request.with_target(RequestTarget::Profile(name.to_owned()))
    }
}
