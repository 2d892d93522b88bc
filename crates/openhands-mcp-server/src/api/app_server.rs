//! The V1 app server of OpenHands, which starts an agent server in a sandbox for each conversation, and the agent server of
//! each task: the configured one, or the one in its sandbox.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mcp_serve::Secret;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use upstream::http::{Method, Request, SetupError, Url};
use uuid::Uuid;

use crate::api::agent_server::{AgentServer, Page};
use crate::api::conversations::{Execution, Metrics, message};
use crate::api::events::EventMessage;
use crate::api::failure::{ApiFailure, ApiResult, SandboxProblem};
use crate::api::names::TaskId;

/// The time for which the address of a sandbox is cached.
const CACHE_TTL: Duration = Duration::from_secs(20);

/// The time for a sandbox to exist, so that it can be deleted, and the interval of looking.
const END_TIMEOUT: Duration = Duration::from_secs(12);
const END_RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) enum Backend {
    /// An agent server, which runs all tasks.
    Agent(AgentServer),
    /// An app server, which starts an agent server in a sandbox for each task.
    App(AppServer),
}

/// The agent servers of all tasks.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

struct Inner {
    configured: AgentServer,
    /// Whether it is an app server; unset until it has answered.
    is_app: OnceLock<bool>,
    /// Agent servers of sandboxes, and the time of each look-up.
    sandboxes: Mutex<HashMap<TaskId, (AgentServer, Instant)>>,
    /// Ids of the starts of tasks that have no sandbox yet.
    starts: Mutex<HashMap<TaskId, Uuid>>,
    /// Tasks that were cancelled or deleted before they had started. The app server keeps only that they
    /// failed, so after a restart of this server that is their status.
    ended_starts: Mutex<HashMap<TaskId, StartEnd>>,
}

/// The way in which the start of a task was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartEnd {
    Cancelled,
    Deleted,
}

impl Servers {
    /// The servers behind the one at `base`. Does not connect.
    ///
    /// # Errors
    /// `base` is not a usable URL.
    pub(crate) fn new(base: Url, key: Secret) -> Result<Self, SetupError> {
        Ok(Self(Arc::new(Inner {
            configured: AgentServer::new(base, key)?,
            is_app: OnceLock::new(),
            sandboxes: Mutex::default(),
            starts: Mutex::default(),
            ended_starts: Mutex::default(),
        })))
    }

    pub(crate) async fn backend(&self) -> ApiResult<Backend> {
        let configured = &self.0.configured;
        let app = AppServer(configured.clone());
        let is_app = match self.0.is_app.get() {
            Some(known) => *known,
            None => match app.count().await {
                Ok(_) => *self.0.is_app.get_or_init(|| true),
                Err(failure) if failure.is_not_found() => *self.0.is_app.get_or_init(|| false),
                Err(failure) if failure.is_transient() || failure.is_unauthorized() => {
                    return Err(failure);
                }
                // Another program. Its response to a request for an agent server says more.
                Err(_) => false,
            },
        };
        Ok(match is_app {
            true => Backend::App(app),
            false => Backend::Agent(configured.clone()),
        })
    }

    /// The agent server that runs all tasks.
    ///
    /// # Errors
    /// An app server is configured.
    pub(crate) async fn shared_agent(&self) -> ApiResult<AgentServer> {
        match self.backend().await? {
            Backend::Agent(server) => Ok(server),
            Backend::App(_) => Err(ApiFailure::SandboxesOnly),
        }
    }

    /// The agent server that runs this task.
    ///
    /// # Errors
    /// The task does not exist, or its sandbox does not run.
    pub(crate) async fn for_task(&self, id: TaskId) -> ApiResult<AgentServer> {
        let app = match self.backend().await? {
            Backend::Agent(server) => return Ok(server),
            Backend::App(app) => app,
        };
        if let Some((server, since)) = self.0.sandboxes.lock().get(&id)
            && since.elapsed() < CACHE_TTL
        {
            return Ok(server.clone());
        }
        let Some(conversation) = app.conversation(id).await? else {
            return Err(self.explain_missing(&app, id).await?);
        };
        self.0.starts.lock().remove(&id);
        let down = |sandbox| Err(ApiFailure::SandboxDown(id, sandbox));
        match conversation.sandbox_status {
            SandboxStatus::Running => {}
            SandboxStatus::Starting => return down(SandboxProblem::Starting),
            SandboxStatus::Paused => return down(SandboxProblem::Paused),
            SandboxStatus::Error => return down(SandboxProblem::Broken),
            SandboxStatus::Missing => return down(SandboxProblem::Gone),
        }
        let Some(server) = address(conversation) else {
            return down(SandboxProblem::Broken);
        };
        let mut sandboxes = self.0.sandboxes.lock();
        sandboxes.retain(|_, (_, since)| since.elapsed() < CACHE_TTL);
        sandboxes.insert(id, (server.clone(), Instant::now()));
        Ok(server)
    }

