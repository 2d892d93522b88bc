//! Creating a task. It is a conversation with an id that follows from its key, so to create it twice does nothing.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{Call, ToolError};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout_at};
use upstream::text::one_line;
use uuid::Uuid;

use super::sandbox;
use super::spec::TaskSpec;
use super::start_error::{being_started, no_slot, start_before, uncertain};
use crate::OpenHands;
use crate::api::{
    AgentServer, ApiResult, Backend, ConfirmationPolicy, Conversation, Execution, NewAgent,
    NewConversation, TaskId,
};
use crate::callback::CallbackUrl;
use crate::owner::Owner;
use crate::runner::{Begun, Runner, Slot, may_retry, tag_stopped, wait_for_start};
use crate::tags::{ConversationTags, StopReason};
use crate::workspace::mcp_servers::{dead_servers, install_plugin};
use crate::workspace::{absolute_roots, set_up, snapshots};

/// Polls for a conversation whose creation got no response, or for its prompt, and their interval.
const MAX_LATE_POLLS: u32 = 10;
const LATE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The time in which the agent server counts a new task as running.
const COUNT_TIME: Duration = Duration::from_secs(2);
/// Characters of the names of models in an error.
const MAX_MODEL_NAMES_CHARS: usize = 300;

/// Creates the task and starts it, or finds the existing one with its idempotency key.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(crate) async fn create(
    service: &OpenHands,
    call: &Call,
    spec: TaskSpec,
) -> Result<TaskId, ToolError> {
    let server = &match service.servers.backend().await? {
        Backend::App(app) => return sandbox::create(service, &app, &spec, call).await,
        Backend::Agent(server) => server,
    };
    let owner = service.owner(call);
    let mut tags = ConversationTags::default();
    tags.set_owner(owner.as_ref().map(Owner::tag));
    let locks = &service.runner.locks;
    let Some(key) = &spec.key else {
        let id = spec.id.unwrap_or_else(TaskId::random);
        let new = NewTask {
            id,
            directory: id.to_string(),
            tags,
            lock: locks.lock(id).await,
        };
        return create_new(service, server, owner.as_ref(), spec, new).await;
    };
    let id = service.key_id(key, call);
    tags.set_fingerprint(spec.fingerprint());
    // Nothing is uploaded or sent if there is such a task: it may be at work already.
    let found = find(server, id, &tags).await?;
    if found.is_some_and(|task| !may_be_unstarted(&task)) {
        return Ok(id);
    }
    let lock = timeout_at(spec.answer_by, locks.lock(id)).await;
    let lock = lock.map_err(|_| being_started(id))?;
    let found = find(server, id, &tags).await?;
    if let Some(task) = found {
        if may_be_unstarted(&task) {
            let (runner, server) = (Arc::clone(&service.runner), server.clone());
            let (answer_by, has_callback) = (spec.answer_by, spec.callback.is_some());
            let start = async move {
                send_prompt_once(&server, id, &spec.prompt()).await?;
                let _lock = lock;
                begin(&runner, &server, id, spec.slot_by, true).await
            };
            start_in_time(answer_by, id, start).await?;
            if has_callback {
                service.callbacks.expect(id);
            }
        }
        return Ok(id);
    }
    let new = NewTask {
        id,
        // Another server may set up the same task, or an older one with this key has left its files.
        directory: format!("{id}-{}", &TaskId::random().simple()[..8]),
        tags,
        lock,
    };
    create_new(service, server, owner.as_ref(), spec, new).await
}

