//! Creating a task. It is a conversation with an id that follows from its key, so to create it twice does nothing. Behind
//! a V1 app server it is created in a sandbox.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use upstream::redact::redacted;
use upstream::text::one_line;
use uuid::Uuid;

use super::spec::TaskSpec;
use crate::OpenHands;
use crate::api::tags::{ConversationTags, StopReason, tag};
use crate::api::{
    AgentServer, ApiFailure, ApiResult, AppServer, Backend, Claim, Conversation, Execution,
    NewConversation, SandboxProblem, Servers, TaskId, first_message, with_more,
};
use crate::budget::Limits;
use crate::git::{GitHosts, Repository};
use crate::runner::{Runner, Slot, tag_stopped, until_slot, wait_for_start};
use crate::service::Owner;
use crate::workspace::mcp_servers::{dead_servers, install_plugin};
use crate::workspace::{Place, Traces, absolute_roots};

/// Polls for a conversation whose creation got no response, and their interval.
const MAX_LATE_POLLS: u32 = 10;
const LATE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The time in which the agent server counts a new task as running.
const COUNT_TIME: Duration = Duration::from_secs(2);
/// Characters of the first words of a task.
const MAX_TITLE_CHARS: usize = 80;
/// Characters of the names of models in an error.
const MAX_MODEL_NAMES_CHARS: usize = 300;

/// Creates the task and starts it, or finds the existing one with its idempotency key. Waits until `slot_by` for a slot,
/// and ends by `answer_by`.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(crate) async fn create(
    service: &OpenHands,
    call: &Call,
    spec: TaskSpec,
    (answer_by, slot_by): (Instant, Instant),
) -> Result<TaskId, ToolError> {
    let key = spec.key.as_deref();
    let id = key.map(|key| service.key_id(key, call)).or(spec.id);
    let id = id.unwrap_or_else(TaskId::random);
    let server = match service.servers.backend().await? {
        Backend::App(app) => {
            return create_in_sandbox(service, &app, id, &spec, answer_by).await;
        }
        Backend::Agent(server) => server,
    };
    let has_callback = spec.callback.is_some();
    let start = Start {
        runner: Arc::clone(&service.runner),
        hosts: service.git_hosts.clone(),
        server,
        id,
        fingerprint: key.map(|_| spec.fingerprint()),
        spec,
        slot_by,
    };
    // Nothing is uploaded or sent if there is such a task: it may be at work already.
    if start.find().await?.is_some_and(|task| !is_unstarted(&task)) {
        return Ok(id);
    }
    let lock = timeout_at(answer_by, service.runner.locks.lock(id)).await;
    let lock = lock.map_err(|_| being_started(id))?;
    let new = match start.find().await? {
        Some(task) if !is_unstarted(&task) => return Ok(id),
        Some(_) => None,
        None => Some(start.prepare(service, service.owner(call)).await?),
    };
    // It goes on if the caller's time is over: half of it would be a task without a prompt.
    let started = tokio::spawn(async move {
        let _lock = lock;
        start.run(new, answer_by).await
    });
    let started = start_before(answer_by, id, async {
        let ended = started.await;
        ended.unwrap_or_else(|_| Err(uncertain(id, ToolError::upstream("The start failed."))))
    });
    let started = started.await;
    // Also after an error: it may have been started all the same.
    if has_callback {
        service.callbacks.expect(id);
    }
    started?;
    tracing::info!(task = %id, "task started");
    Ok(id)
}

/// Returns true if the task may have been created without being started.
fn is_unstarted(task: &Conversation) -> bool {
    let reason = task.tags.stop_reason();
    task.execution_status == Execution::Idle && matches!(reason, None | Some(StopReason::NoSlot))
}

/// The start of a task at an agent server.
struct Start {
    runner: Arc<Runner>,
    hosts: GitHosts,
    server: AgentServer,
    id: TaskId,
    /// The fingerprint of a task with a key, which may exist already.
    fingerprint: Option<String>,
    spec: TaskSpec,
    slot_by: Instant,
}

/// A conversation that can be created once its directory is set up.
struct Prepared {
    new: NewConversation,
    place: Place,
    slot: Slot,
}

impl Start {
    fn has_key(&self) -> bool {
        self.fingerprint.is_some()
    }

