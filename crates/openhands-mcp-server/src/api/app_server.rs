//! The V1 app server of OpenHands, as far as it is used here. It starts an agent server in a sandbox
//! for each conversation and knows its address. All other requests go to that agent server.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use upstream::http::Method;
use uuid::Uuid;

use crate::api::agent_server::{AgentServer, Page, Request};
use crate::api::conversations::{Execution, Metrics, message};
use crate::api::events::EventMessage;
use crate::api::failure::{ApiResult, RequestTarget};
use crate::api::task_id::TaskId;

/// A start is answered at once, a deletion once the agent server has done it.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Newest starts that are searched; each comes with its whole first message.
const START_SEARCH_LIMIT: u32 = 20;

#[derive(Clone)]
pub(crate) struct AppServer(AgentServer);

/// A conversation (`AppConversation`). Holds the key of its sandbox, so it has no `Debug`.
#[derive(Deserialize)]
pub(crate) struct AppConversation {
    pub(crate) id: TaskId,
    /// The title that OpenHands gave it.
    pub(crate) title: Option<String>,
    /// RFC 3339, UTC.
    pub(crate) created_at: String,
    pub(crate) sandbox_id: String,
    /// The status of its sandbox.
    #[serde(default)]
    pub(crate) sandbox_status: SandboxStatus,
    /// `None` if its sandbox does not run.
    pub(crate) execution_status: Option<Execution>,
    /// A URL of the agent server in its sandbox.
    pub(crate) conversation_url: Option<String>,
    pub(crate) session_api_key: Option<String>,
    metrics: Option<Metrics>,
}

impl AppConversation {
    /// The cost in US dollars.
    pub(crate) fn cost(&self) -> f64 {
        let metrics = self.metrics.as_ref();
        metrics.map_or(0.0, |metrics| metrics.accumulated_cost)
    }
}

/// `SandboxStatus` of the app server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum SandboxStatus {
    /// It is being created or resumed.
    Starting,
    /// Its agent server can be called.
    Running,
    /// It can be resumed.
    Paused,
    /// It does not work.
    Error,
    /// It does not exist any longer.
    #[default]
    Missing,
    /// A status of a later version.
    #[serde(other)]
    Unknown,
}

/// The start of a conversation (`AppConversationStartTask`).
#[derive(Deserialize)]
pub(crate) struct ConversationStart {
    pub(crate) id: Uuid,
    pub(crate) status: StartStatus,
    /// The reason of a failure.
    pub(crate) detail: Option<String>,
    /// `None` until it is known.
    pub(crate) sandbox_id: Option<String>,
    /// RFC 3339, UTC.
    #[serde(default)]
    pub(crate) created_at: String,
    request: StartRequest,
}

#[derive(Deserialize)]
struct StartRequest {
    conversation_id: Option<TaskId>,
    initial_message: Option<EventMessage>,
}

impl ConversationStart {
    /// The conversation that it starts, if the request has named one.
    pub(crate) fn task(&self) -> Option<TaskId> {
        self.request.conversation_id
    }

    /// The prompt of the task.
    pub(crate) fn prompt(&self) -> Option<&str> {
        let first = self.request.initial_message.as_ref()?.content.first()?;
        Some(&first.text)
    }

    /// Returns true if it goes on.
    pub(crate) fn is_in_progress(&self) -> bool {
        self.status == StartStatus::InProgress
    }

    /// Returns true if it has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.status == StartStatus::Error
    }
}

/// `AppConversationStartTaskStatus`, without its intermediate steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum StartStatus {
    Ready,
    Error,
    /// Any intermediate step.
    #[serde(other)]
    InProgress,
}

/// The request to start a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewAppConversation {
    /// Chosen by us, so that it is known before the sandbox exists.
    pub(crate) id: TaskId,
    /// The first message.
    pub(crate) prompt: String,
    /// The git provider and the repository's name there, such as `github` and `owner/name`.
    pub(crate) repository: Option<(&'static str, String)>,
    /// The branch of the repository; `None` for its default one.
    pub(crate) branch: Option<String>,
    /// The id of an agent profile; `None` for the active one.
    pub(crate) agent_profile: Option<Uuid>,
}