    /// The failure for an id without a conversation: its start may be in progress or have failed.
    async fn explain_missing(&self, app: &AppServer, id: TaskId) -> ApiResult<ApiFailure> {
        let known = self.0.starts.lock().get(&id).copied();
        let start = match known {
            Some(start) => app.start_by_id(start).await?,
            None => app.recent_start(id).await?,
        };
        let Some(start) = start else {
            return Ok(ApiFailure::Absent(id));
        };
        self.0.starts.lock().insert(id, start.id);
        Ok(match self.start_problem(id, &start) {
            Some(problem) => ApiFailure::SandboxDown(id, problem),
            None => ApiFailure::Absent(id),
        })
    }

    /// The reason why a task with this start has no conversation; `None` if it was deleted. One that is ready has become
    /// so just now.
    pub(crate) fn start_problem(
        &self,
        id: TaskId,
        start: &ConversationStart,
    ) -> Option<SandboxProblem> {
        let end = self.0.ended_starts.lock().get(&id).copied();
        match (end, start.status) {
            (Some(StartEnd::Deleted), _) => None,
            (Some(StartEnd::Cancelled), _) => Some(SandboxProblem::Cancelled),
            (None, StartStatus::Error) => {
                Some(SandboxProblem::not_started(start.detail.as_deref()))
            }
            (None, StartStatus::Ready | StartStatus::InProgress) => Some(SandboxProblem::Starting),
        }
    }

    /// Ends the start of a task that has no conversation yet, by deleting its sandbox. Returns false if the
    /// task has started meanwhile.
    ///
    /// # Errors
    /// The task does not exist, or its sandbox is that of other tasks, too.
    pub(crate) async fn end_start(
        &self,
        app: &AppServer,
        id: TaskId,
        end: StartEnd,
    ) -> ApiResult<bool> {
        let until = Instant::now() + END_TIMEOUT;
        loop {
            if app.conversation(id).await?.is_some() {
                return Ok(false);
            }
            let start = app.recent_start(id).await?;
            let start = start.ok_or_else(|| ApiFailure::Absent(id))?;
            // The app server names a new sandbox after its conversation.
            let own = id.simple();
            if start.sandbox_id.as_ref().is_some_and(|used| *used != own) {
                return Err(ApiFailure::SandboxDown(id, SandboxProblem::Starting));
            }
            let is_deleted = app.delete_sandbox(&own).await?;
            if is_deleted || start.status == StartStatus::Error {
                self.0.ended_starts.lock().insert(id, end);
                return Ok(true);
            }
            if Instant::now() > until {
                return Err(ApiFailure::NoAnswer);
            }
            tokio::time::sleep(END_RETRY_INTERVAL).await;
        }
    }

    /// Starts a task in a sandbox, with a request (`AppConversationStartRequest`) that names its id.
    pub(crate) async fn start(&self, app: &AppServer, id: TaskId, new: &Value) -> ApiResult<()> {
        self.0.starts.lock().remove(&id);
        self.0.ended_starts.lock().remove(&id);
        let start = app.start(new).await?;
        self.0.starts.lock().insert(id, start.id);
        Ok(())
    }

    /// Requests that the sandbox of a task resumes, if it is paused. Does not wait for it.
    pub(crate) async fn resume_sandbox(&self, id: TaskId) -> ApiResult<()> {
        let Backend::App(app) = self.backend().await? else {
            return Ok(());
        };
        match app.conversation(id).await? {
            Some(task) if task.sandbox_status == SandboxStatus::Paused => {
                self.0.sandboxes.lock().remove(&id);
                app.resume(&task.sandbox_id).await
            }
            _ => Ok(()),
        }
    }

