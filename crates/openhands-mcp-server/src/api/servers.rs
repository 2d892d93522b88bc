//! Finds the agent server of a task: the configured one, or, behind a V1 app server, the one in the
//! sandbox of the task. The first response shows which of them is configured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mcp_serve::Secret;
use upstream::http::{SetupError, Url};
use uuid::Uuid;

use crate::api::agent_server::AgentServer;
use crate::api::app_server::{
    AppConversation, AppServer, NewAppConversation, SandboxStatus, StartStatus,
};
use crate::api::failure::{ApiFailure, ApiResult, RequestTarget, SandboxProblem};
use crate::api::task_id::TaskId;

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
        let app = AppServer::new(configured);
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

    /// Returns true if one agent server runs all tasks.
    pub(crate) async fn has_shared_agent(&self) -> ApiResult<bool> {
        Ok(matches!(self.backend().await?, Backend::Agent(_)))
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
        if let Some((server, since)) = lock(&self.0.sandboxes).get(&id)
            && since.elapsed() < CACHE_TTL
        {
            return Ok(server.clone());
        }
        let Some(conversation) = app.conversation(id).await? else {
            return Err(self.explain_missing(&app, id).await?);
        };
        lock(&self.0.starts).remove(&id);
        let down = |sandbox| Err(ApiFailure::SandboxDown(id, sandbox));
        match conversation.sandbox_status {
            SandboxStatus::Running => {}
            SandboxStatus::Starting => return down(SandboxProblem::Starting),
            SandboxStatus::Paused => return down(SandboxProblem::Paused),
            SandboxStatus::Error => return down(SandboxProblem::Broken),
            SandboxStatus::Missing | SandboxStatus::Unknown => return down(SandboxProblem::Gone),
        }
        let Some(server) = address(conversation) else {
            return down(SandboxProblem::Broken);
        };
        let mut sandboxes = lock(&self.0.sandboxes);
        sandboxes.retain(|_, (_, since)| since.elapsed() < CACHE_TTL);
        sandboxes.insert(id, (server.clone(), Instant::now()));
        Ok(server)
    }

    /// The failure for an id without a conversation: its start may be in progress or have failed.
    async fn explain_missing(&self, app: &AppServer, id: TaskId) -> ApiResult<ApiFailure> {
        let known = lock(&self.0.starts).get(&id).copied();
        let start = match known {
            Some(start) => app.start_by_id(start).await?,
            None => app.recent_start(id).await?,
        };
        let Some(start) = start else {
            return Ok(ApiFailure::Absent(RequestTarget::Task(id)));
        };
        lock(&self.0.starts).insert(id, start.id);
        Ok(match (self.start_end(id), start.status) {
            (Some(StartEnd::Deleted), _) => ApiFailure::absent(id),
            (Some(StartEnd::Cancelled), _) => {
                ApiFailure::SandboxDown(id, SandboxProblem::Cancelled)
            }
            (None, StartStatus::Error) => ApiFailure::NotStarted(id, start.detail),
            // It became ready just now.
            (None, StartStatus::Ready | StartStatus::InProgress) => {
                ApiFailure::SandboxDown(id, SandboxProblem::Starting)
            }
        })
    }

    /// The way in which the start of a task was ended by this server; `None` if it was not.
    pub(crate) fn start_end(&self, id: TaskId) -> Option<StartEnd> {
        lock(&self.0.ended_starts).get(&id).copied()
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
            let start = start.ok_or_else(|| ApiFailure::absent(id))?;
            // The app server names a new sandbox after its conversation.
            let own = id.simple();
            if start.sandbox_id.as_ref().is_some_and(|used| *used != own) {
                return Err(ApiFailure::SandboxDown(id, SandboxProblem::Starting));
            }
            let is_deleted = app.delete_sandbox(&own).await?;
            if is_deleted || start.has_failed() {
                lock(&self.0.ended_starts).insert(id, end);
                return Ok(true);
            }
            if Instant::now() > until {
                return Err(ApiFailure::NoAnswer);
            }
            tokio::time::sleep(END_RETRY_INTERVAL).await;
        }
    }

    /// Starts a task in a sandbox.
    pub(crate) async fn start(&self, app: &AppServer, new: &NewAppConversation) -> ApiResult<()> {
        lock(&self.0.starts).remove(&new.id);
        lock(&self.0.ended_starts).remove(&new.id);
        let start = app.start(new).await?;
        lock(&self.0.starts).insert(new.id, start.id);
        Ok(())
    }

    /// Requests that the sandbox of a task resumes, if it is paused. Does not wait for it.
    pub(crate) async fn resume_sandbox(&self, id: TaskId) -> ApiResult<()> {
        let Backend::App(app) = self.backend().await? else {
            return Ok(());
        };
        match app.conversation(id).await? {
            Some(task) if task.sandbox_status == SandboxStatus::Paused => {
                lock(&self.0.sandboxes).remove(&id);
                app.resume(&task.sandbox_id).await
            }
            _ => Ok(()),
        }
    }

    /// Removes a task from the cache.
    pub(crate) fn evict(&self, id: TaskId) {
        lock(&self.0.sandboxes).remove(&id);
        lock(&self.0.starts).remove(&id);
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