    /// The existing task with this key.
    ///
    /// # Errors
    /// It is another task.
    async fn find(&self) -> Result<Option<Conversation>, ToolError> {
        if !self.has_key() {
            return Ok(None);
        }
        match self.server.conversation(self.id).await {
            Ok(task) => self.check_fingerprint(&task).map(|()| Some(task)),
            Err(failure) if failure.is_unknown_task() => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// # Errors
    /// It is another task with the same key.
    fn check_fingerprint(&self, task: &Conversation) -> Result<(), ToolError> {
        if task.tags.get(tag::FINGERPRINT) == self.fingerprint.as_deref() {
            return Ok(());
        }
        Err(ToolError::conflict(
            "This idempotency_key was used for another task or file, or with other limits. Use a new \
             key for new work.",
        ))
    }

    /// Takes a slot for the task, and tells what its conversation is to be.
    async fn prepare(
        &self,
        service: &OpenHands,
        owner: Option<Owner>,
    ) -> Result<Prepared, ToolError> {
        let (server, id, spec) = (&self.server, self.id, &self.spec);
        let limits = service.max_budget.apply(&spec.limits)?;
        let profile = spec.agent.as_deref().or(service.profile.as_deref());
        let agent = server.profile_id(profile).await?;
        if let Some(model) = &spec.model {
            check_model(server, model).await?;
        }
        let slot = until_slot(self.slot_by, || self.runner.take_slot()).await;
        let slot = slot.map_err(|failure| self.not_started(failure))?;
        let mut roots = absolute_roots(server, &service.roots).await?;
        let shared_root = roots.first().cloned().unwrap_or_default();
        if let (Some(owner), Some(own)) = (&owner, roots.first_mut()) {
            *own = owner.root(own);
        }
        // Another server may set up the same task, or an older one with this key has left its files.
        let name = match self.has_key() {
            true => format!("{id}-{}", &TaskId::random().simple()[..8]),
            false => id.to_string(),
        };
        let place = Place::new(id, roots, &shared_root, &name);
        let mcp_servers = &service.mcp_servers;
        let dead = dead_servers(server, mcp_servers).await;
        let plugin = install_plugin(server, &shared_root, mcp_servers, &dead).await?;
        let mut tags = ConversationTags::default();
        tags.set(tag::OWNER, owner.as_ref().map(Owner::id));
        tags.set_line(tag::PRINCIPAL, owner.as_ref().map(|owner| &*owner.0));
        tags.set(tag::FINGERPRINT, self.fingerprint.clone());
        // Half of a secret cannot be told from other words.
        let title = one_line(&redacted(&spec.task), MAX_TITLE_CHARS);
        tags.set(tag::TITLE, Some(title));
        tags.set_limits(&Limits {
            steps: None,
            ..limits
        });
        tags.set(tag::VERIFY, spec.verify.clone());
        tags.set(tag::MODEL, spec.model.clone());
        tags.set(tag::CALLBACK, spec.callback.clone().map(Into::into));
        if !dead.is_empty() {
            tags.set_line(tag::DEAD_SERVERS, Some(&dead.join(", ")));
        }
        let new = NewConversation {
            id,
            agent,
            working_dir: String::new(),
            tags,
            max_iterations: limits.steps,
            confirm: spec.confirm,
            plugin,
            prompt: None,
        };
        Ok(Prepared { new, place, slot })
    }

    /// Creates the conversation and starts it, or starts an existing one. One with a key is set up and started while no
    /// other server does: an agent server before 1.58 runs the task of two requests that create one conversation at the same
    /// moment twice, and none tells a prompt that is on its way.
    ///
    /// # Errors
    /// Another server starts it until `answer_by`, or the start fails.
    async fn run(self, new: Option<Prepared>, answer_by: Instant) -> Result<(), ToolError> {
        let mut claim = None;
        if self.has_key() {
            claim = Claim::take(&self.server, self.id, answer_by).await?;
            if claim.is_none() {
                return Err(being_started(self.id));
            }
        }
        let started = match new {
            None => self.prompt_and_begin(None).await,
            Some(new) => match self.find().await {
                Ok(None) => self.create(new).await,
                // Another server may have started it meanwhile.
                found => found.map(drop),
            },
        };
        if let Some(claim) = claim {
            claim.release_after(&started);
        }
        started
    }

    /// Sets the directory up, creates the conversation and starts it. Without a task nothing is left in the workspace that
    /// the caller has named.
    async fn create(&self, prepared: Prepared) -> Result<(), ToolError> {
        let Prepared {
            mut new,
            place,
            slot,
        } = prepared;
        let (server, id) = (&self.server, self.id);
        let mut traces = Traces::default();
        let (spec, hosts) = (&self.spec.workspace, &self.hosts);
        let set_up = place.set_up(server, spec, hosts, &mut new, &mut traces);
        if let Err(error) = set_up.await {
            return Err(traces.take_back(server, error).await);
        }
        // A model is set between the prompt and the start.
        let starts_at_once = new.tags.fetch().is_none() && new.tags.get(tag::MODEL).is_none();
        if starts_at_once {
            new.tags.begin_run(server.now());
            new.prompt = Some(self.spec.prompt());
        }
        // To create it takes a slot of the agent server for a moment, and to run it a slot for long.
        let task = until_slot(self.slot_by, || post(server, &new)).await;
        let task = match task {
            Ok(Ok(task)) => task,
            Ok(Err(uncertain)) => return Err(traces.named(uncertain)),
            Err(failure) => {
                return Err(traces.take_back(server, self.not_started(failure)).await);
            }
        };
        if let Err(other) = self.check_fingerprint(&task) {
            return Err(traces.take_back(server, other).await);
        }
        if starts_at_once {
            self.runner.watch(id);
            wait_for_start(server, id, Execution::Idle, None, COUNT_TIME).await;
            return Ok(());
        }
        let begun = self.prompt_and_begin(Some(slot)).await;
        match begun {
            // Without a key no call starts it later.
            Err(error) if !self.has_key() => match server.delete(id).await {
                Ok(()) => Err(traces.take_back(server, error).await),
                Err(failure) => {
                    tracing::warn!(task = %id, ?failure, "cannot delete a task that was not started");
                    Err(traces.named(error))
                }
            },
            begun => begun,
        }
    }

    /// Begins a task that has been created, with its prompt unless it has one.
    async fn prompt_and_begin(&self, slot: Option<Slot>) -> Result<(), ToolError> {
        let (server, id) = (&self.server, self.id);
        // A prompt whose response was lost may have arrived.
        for is_last in [false, true] {
            if server.count_messages(id, "user").await? > 0 {
                break;
            }
            match server.prompt(id, &self.spec.prompt(), false).await {
                Err(failure) if failure.is_ambiguous() && !is_last => {}
                sent => {
                    sent?;
                    break;
                }
            }
        }
        drop(slot);
        let begun = until_slot(self.slot_by, || self.runner.begin(server, id)).await;
        match begun {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.runner.begin_later(id);
                Ok(())
            }
            Err(failure) => {
                if failure.is_full() {
                    // So that its state says why it does not run.
                    let task = server.conversation(id).await?;
                    tag_stopped(server, &task, StopReason::NoSlot).await?;
                }
                Err(self.not_started(failure))
            }
        }
    }

    /// The error for a task that was not started.
    fn not_started(&self, failure: ApiFailure) -> ToolError {
        if !failure.is_full() {
            return failure.into();
        }
        let error = ToolError::from(failure);
        let again = match self.has_key() {
            true => "Repeat this call with the same idempotency_key",
            false => "Run it again",
        };
        let message = format!(
            "All slots for running tasks are taken, and the task was not started. {again} when a task has \
             ended, or stop one with cancel_task."
        );
        ToolError::new(error.kind(), message).caused_by(error)
    }
}

/// Creates the conversation. If the response is lost, repeats the request, which is safe because the id is ours: but
/// not while the first may be at work, because old agent servers (1.30, 1.31) then create the conversation twice, and
/// one takes the place of the other, which may run.
///
/// # Errors
/// The inner error: it is uncertain whether the conversation was created.
async fn post(
    server: &AgentServer,
    new: &NewConversation,
) -> ApiResult<Result<Conversation, ToolError>> {
    let unknown = |failure: ApiFailure| Ok(Err(uncertain(new.id, failure.without_effect().into())));
    match server.create(new).await {
        Err(failure) if failure.is_ambiguous() => {
            tracing::warn!(task = %new.id, ?failure, "no response to a start");
            let polls = match failure.is_timeout() {
                true => MAX_LATE_POLLS,
                false => 0,
            };
            for _ in 0..polls {
                if let Ok(conversation) = server.conversation(new.id).await {
                    return Ok(Ok(conversation));
                }
                sleep(LATE_POLL_INTERVAL).await;
            }
            server.create(new).await.map(Ok).or_else(unknown)
        }
        // The response of a proxy, for example; the next one may be that of the agent server.
        Err(failure) if failure.may_have_changed() => match server.conversation(new.id).await {
            Ok(conversation) => Ok(Ok(conversation)),
            Err(_) => unknown(failure),
        },
        created => created.map(Ok),
    }
}

/// # Errors
/// OpenHands has no profile of a model with this name.
async fn check_model(server: &AgentServer, model: &str) -> Result<(), ToolError> {
    let models = server.models().await?;
    if models.iter().any(|known| known.name == model) {
        return Ok(());
    }
    let known: Vec<String> = models.into_iter().map(|model| model.name).collect();
    Err(ToolError::invalid_argument(format!(
        "model must be the name of a model's profile in OpenHands: {}.",
        one_line(&known.join(", "), MAX_MODEL_NAMES_CHARS)
    )))
}

/// The time for a sandbox to resume, and the poll interval.
const WAKE_TIMEOUT: Duration = Duration::from_secs(20);
const WAKE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the task in a sandbox, or finds the existing one with its idempotency key. Does not wait for
/// the sandbox: the app server starts the agent in it.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
async fn create_in_sandbox(
    service: &OpenHands,
    app: &AppServer,
    id: TaskId,
    spec: &TaskSpec,
    answer_by: Instant,
) -> Result<TaskId, ToolError> {
    let servers = &service.servers;
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let new = request(id, spec, profile)?;
    if !service.mcp_servers.is_empty() {
        return Err(unsupported(
            "pass MCP servers to a task: add them to OpenHands' own settings instead of \
             OPENHANDS_MCP_SERVERS",
        ));
    }
    if spec.key.is_some() {
        match servers.for_task(id).await {
            Ok(_) => return Ok(id),
            Err(failure) if failure.is_unknown_task() => {}
            Err(failure) => match failure.sandbox_problem() {
                Some(SandboxProblem::NotStarted(_) | SandboxProblem::Cancelled) => {}
                Some(_) => return Ok(id),
                None => return Err(failure.into()),
            },
        }
    }
    let start = async {
        let started = servers.start(app, id, &new).await;
        started.map_err(|failure| match failure.may_have_changed() {
            // No retry: it could start the task twice.
            true => uncertain(id, failure.without_effect().into()),
            false => failure.into(),
        })
    };
    start_before(answer_by, id, start).await?;
    tracing::info!(task = %id, "task started in a sandbox");
    Ok(id)
}

/// Returns the agent server of a task. Resumes its sandbox first if it is paused.
///
/// # Errors
/// The sandbox does not run, or not yet.
pub(super) async fn wake(servers: &Servers, id: TaskId) -> ApiResult<AgentServer> {
    let until = Instant::now() + WAKE_TIMEOUT;
    let mut is_resumed = false;
    loop {
        let found = servers.for_task(id).await;
        match found.as_ref().err().and_then(ApiFailure::sandbox_problem) {
            Some(SandboxProblem::Paused) if !is_resumed => {
                servers.resume_sandbox(id).await?;
                is_resumed = true;
            }
            Some(SandboxProblem::Paused | SandboxProblem::Starting)
                if is_resumed && Instant::now() < until =>
            {
                sleep(WAKE_POLL_INTERVAL).await;
            }
            _ => return found,
        }
    }
}

/// This server keeps no state of tasks, and the app server none for it before the sandbox runs.
const NO_CALLBACK: &str = "keep a URL for the result of a task, so a restart would lose it: leave \
    callback_url out. wait_task waits for the end, and for clients with tasks of the protocol run_task \
    does for up to 55 minutes";

/// The request for the app server. The sandbox does not exist before the agent starts, so no files
/// can be put into it. The agent's limits and permissions are settings of the app server.
fn request(id: TaskId, spec: &TaskSpec, profile: Option<&str>) -> Result<Value, ToolError> {
    let workspace = &spec.workspace;
    let agent_profile = profile.map(Uuid::try_parse).transpose();
    let repository = workspace.repository.as_ref();
    let hosted = repository.map(hosted);
    let refusals = [
        (
            !workspace.files.is_empty(),
            "put files into a sandbox before the agent starts: say what is in them in task, or \
             name a repository that holds them",
        ),
        (
            workspace.directory.is_some(),
            "choose a workspace: every task has its own sandbox; leave workspace out",
        ),
        (
            workspace.depth.is_some(),
            "choose how much history is fetched: leave context.depth out",
        ),
        (
            spec.verify.is_some(),
            "check a task with a command: have the agent run it, and leave verify out",
        ),
        (spec.callback.is_some(), NO_CALLBACK),
        (
            spec.model.is_some(),
            "choose the model of one task: name an agent profile with that model in agent",
        ),
        (
            spec.confirm.is_some(),
            "ask for permissions of one task: set the confirmation mode in OpenHands' settings and \
             leave confirm out",
        ),
        (
            spec.limits != Limits::default(),
            "limit one task: set limits in OpenHands' settings and leave max_iterations, \
             max_seconds and max_cost out",
        ),
        (
            agent_profile.is_err(),
            "find agent profiles by their name: give the profile's id (a UUID), or leave it out to \
             use the active one",
        ),
        (
            hosted == Some(None),
            "check out this repository: it takes those of github.com, gitlab.com and \
             bitbucket.org, with its own credentials",
        ),
    ];
    if let Some((_, what)) = refusals.iter().find(|(is_asked, _)| *is_asked) {
        return Err(unsupported(what));
    }
    let first = first_message(&spec.prompt());
    // The id is known before the sandbox exists.
    let mut new = json!({"conversation_id": id, "initial_message": first});
    if let Some((provider, name)) = hosted.flatten() {
        new["git_provider"] = json!(provider);
        new["selected_repository"] = json!(name);
    }
    if let Some(branch) = repository.and_then(|repository| repository.branch.as_ref()) {
        new["selected_branch"] = json!(branch);
    }
    if let Ok(Some(profile)) = agent_profile {
        new["agent_profile_id"] = json!(profile);
    }
    Ok(new)
}

/// The git provider of a repository as the app server calls it, and the repository's name there.
fn hosted(repository: &Repository) -> Option<(&'static str, String)> {
    let url = repository.parsed()?;
    let provider = match url.host_str()? {
        "github.com" => "github",
        "gitlab.com" => "gitlab",
        "bitbucket.org" => "bitbucket",
        _ => return None,
    };
    let name = url.path().trim_matches('/');
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_name = name.split('/').count() >= 2 && !name.split('/').any(str::is_empty);
    is_name.then(|| (provider, name.to_owned()))
}

/// The error for a task in a sandbox that goes on with a callback_url.
pub(super) fn no_callback() -> ToolError {
    unsupported(NO_CALLBACK)
}

fn unsupported(what: &str) -> ToolError {
    ToolError::invalid_argument(format!("The OpenHands V1 app server cannot {what}."))
}

/// Runs the start of a task, but not beyond `answer_by`.
///
/// # Errors
/// The error of the start, or a timeout, after which the outcome is uncertain.
async fn start_before<T>(
    answer_by: Instant,
    id: TaskId,
    start: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    timeout_at(answer_by, start).await.unwrap_or_else(|_| {
        let message = "OpenHands takes too long to start the task.";
        Err(uncertain(
            id,
            ToolError::new(ToolErrorKind::Timeout, message),
        ))
    })
}

/// The error for a start with an uncertain outcome; `error` is the reason.
fn uncertain(id: TaskId, error: ToolError) -> ToolError {
    let more = format!(
        "It is not known whether the task was started: call get_task_status with task_id {id} \
         before you run it again."
    );
    with_more(error, &more)
}

/// The error for a call whose time is over while another one starts the task.
fn being_started(id: TaskId) -> ToolError {
    let message = format!(
        "Another call with this idempotency_key is starting the task: call get_task_status with \
         task_id {id}, or repeat this call."
    );
    ToolError::new(ToolErrorKind::Timeout, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_has_a_provider_and_a_name() {
        let name = |url| hosted(&Repository::new(url, None).unwrap());
        let github = name("https://github.com/owner/name.git");
        assert_eq!(github, Some(("github", "owner/name".into())));
        assert_eq!(name("git@github.com:owner/name.git"), github);
        let gitlab = name("ssh://git@gitlab.com/group/sub/name");
        assert_eq!(gitlab, Some(("gitlab", "group/sub/name".into())));
        for other in ["https://git.example.test/a/b", "https://github.com/a"] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