    /// Removes a task from the cache.
    pub(crate) fn evict(&self, id: TaskId) {
        self.0.sandboxes.lock().remove(&id);
        self.0.starts.lock().remove(&id);
    }

    /// Sends the cheapest request that needs the API key.
    ///
    /// # Errors
    /// The server does not answer, or another program does: the failure names it.
    pub(crate) async fn check(&self) -> ApiResult<()> {
        match self.backend().await? {
            Backend::App(app) => app.count().await.map(drop),
            Backend::Agent(server) => server.check().await,
        }
    }

    /// Describes what answers at the address, with its version if it tells it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) async fn describe(&self) -> ApiResult<String> {
        match self.backend().await? {
            Backend::App(_) => Ok("OpenHands app server".to_owned()),
            Backend::Agent(server) => {
                let version = server.known_version().await?;
                Ok(format!("OpenHands agent server, {version},"))
            }
        }
    }
}

/// The agent server of a conversation; `None` if its URL cannot be used.
fn address(conversation: AppConversation) -> Option<AgentServer> {
    let url = conversation.conversation_url?;
    let (base, _) = url.rsplit_once("/api/conversations/")?;
    let key = Secret::new(conversation.session_api_key, None);
    AgentServer::new(base.parse().ok()?, key).ok()
}

/// A start is answered at once, a deletion once the agent server has done it.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Newest starts that are searched; each comes with its whole first message.
const START_SEARCH_LIMIT: u32 = 20;

/// An app server, with the address and the key of the configured server.
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
    /// Its usage of models.
    pub(crate) metrics: Option<Metrics>,
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
    /// It does not exist any longer, or has a status of a later version.
    #[default]
    #[serde(other)]
    Missing,
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

/// A message that starts the agent.
pub(crate) fn first_message(prompt: &str) -> Value {
    let mut first = message(prompt);
    first["run"] = json!(true);
    first
}

impl AppServer {
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
        let request = self.get(&["app-conversations", "count"]);
        self.0.send(request).await
    }

    /// Reads the conversation; `None` if it does not exist (yet).
    pub(crate) async fn conversation(&self, id: TaskId) -> ApiResult<Option<AppConversation>> {
        self.find(&["app-conversations"], &id.to_string()).await
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
        self.0.send(request.query(&query)).await
    }

    /// Requests the start of a conversation. Repeating the request creates a second sandbox.
    pub(crate) async fn start(&self, new: &Value) -> ApiResult<ConversationStart> {
        let request = self.post(&["app-conversations"]);
        self.0.send(request.body(new)).await
    }

    /// Reads the state of a start.
    pub(crate) async fn start_by_id(&self, start: Uuid) -> ApiResult<Option<ConversationStart>> {
        let path = ["app-conversations", "start-tasks"];
        self.find(&path, &start.to_string()).await
    }

    async fn find<T: DeserializeOwned>(&self, path: &[&str], id: &str) -> ApiResult<Option<T>> {
        let request = self.get(path).query(&[("ids", id)]);
        let found: Vec<Option<T>> = self.0.send(request).await?;
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
        let page: Page<ConversationStart> = self.0.send(request.query(&query)).await?;
        Ok(page.items)
    }

    /// Deletes a sandbox. Returns false if it does not exist (yet).
    pub(crate) async fn delete_sandbox(&self, sandbox: &str) -> ApiResult<bool> {
        let request = self.request(Method::DELETE, &["sandboxes", sandbox]);
        // 1.11 names the parameter of the path otherwise, and so reads the id from the query.
        let request = request.query(&[("sandbox_id", sandbox)]);
        match self.0.perform(request.timeout(CHANGE_TIMEOUT)).await {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_not_found() => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Resumes a paused sandbox.
    pub(crate) async fn resume(&self, sandbox: &str) -> ApiResult<()> {
        let request = self.post(&["sandboxes", sandbox, "resume"]);
        self.0.perform(request).await
    }

    /// Deletes the conversation, and its sandbox if no other conversation uses it.
    pub(crate) async fn delete(&self, id: TaskId) -> ApiResult<()> {
        let path = ["app-conversations", &id.to_string()];
        let request = self.request(Method::DELETE, &path);
        self.0.perform(request.timeout(CHANGE_TIMEOUT)).await
    }
}