/// The existing task with this id, which has the fingerprint in `tags`.
async fn find(
    server: &AgentServer,
    id: TaskId,
    tags: &ConversationTags,
) -> Result<Option<Conversation>, ToolError> {
    match server.conversation(id).await {
        Ok(task) => check_fingerprint(&task, tags).map(|()| Some(task)),
        Err(failure) if failure.is_unknown_task() => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// Returns true if the task may have been created without being started.
fn may_be_unstarted(task: &Conversation) -> bool {
    let reason = ConversationTags::new(task.tags.clone()).stop_reason();
    task.execution_status == Execution::Idle && matches!(reason, None | Some(StopReason::NoSlot))
}

/// A task that does not exist yet.
struct NewTask {
    id: TaskId,
    /// The name of its directory, unless its caller names one.
    directory: String,
    tags: ConversationTags,
    lock: OwnedMutexGuard<()>,
}

async fn create_new(
    service: &OpenHands,
    server: &AgentServer,
    owner: Option<&Owner>,
    spec: TaskSpec,
    new: NewTask,
) -> Result<TaskId, ToolError> {
    let NewTask {
        id,
        directory,
        mut tags,
        lock,
    } = new;
    let (answer_by, has_callback) = (spec.answer_by, spec.callback.is_some());
    let has_key = spec.key.is_some();
    let budget = service.max_budget.apply(&spec.budget)?;
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let agent = server.new_agent(profile).await?;
    if let Some(model) = &spec.model {
        check_model(server, model).await?;
    }
    let slot = service.runner.take_slot_by(spec.slot_by).await;
    let slot = slot.map_err(|failure| match failure.is_full() {
        true => no_slot(failure, has_key),
        false => failure.into(),
    })?;
    let mut roots = absolute_roots(server, &service.roots).await?;
    let shared_root = roots.first().cloned().unwrap_or_default();
    if let (Some(owner), Some(own)) = (owner, roots.first_mut()) {
        *own = owner.root(own);
    }
    let store = snapshots(&shared_root);
    let workspace = set_up(
        server,
        (&roots, &store),
        (id, &directory),
        &spec.workspace,
        &service.git_hosts,
    );
    let workspace = workspace.await?;
    let mcp_servers = &service.mcp_servers;
    let dead = dead_servers(server, mcp_servers).await;
    let plugin = install_plugin(server, &shared_root, mcp_servers, &dead).await?;
    tags.set_title(&spec.task);
    tags.set_base(workspace.base.as_deref());
    tags.set_snapshots(&store);
    tags.set_branch(workspace.branch.as_deref());
    if let Some(repository) = &spec.workspace.repository {
        tags.set_repository(&repository.url, workspace.branch.as_deref());
    }
    tags.set_budget(&budget);
    tags.set_verify(spec.verify.as_deref());
    tags.set_model(spec.model.as_deref().or(match &agent {
        NewAgent::Standard { model, .. } => Some(model.as_str()),
        NewAgent::Profile(_) => None,
    }));
    tags.set_callback(spec.callback.as_ref().map(CallbackUrl::as_str));
    tags.set_dead_servers(&dead);
    let (server, runner) = (server.clone(), Arc::clone(&service.runner));
    let start = async move {
        let prompt = spec.prompt();
        let new = NewConversation {
            id,
            agent: &agent,
            working_dir: &workspace.directory,
            tags: tags.as_tags(),
            max_iterations: budget.iterations,
            confirmation: spec.confirm.map(ConfirmationPolicy::from),
            plugin: plugin.as_ref(),
            prompt: Some(&prompt),
        };
        let _lock = lock;
        let limits = (spec.slot_by, has_key);
        start(
            &runner,
            &server,
            &new,
            (&tags, workspace.fetch),
            slot,
            limits,
        )
        .await
    };
    let started = start_in_time(answer_by, id, start).await;
    // Also after an error: it may have been started all the same.
    if has_callback {
        service.callbacks.expect(id);
    }
    started?;
    tracing::info!(task = %id, "task started");
    Ok(id)
}

/// The start goes on if the caller's time is over: half of it would be a task without a prompt.
async fn start_in_time(
    answer_by: Instant,
    id: TaskId,
    start: impl Future<Output = Result<(), ToolError>> + Send + 'static,
) -> Result<(), ToolError> {
    let start = tokio::spawn(start);
    let start = async {
        let ended = start.await;
        ended.unwrap_or_else(|_| Err(uncertain(id, ToolError::upstream("The start failed."))))
    };
    start_before(answer_by, id, start).await
}

async fn start(
    runner: &Arc<Runner>,
    server: &AgentServer,
    new: &NewConversation<'_>,
    (tags, fetch): (&ConversationTags, Option<Uuid>),
    slot: Slot,
    (slot_by, has_key): (Instant, bool),
) -> Result<(), ToolError> {
    let mut tags = tags.clone();
    // A model is set between the prompt and the start.
    let starts_at_once = fetch.is_none() && tags.model().is_none();
    let prompt = new.prompt.unwrap_or_default();
    match starts_at_once {
        true => tags.begin_run(),
        false => tags.set_fetch(fetch),
    }
    let new = NewConversation {
        tags: tags.as_tags(),
        prompt: starts_at_once.then_some(prompt),
        ..*new
    };
    let (task, is_new) = post_by(server, &new, slot_by, has_key).await?;
    check_fingerprint(&task, &tags)?;
    if starts_at_once {
        runner.watch(new.id);
        wait_for_start(server, new.id, Execution::Idle, None, COUNT_TIME).await;
        return Ok(());
    }
    match is_new {
        true => send_prompt(server, new.id, prompt).await?,
        false => send_prompt_once(server, new.id, prompt).await?,
    }
    drop(slot);
    let begun = begin(runner, server, new.id, slot_by, has_key).await;
    // Without a key no call starts it later.
    if begun.is_err()
        && !has_key
        && let Err(failure) = server.delete(new.id).await
    {
        tracing::warn!(task = %new.id, ?failure, "cannot delete a task that was not started");
    }
    begun
}

/// Begins a task that has been created. The caller holds its lock.
async fn begin(
    runner: &Arc<Runner>,
    server: &AgentServer,
    id: TaskId,
    slot_by: Instant,
    has_key: bool,
) -> Result<(), ToolError> {
    loop {
        let begun = runner.begin(server, id).await;
        let is_full = matches!(&begun, Err(failure) if failure.is_full());
        if may_retry(is_full, slot_by).await {
            continue;
        }
        return match begun {
            Ok(Begun::Yes) => Ok(()),
            Ok(Begun::NotYet) => {
                runner.begin_later(id);
                Ok(())
            }
            Err(failure) if is_full => {
                // So that its state says why it does not run.
                let task = server.conversation(id).await?;
                tag_stopped(server, &task, StopReason::NoSlot).await?;
                Err(no_slot(failure, has_key))
            }
            Err(failure) => Err(failure.into()),
        };
    }
}

/// Sends the prompt of a task that another server may be about to prompt, unless that has crashed.
async fn send_prompt_once(server: &AgentServer, id: TaskId, prompt: &str) -> Result<(), ToolError> {
    for _ in 0..MAX_LATE_POLLS {
        if server.count_messages(id, "user").await? > 0 {
            return Ok(());
        }
        sleep(LATE_POLL_INTERVAL).await;
    }
    send_prompt(server, id, prompt).await
}

/// Sends the prompt of a task. If the response is lost, looks whether it arrived.
async fn send_prompt(server: &AgentServer, id: TaskId, prompt: &str) -> Result<(), ToolError> {
    match server.prompt(id, prompt, false).await {
        Err(failure) if failure.is_ambiguous() => {
            if server.count_messages(id, "user").await? == 0 {
                server.prompt(id, prompt, false).await?;
            }
            Ok(())
        }
        sent => Ok(sent?),
    }
}

/// Creates the conversation. To create one takes a slot of the agent server for a moment, and to run it a slot for long.
async fn post_by(
    server: &AgentServer,
    new: &NewConversation<'_>,
    slot_by: Instant,
    has_key: bool,
) -> Result<(Conversation, bool), ToolError> {
    loop {
        let posted = post(server, new).await?;
        let is_full = matches!(&posted, Err(failure) if failure.is_full());
        if may_retry(is_full, slot_by).await {
            continue;
        }
        return posted.map_err(|failure| match is_full {
            true => no_slot(failure, has_key),
            false => failure.into(),
        });
    }
}

/// Creates the conversation. If the response is lost, repeats the request, which is safe because the id is ours: but
/// not while the first may be at work, because old agent servers (1.30, 1.31) then create the conversation twice, and
/// one takes the place of the other, which may run.
///
/// # Errors
/// The outer error: it is uncertain whether the conversation was created.
async fn post(
    server: &AgentServer,
    new: &NewConversation<'_>,
) -> Result<ApiResult<(Conversation, bool)>, ToolError> {
    match server.create(new).await {
        Err(failure) if failure.is_ambiguous() => {
            tracing::warn!(task = %new.id, ?failure, "no response to a start");
            let polls = if failure.is_timeout() {
                MAX_LATE_POLLS
            } else {
                0
            };
            for _ in 0..polls {
                if let Ok(conversation) = server.conversation(new.id).await {
                    return Ok(Ok((conversation, false)));
                }
                sleep(LATE_POLL_INTERVAL).await;
            }
            let created = server.create(new).await;
            let created = created.map_err(|failure| uncertain(new.id, failure.into()));
            created.map(Ok)
        }
        created => Ok(created),
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

/// # Errors
/// It is another task with the same key.
fn check_fingerprint(task: &Conversation, tags: &ConversationTags) -> Result<(), ToolError> {
    let found = ConversationTags::new(task.tags.clone());
    if found.fingerprint() == tags.fingerprint() {
        return Ok(());
    }
    Err(ToolError::conflict(
        "This idempotency_key was used for another task or file, or with other limits. Use a new \
         key for new work.",
    ))
}
