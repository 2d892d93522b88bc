//! Creating a task, which then runs or is queued.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{Call, ToolError};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout_at;
use upstream::text::one_line;
use upstream::time;

use super::claim::{being_started, wait_for_other};
use super::sandbox;
use super::spec::TaskSpec;
use super::start_error::{start_before, uncertain};
use super::turn::Turn;
use crate::OpenHands;
use crate::api::{
    AgentServer, ApiResult, Backend, Claim, Claimed, ConfirmationPolicy, Conversation, Execution,
    NewAgent, NewConversation, TaskId,
};
use crate::callback::CallbackUrl;
use crate::owner::Owner;
use crate::scheduler::{CUT_OFF_AFTER, Scheduler};
use crate::tags::{ConversationTags, StopReason, WaitsFor};
use crate::workspace::mcp_servers::{dead_servers, install_plugin};
use crate::workspace::{absolute_roots, set_up, snapshots};

/// Retries of a creation on a full agent server, and their interval.
const MAX_SLOT_RETRIES: u32 = 30;
const SLOT_RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Polls for a conversation whose creation got no response, and their interval.
const MAX_LATE_POLLS: u32 = 10;
const LATE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Characters of the names of models in an error.
const MAX_MODEL_NAMES_CHARS: usize = 300;

/// Creates the task, or finds the existing one with its idempotency key. If all slots are taken, the
/// task is queued at the agent server.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(crate) async fn create(
    service: &OpenHands,
    call: &Call,
    spec: TaskSpec,
) -> Result<TaskId, ToolError> {
    create_in_turn(service, call, spec, Turn::default()).await
}

/// The same for one of several tasks, which are set up at the same time and start one after another.
pub(crate) async fn create_in_turn(
    service: &OpenHands,
    call: &Call,
    spec: TaskSpec,
    mut turn: Turn,
) -> Result<TaskId, ToolError> {
    let server = &match service.servers.backend().await? {
        Backend::App(app) => {
            turn.come_by(spec.answer_by).await?;
            return sandbox::create(service, &app, &spec, call).await;
        }
        Backend::Agent(server) => server,
    };
    let owner = service.owner(call);
    let mut tags = ConversationTags::default();
    tags.set_owner(owner.as_ref().map(Owner::tag));
    let mut roots = absolute_roots(server, &service.roots).await?;
    let shared_root = roots.first().cloned().unwrap_or_default();
    if let (Some(owner), Some(own)) = (&owner, roots.first_mut()) {
        *own = owner.root(own);
    }
    let places = Places { roots, shared_root };
    let Some(key) = &spec.key else {
        let id = spec.id.unwrap_or_else(TaskId::random);
        let lock = service.scheduler.starts.lock(id).await;
        let held = (lock, None, turn);
        return create_new(service, server, id, spec, tags, places, held).await;
    };
    let id = service.key_id(key, call);
    let fingerprint = spec.fingerprint();
    // Nothing is uploaded or sent before the key is ours: the task may be at work already.
    if let Some(found) = find(service, server, id, &spec, &fingerprint).await? {
        return Ok(found);
    }
    let lock = timeout_at(spec.answer_by, service.scheduler.starts.lock(id)).await;
    let lock = lock.map_err(|_| being_started(id))?;
    let claim = loop {
        let claimed = Claim::try_new(server, &places.shared_root, id, &fingerprint).await?;
        // Looked up again: a claim is removed only after its task exists.
        if let Some(found) = find(service, server, id, &spec, &fingerprint).await? {
            return Ok(found);
        }
        match claimed {
            Claimed::ByUs(claim) => break claim,
            Claimed::ForAnotherTask => return Err(other_task()),
            Claimed::ByAnother => wait_for_other(id, spec.answer_by).await?,
        }
    };
    tags.set_fingerprint(fingerprint);
    let held = (lock, Some(claim), turn);
    create_new(service, server, id, spec, tags, places, held).await
}

