//! The V1 app server of OpenHands, as far as it is used here: it starts an agent server in a
//! sandbox for a conversation and knows where that is. All else is asked of that agent server.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use upstream::http::Method;
use uuid::Uuid;

use super::agent_server::{AgentServer, Request};
use super::conversations::{Execution, message};
use super::failure::{Failure, Subject};
use super::task_id::TaskId;

/// Starting answers at once, deleting when the agent server has done it.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Starts among which one is looked for; each answers with its whole first message.
const RECENT: &str = "20";

/// The app server: where it is and how to be let in.
#[derive(Clone)]
pub(crate) struct AppServer(AgentServer);

/// What the app server says about a conversation (`AppConversation`). Holds the key of its sandbox,
/// so it has no `Debug`.
#[derive(Deserialize)]
pub(crate) struct AppConversation {
    pub(crate) id: TaskId,
    pub(crate) title: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) created_at: String,
    pub(crate) sandbox_id: String,
    #[serde(default)]
    pub(crate) sandbox_status: SandboxStatus,
    /// None where its sandbox does not run.
    pub(crate) execution_status: Option<Execution>,
    /// At the agent server in its sandbox.
    pub(super) conversation_url: Option<String>,
    pub(super) session_api_key: Option<String>,
    metrics: Option<Metrics>,
}

#[derive(Deserialize)]
struct Metrics {
    #[serde(default)]
    accumulated_cost: f64,
}

impl AppConversation {
    /// US dollars.
    pub(crate) fn cost(&self) -> f64 {
        let metrics = self.metrics.as_ref();
        metrics.map_or(0.0, |metrics| metrics.accumulated_cost)
    }
}

/// `SandboxStatus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum SandboxStatus {
    Starting,
    Running,
    Paused,
    Error,
    #[default]
    Missing,
    /// One of a later version.
    #[serde(other)]
    Unknown,
}

/// Some conversations and where the next ones begin.
#[derive(Deserialize)]
pub(crate) struct AppConversations {
    pub(crate) items: Vec<AppConversation>,
    pub(crate) next_page_id: Option<String>,
}

/// The start of a conversation (`AppConversationStartTask`).
#[derive(Deserialize)]
pub(crate) struct Start {
    pub(crate) id: Uuid,
    pub(super) status: StartStatus,
    request: StartRequest,
}

#[derive(Deserialize)]
struct StartRequest {
    conversation_id: Option<TaskId>,
}

/// `AppConversationStartTaskStatus`, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum StartStatus {
    Ready,
    Error,
    /// One of the steps in between.
    #[serde(other)]
    UnderWay,
}

/// What a conversation is started with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewAppConversation {
    /// Chosen by us, so that it is known before the sandbox is there.
    pub(crate) id: TaskId,
    /// With it the agent begins by itself.
    pub(crate) prompt: String,
    /// Name of the host's kind and of the repository there, such as `github` and `owner/name`.
    pub(crate) repository: Option<(&'static str, String)>,
    pub(crate) branch: Option<String>,
    /// Id of an agent profile; none for the active one.
    pub(crate) agent_profile: Option<Uuid>,
}

impl AppServer {
    /// The app server that answers where an agent server could be, with the same key.
    pub(super) fn new(front: &AgentServer) -> Self {
        Self(front.clone())
    }

    fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Request {
        self.0.bearer_request(Method::GET, &whole(path), query)
    }

    fn post(&self, path: &[&str]) -> Request {
        let request = self.0.bearer_request(Method::POST, &whole(path), &[]);
        request.within(CHANGE_TIMEOUT)
    }

    /// How many conversations there are.
    pub(super) async fn count(&self) -> Result<u64, Failure> {
        self.get(&["app-conversations", "count"], &[]).send().await
    }

    /// The conversation as it is now; `None` where there is none (yet).
    pub(crate) async fn conversation(
        &self,
        id: TaskId,
    ) -> Result<Option<AppConversation>, Failure> {
        let request = self.get(&["app-conversations"], &[("ids", &id.to_string())]);
        let found: Vec<Option<AppConversation>> = request.send().await?;
        Ok(found.into_iter().flatten().next())
    }

    /// Conversations, newest first, at most 100.
    pub(crate) async fn conversations(
        &self,
        limit: u32,
        page: Option<&str>,
    ) -> Result<AppConversations, Failure> {
        let limit = limit.to_string();
        let mut query = vec![("limit", &*limit)];
        query.extend(page.map(|page| ("page_id", page)));
        let request = self.get(&["app-conversations", "search"], &query);
        request.send().await
    }

    /// Begins to start a conversation. Where it is started twice, there are two sandboxes.
    pub(crate) async fn start(&self, new: &NewAppConversation) -> Result<Start, Failure> {
        let mut first = message(&new.prompt);
        first["run"] = json!(true);
        let mut body = json!({"conversation_id": new.id, "initial_message": first});
        if let Some((provider, name)) = &new.repository {
            body["git_provider"] = json!(provider);
            body["selected_repository"] = json!(name);
        }
        if let Some(branch) = &new.branch {
            body["selected_branch"] = json!(branch);
        }
        if let Some(profile) = new.agent_profile {
            body["agent_profile_id"] = json!(profile);
        }
        self.post(&["app-conversations"]).json(&body).send().await
    }

    /// How far a start is.
    pub(super) async fn start_of(&self, start: Uuid) -> Result<Option<Start>, Failure> {
        let query = [("ids", &*start.to_string())];
        let request = self.get(&["app-conversations", "start-tasks"], &query);
        let found: Vec<Option<Start>> = request.send().await?;
        Ok(found.into_iter().flatten().next())
    }

    /// The newest start of the conversation, where it is not long ago: until the end of a start the
    /// app server does not find it by its conversation.
    pub(super) async fn recent_start(&self, id: TaskId) -> Result<Option<Start>, Failure> {
        #[derive(Deserialize)]
        struct Page {
            items: Vec<Start>,
        }
        let query = [("limit", RECENT), ("sort_order", "CREATED_AT_DESC")];
        let request = self.get(&["app-conversations", "start-tasks", "search"], &query);
        let page: Page = request.send().await?;
        let mut starts = page.items.into_iter();
        Ok(starts.find(|start| start.request.conversation_id == Some(id)))
    }

    /// Wakes a sandbox that is paused.
    pub(super) async fn resume(&self, sandbox: &str) -> Result<(), Failure> {
        self.post(&["sandboxes", sandbox, "resume"]).run().await
    }

    /// Forgets the conversation, and removes its sandbox where no other conversation is in it.
    pub(crate) async fn forget(&self, id: TaskId) -> Result<(), Failure> {
        let path = ["app-conversations", &id.to_string()];
        let request = self.0.bearer_request(Method::DELETE, &whole(&path), &[]);
        let request = request.about(Subject::Task(id));
        request.within(CHANGE_TIMEOUT).run().await
    }
}

fn whole<'a>(path: &[&'a str]) -> Vec<&'a str> {
    ["api", "v1"].iter().chain(path).copied().collect()
}