impl AppServer {
    /// An app server with the address and the key of `configured`.
    pub(crate) fn new(configured: &AgentServer) -> Self {
        Self(configured.clone())
    }

    fn request(&self, method: Method, path: &[&str]) -> Request {
        let path: Vec<&str> = ["api", "v1"].iter().chain(path).copied().collect();
        self.0.bearer_request(method, &path)
    }

    fn get(&self, path: &[&str]) -> Request {
        self.request(Method::GET, path)
    }

    fn post(&self, path: &[&str]) -> Request {
        self.request(Method::POST, path).timeout(CHANGE_TIMEOUT)
    }

    /// Counts the conversations.
    pub(crate) async fn count(&self) -> ApiResult<u64> {
        self.get(&["app-conversations", "count"]).send().await
    }

    /// Reads the conversation; `None` if it does not exist (yet).
    pub(crate) async fn conversation(&self, id: TaskId) -> ApiResult<Option<AppConversation>> {
        let request = self.get(&["app-conversations"]);
        let request = request.query(&[("ids", &id.to_string())]);
        let found: Vec<Option<AppConversation>> = request.send().await?;
        Ok(found.into_iter().flatten().next())
    }

    /// A page of the conversations, newest first, at most 100.
    pub(crate) async fn conversations(
        &self,
        limit: u32,
        page: Option<&str>,
    ) -> ApiResult<Page<AppConversation>> {
        let limit = limit.to_string();
        let mut query = vec![("limit", &*limit)];
        query.extend(page.map(|page| ("page_id", page)));
        let request = self.get(&["app-conversations", "search"]);
        request.query(&query).send().await
    }

    /// Requests the start of a conversation. Repeating the request creates a second sandbox.
    pub(crate) async fn start(&self, new: &NewAppConversation) -> ApiResult<ConversationStart> {
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

    /// Reads the state of a start.
    pub(crate) async fn start_by_id(&self, start: Uuid) -> ApiResult<Option<ConversationStart>> {
        let request = self.get(&["app-conversations", "start-tasks"]);
        let request = request.query(&[("ids", &start.to_string())]);
        let found: Vec<Option<ConversationStart>> = request.send().await?;
        Ok(found.into_iter().flatten().next())
    }

    /// The newest start of the conversation, if it is recent. Until a start has ended, the app server
    /// cannot find it by its conversation.
    pub(crate) async fn recent_start(&self, id: TaskId) -> ApiResult<Option<ConversationStart>> {
        let mut starts = self.starts(START_SEARCH_LIMIT).await?.into_iter();
        Ok(starts.find(|start| start.task() == Some(id)))
    }

    /// The newest starts, at most 100. Each comes with its whole first message.
    pub(crate) async fn starts(&self, limit: u32) -> ApiResult<Vec<ConversationStart>> {
        let limit = limit.to_string();
        let query = [("limit", &*limit), ("sort_order", "CREATED_AT_DESC")];
        let request = self.get(&["app-conversations", "start-tasks", "search"]);
        let page: Page<ConversationStart> = request.query(&query).send().await?;
        Ok(page.items)
    }

    /// Deletes a sandbox. Returns false if it does not exist (yet).
    pub(crate) async fn delete_sandbox(&self, sandbox: &str) -> ApiResult<bool> {
        let request = self.request(Method::DELETE, &["sandboxes", sandbox]);
        // 1.11 names the parameter of the path otherwise, and so reads the id from the query.
        let request = request.query(&[("sandbox_id", sandbox)]);
        match request.timeout(CHANGE_TIMEOUT).run().await {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Resumes a paused sandbox.
    pub(crate) async fn resume(&self, sandbox: &str) -> ApiResult<()> {
        self.post(&["sandboxes", sandbox, "resume"]).run().await
    }

    /// Deletes the conversation, and its sandbox if no other conversation uses it.
    pub(crate) async fn delete(&self, id: TaskId) -> ApiResult<()> {
        let path = ["app-conversations", &id.to_string()];
        let request = self.request(Method::DELETE, &path);
        let request = request.with_target(RequestTarget::Task(id));
        request.timeout(CHANGE_TIMEOUT).run().await
    }
}
