//! Where the agent server of a task is: the one that is configured, or, behind the V1 app server,
//! one in the sandbox of each task. Which of them it is shows in what answers there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mcp_serve::Secret;
use upstream::http::Url;
use uuid::Uuid;

use super::agent_server::AgentServer;
use super::app_server::{
    AppConversation, AppServer, NewAppConversation, SandboxStatus, StartStatus,
};
use super::failure::{Failure, Sandbox, Subject};
use super::task_id::TaskId;

/// How long it is taken for granted that a sandbox runs where it was.
const CACHE_TTL: Duration = Duration::from_secs(20);

/// The server that is configured.
pub(crate) enum Backend {
    /// It runs all tasks itself.
    Agent(AgentServer),
    /// It starts an agent server in a sandbox for each task.
    App(AppServer),
}

/// The agent servers of all tasks.
#[derive(Clone)]
pub(crate) struct Servers(Arc<Inner>);

struct Inner {
    /// What is configured.
    front: AgentServer,
    /// Whether that is an app server; not known before something has answered.
    is_app: OnceLock<bool>,
    /// Agent servers of sandboxes, and when they were looked up.
    sandboxes: Mutex<HashMap<TaskId, (AgentServer, Instant)>>,
    /// Starts of tasks that have no sandbox yet.
    starts: Mutex<HashMap<TaskId, Uuid>>,
}

impl Servers {
    /// Does not connect.
    ///
    /// # Errors
    /// When `base` is not an address that can be used.
    pub(crate) fn new(base: Url, key: Secret) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Inner {
            front: AgentServer::new(base, key)?,
            is_app: OnceLock::new(),
            sandboxes: Mutex::default(),
            starts: Mutex::default(),
        })))
    }

    /// The server that is configured.
    pub(crate) async fn backend(&self) -> Result<Backend, Failure> {
        let front = &self.0.front;
        let app = AppServer::new(front);
        let is_app = match self.0.is_app.get() {
            Some(known) => *known,
            None => match app.count().await {
                Ok(_) => *self.0.is_app.get_or_init(|| true),
                Err(failure) if failure.is_missing() => *self.0.is_app.get_or_init(|| false),
                Err(failure) if failure.is_transient() || failure.is_unauthorized() => {
                    return Err(failure);
                }
                // Something else altogether: what it answers to an agent server's questions says
                // more.
                Err(_) => false,
            },
        };
        Ok(match is_app {
            true => Backend::App(app),
            false => Backend::Agent(front.clone()),
        })
    }

    /// The agent server that runs all tasks.
    ///
    /// # Errors
    /// There is none behind an app server.
    pub(crate) async fn agent(&self) -> Result<AgentServer, Failure> {
        match self.backend().await? {
            Backend::Agent(server) => Ok(server),
            Backend::App(_) => Err(Failure::OnlySandboxes),
        }
    }

    /// The agent server that runs this task.
    ///
    /// # Errors
    /// It does not run now, which the failure tells apart from a task that does not exist.
    pub(crate) async fn at(&self, id: TaskId) -> Result<AgentServer, Failure> {
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
            return Err(self.unready(&app, id).await?);
        };
        lock(&self.0.starts).remove(&id);
        let down = |sandbox| Err(Failure::Sandbox(id, sandbox));
        match conversation.sandbox_status {
            SandboxStatus::Running => {}
            SandboxStatus::Starting => return down(Sandbox::Starting),
            SandboxStatus::Paused => return down(Sandbox::Paused),
            SandboxStatus::Error => return down(Sandbox::Broken),
            SandboxStatus::Missing | SandboxStatus::Unknown => return down(Sandbox::Gone),
        }
        let Some(server) = address(conversation) else {
            return down(Sandbox::Broken);
        };
        let mut sandboxes = lock(&self.0.sandboxes);
        sandboxes.retain(|_, (_, since)| since.elapsed() < CACHE_TTL);
        sandboxes.insert(id, (server.clone(), Instant::now()));
        Ok(server)
    }

    /// Why there is no conversation of this id.
    async fn unready(&self, app: &AppServer, id: TaskId) -> Result<Failure, Failure> {
        let known = lock(&self.0.starts).get(&id).copied();
        let start = match known {
            Some(start) => app.start_of(start).await?,
            None => app.recent_start(id).await?,
        };
        let Some(start) = start else {
            return Ok(Failure::Absent(Subject::Task(id)));
        };
        lock(&self.0.starts).insert(id, start.id);
        let sandbox = match start.status {
            StartStatus::Error => Sandbox::NotStarted,
            // It was not there a moment ago.
            StartStatus::Ready | StartStatus::UnderWay => Sandbox::Starting,
        };
        Ok(Failure::Sandbox(id, sandbox))
    }

    /// Starts a task in a sandbox.
    pub(crate) async fn start(
        &self,
        app: &AppServer,
        new: &NewAppConversation,
    ) -> Result<(), Failure> {
        lock(&self.0.starts).remove(&new.id);
        let start = app.start(new).await?;
        lock(&self.0.starts).insert(new.id, start.id);
        Ok(())
    }

    /// Wakes the sandbox of a task, if it is paused. It is not awake yet after that.
    pub(crate) async fn wake(&self, id: TaskId) -> Result<(), Failure> {
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

    /// Forgets where the task ran.
    pub(crate) fn forget(&self, id: TaskId) {
        lock(&self.0.sandboxes).remove(&id);
        lock(&self.0.starts).remove(&id);
    }

    /// Asks for the smallest thing that needs the key.
    ///
    /// # Errors
    /// Where something else answers, the failure says what it is.
    pub(crate) async fn check(&self) -> Result<(), Failure> {
        match self.backend().await? {
            Backend::App(app) => app.count().await.map(drop),
            Backend::Agent(server) => server.check().await,
        }
    }
}

/// The agent server that a conversation is at; `None` where that is no usable address.
fn address(conversation: AppConversation) -> Option<AgentServer> {
    let url = conversation.conversation_url?;
    let (base, _) = url.rsplit_once("/api/conversations/")?;
    let key = Secret::new(conversation.session_api_key, None);
    AgentServer::new(base.parse().ok()?, key).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