/// The existing task with the key of this specification.
async fn find(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    spec: &TaskSpec,
    fingerprint: &str,
) -> Result<Option<TaskId>, ToolError> {
    match server.conversation(id).await {
        Ok(conversation) => {
            check_fingerprint(&conversation, fingerprint)?;
            repair(&service.scheduler, server, id, conversation, spec).await?;
            if spec.callback.is_some() {
                service.callbacks.expect(id);
            }
            Ok(Some(id))
        }
        Err(failure) if failure.is_unknown_task() => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The absolute directories for a task.
struct Places {
    /// Below which it may work.
    roots: Vec<String>,
    /// For files of this server.
    shared_root: String,
}

async fn create_new(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    spec: TaskSpec,
    mut tags: ConversationTags,
    places: Places,
    mut held: (OwnedMutexGuard<()>, Option<Claim>, Turn),
) -> Result<TaskId, ToolError> {
    let answer_by = spec.answer_by;
    let budget = service.max_budget.apply(&spec.budget)?;
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let agent = server.new_agent(profile).await?;
    if let Some(model) = &spec.model {
        check_model(server, model).await?;
    }
    let store = snapshots(&places.shared_root);
    let workspace = set_up(
        server,
        (&places.roots, &store),
        id,
        &spec.workspace,
        &service.git_hosts,
    );
    let workspace = workspace.await?;
    let mcp_servers = &service.mcp_servers;
    let dead = dead_servers(server, mcp_servers).await;
    let plugin = install_plugin(server, &places.shared_root, mcp_servers, &dead).await?;
    tags.set_title(&spec.task);
    tags.set_base(workspace.base.as_deref());
    tags.set_snapshots(&store);
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
    let (server, scheduler) = (server.clone(), Arc::clone(&service.scheduler));
    if spec.callback.is_some() {
        service.callbacks.expect(id);
    }
    held.2.come_by(answer_by).await?;
    // The start goes on if the caller's time is over: half of it would be a task without a prompt.
    let start = tokio::spawn(async move {
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
        let waits_for = workspace.fetch.map(WaitsFor::Repository);
        let (lock, claim, turn) = held;
        let held = (lock, claim);
        let claim = held.1.as_ref();
        let started = async {
            check_claim(claim, id).await?;
            start_or_queue(&scheduler, &server, &new, &tags, waits_for, claim, turn).await
        };
        let started = started.await;
        drop(held);
        started
    });
    let start = async {
        let ended = start.await;
        ended.unwrap_or_else(|_| Err(uncertain(id, ToolError::upstream("The start failed."))))
    };
    start_before(answer_by, id, start).await?;
    tracing::info!(task = %id, "task started");
    Ok(id)
}

async fn start_or_queue(
    scheduler: &Scheduler,
    server: &AgentServer,
    new: &NewConversation<'_>,
    tags: &ConversationTags,
    waits_for: Option<WaitsFor>,
    claim: Option<&Claim>,
    turn: Turn,
) -> Result<(), ToolError> {
    let mut tags = tags.clone();
    // The scheduler sets the model between the prompt and the start.
    let starts_at_once = waits_for.is_none() && tags.model().is_none();
    if starts_at_once && scheduler.take_slot(new.id).await? {
        tags.begin_run();
        let tags = tags.as_tags();
        let created = post(server, &NewConversation { tags, ..*new }).await;
        if !matches!(created, Ok(Ok(_))) {
            scheduler.give_back_slot(new.id);
        }
        match created? {
            Err(failure) if failure.is_full() => {}
            created => return Ok(created.map(drop)?),
        }
    }
    tags.end_run();
    tags.set_waits_for(Some(waits_for.unwrap_or(WaitsFor::Slot)));
    let tags = tags.as_tags();
    let created = create_waiting(server, NewConversation { tags, ..*new }, claim).await;
    // Also after an error: it may have been created and prompted all the same.
    scheduler.enqueue(new.id);
    drop(turn);
    created?;
    scheduler.start_new(new.id).await;
    Ok(())
}

/// Creates the conversation without starting the agent. All that the start needs is then at the agent
/// server.
async fn create_waiting(
    server: &AgentServer,
    new: NewConversation<'_>,
    claim: Option<&Claim>,
) -> Result<(), ToolError> {
    let unprompted = NewConversation {
        prompt: None,
        ..new
    };
    let mut retries = 0;
    let is_new = loop {
        match post(server, &unprompted).await? {
            // To create a conversation takes a slot for a moment; one may become free.
            Err(failure) if failure.is_full() && retries < MAX_SLOT_RETRIES => {
                retries += 1;
                tokio::time::sleep(SLOT_RETRY_INTERVAL).await;
            }
            created => break created?.1,
        }
    };
    check_claim(claim, new.id).await?;
    if is_new || server.count_messages(new.id, "user").await? == 0 {
        send_prompt(server, new.id, new.prompt.unwrap_or_default()).await?;
    }
    Ok(())
}

/// # Errors
/// Another replica has taken the claim over, since this one was too slow, and starts the task.
async fn check_claim(claim: Option<&Claim>, id: TaskId) -> Result<(), ToolError> {
    match claim {
        Some(claim) if !claim.is_ours().await? => Err(being_started(id)),
        _ => Ok(()),
    }
}

/// Sends the prompt of a task that waits. If the response is lost, looks whether it arrived.
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

/// Prompts a task that has no prompt because the server crashed after it had created the task.
async fn repair(
    scheduler: &Scheduler,
    server: &AgentServer,
    id: TaskId,
    conversation: Conversation,
    spec: &TaskSpec,
) -> Result<(), ToolError> {
    let mut tags = ConversationTags::new(conversation.tags);
    let was_cut_off = tags.stop_reason() == Some(StopReason::NoPrompt);
    let is_waiting = conversation.execution_status == Execution::Idle
        && (was_cut_off || tags.waits_for().is_some());
    let quiet = time::since(&conversation.updated_at);
    if is_waiting && (was_cut_off || quiet.is_some_and(|quiet| quiet > CUT_OFF_AFTER)) {
        if server.count_messages(id, "user").await? == 0 {
            send_prompt(server, id, &spec.prompt()).await?;
        }
        if was_cut_off {
            tags.wait_for_slot();
            server.set_tags(id, tags.as_tags()).await?;
        }
        scheduler.enqueue(id);
    }
    Ok(())
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
                tokio::time::sleep(LATE_POLL_INTERVAL).await;
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

fn check_fingerprint(conversation: &Conversation, fingerprint: &str) -> Result<(), ToolError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    if tags.fingerprint() == Some(fingerprint) {
        return Ok(());
    }
    Err(other_task())
}

fn other_task() -> ToolError {
    ToolError::conflict(
        "This idempotency_key was used for another task or file, or with other limits. Use a new \
         key for new work.",
    )
}
