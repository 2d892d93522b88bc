//! Creating a task that runs, or waits for its turn.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::timeout_at;
use upstream::time;

use super::sandbox;
use super::spec::TaskSpec;
use super::start_error::{NotCreated, uncertain};
use crate::OpenHands;
use crate::api::{
    AgentServer, Backend, ConfirmationPolicy, Conversation, Execution, NewConversation, TaskId,
};
use crate::tags::{ConversationTags, WaitsFor};
use crate::workspace::mcp_servers::install_plugin;
use crate::workspace::{absolute_roots, set_up};

/// How often, and after which time, a slot of a full agent server is asked for again.
const MAX_SLOT_RETRIES: u32 = 30;
const SLOT_RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Between creating a task and telling it what to do, at most.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the task, or finds the one that its key stands for. Where all slots are taken, it is queued
/// at the agent server.
///
/// # Errors
/// No task was started, unless the message says that this is not certain.
pub(crate) async fn create(service: &OpenHands, spec: TaskSpec) -> Result<TaskId, ToolError> {
    let server = &match service.servers.backend().await? {
        Backend::App(app) => return sandbox::create(service, &app, &spec).await,
        Backend::Agent(server) => server,
    };
    let mut tags = ConversationTags::default();
    let Some(key) = &spec.key else {
        return create_new(service, server, TaskId::random(), spec, tags).await;
    };
    let id = TaskId::from_key(key);
    let fingerprint = spec.fingerprint();
    // Looked up first: a file that is put in place again would undo the agent's work on it.
    match server.conversation(id).await {
        Ok(conversation) => {
            check_fingerprint(&conversation, &fingerprint)?;
            repair(service, server, id, &conversation, &spec).await?;
            Ok(id)
        }
        Err(failure) if failure.is_no_task() => {
            tags.set_fingerprint(fingerprint);
            create_new(service, server, id, spec, tags).await
        }
        Err(failure) => Err(failure.into()),
    }
}

async fn create_new(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    spec: TaskSpec,
    mut tags: ConversationTags,
) -> Result<TaskId, ToolError> {
    let budget = service.max_budget.apply(&spec.budget)?;
    let profile = spec.agent.as_deref().or(service.profile.as_deref());
    let agent_profile = server.agent_profile(profile).await?;
    let roots = absolute_roots(server, &service.roots).await?;
    let workspace = set_up(server, &roots, id, &spec.workspace).await?;
    let own_root = roots.first().map_or("", String::as_str);
    let plugin = install_plugin(server, own_root, &service.mcp_servers).await?;
    tags.set_title(&spec.task);
    tags.set_base(workspace.base.as_deref());
    if let Some(seconds) = budget.seconds {
        tags.set_seconds(seconds);
    }
    if let Some(cost) = budget.cost {
        tags.set_cost(cost);
    }
    let prompt = spec.prompt();
    let new = NewConversation {
        id,
        agent_profile: &agent_profile,
        working_dir: &workspace.directory,
        tags: tags.as_tags(),
        max_iterations: budget.iterations.unwrap_or(service.max_budget.iterations),
        confirmation: spec.confirm.map(ConfirmationPolicy::from),
        plugin: plugin.as_ref(),
        prompt: Some(&prompt),
    };
    let waits_for = workspace.fetch.map(WaitsFor::Repository);
    let started = start_or_queue(service, server, &new, &tags, waits_for);
    let conversation = match timeout_at(spec.answer_by, started).await {
        Ok(started) => started?,
        Err(_) => {
            let reason = "The agent server takes too long to start the task.";
            let error = ToolError::new(ToolErrorKind::Timeout, reason);
            return Err(uncertain(id, error));
        }
    };
    // Somebody else may have used the key in the meantime.
    if let Some(fingerprint) = tags.fingerprint() {
        check_fingerprint(&conversation, fingerprint)?;
    }
    tracing::info!(task = %id, "task started");
    Ok(id)
}

async fn start_or_queue(
    service: &OpenHands,
    server: &AgentServer,
    new: &NewConversation<'_>,
    tags: &ConversationTags,
    waits_for: Option<WaitsFor>,
) -> Result<Conversation, ToolError> {
    let scheduler = &service.scheduler;
    if waits_for.is_none() && scheduler.take_slot(new.id).await? {
        let mut begun = tags.clone();
        begun.begin();
        let running = NewConversation {
            tags: begun.as_tags(),
            ..*new
        };
        match post(server, &running).await {
            Ok((conversation, _)) => return Ok(conversation),
            Err(error) => {
                scheduler.give_back_slot(new.id);
                if !error.is_full() {
                    return Err(error.into());
                }
            }
        }
    }
    let mut tags = tags.clone();
    tags.set_waits_for(Some(waits_for.unwrap_or(WaitsFor::Slot)));
    let waiting = NewConversation {
        tags: tags.as_tags(),
        ..*new
    };
    let conversation = create_waiting(server, waiting).await?;
    scheduler.enqueue(new.id);
    Ok(conversation)
}

/// Creates the conversation without letting the agent begin. All that is needed to begin is then at
/// the agent server.
async fn create_waiting(
    server: &AgentServer,
    new: NewConversation<'_>,
) -> Result<Conversation, ToolError> {
    let unprompted = NewConversation {
        prompt: None,
        ..new
    };
    let mut retries = 0;
    let (conversation, is_new) = loop {
        match post(server, &unprompted).await {
            // Creating a conversation needs a slot for a moment, which may become free.
            Err(error) if error.is_full() && retries < MAX_SLOT_RETRIES => {
                retries += 1;
                tokio::time::sleep(SLOT_RETRY_INTERVAL).await;
            }
            answer => break answer?,
        }
    };
    if is_new || server.count_prompts(new.id).await? == 0 {
        let prompt = new.prompt.unwrap_or_default();
        server.prompt(new.id, prompt, false).await?;
    }
    Ok(conversation)
}

/// Prompts a task that was created but not told what to do, because its creator crashed in between.
async fn repair(
    service: &OpenHands,
    server: &AgentServer,
    id: TaskId,
    conversation: &Conversation,
    spec: &TaskSpec,
) -> Result<(), ToolError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    let is_waiting = conversation.execution_status == Execution::Idle && tags.waits_for().is_some();
    let quiet = time::since(&conversation.updated_at);
    if is_waiting && quiet.is_some_and(|quiet| quiet > PROMPT_TIMEOUT) {
        if server.count_prompts(id).await? == 0 {
            server.prompt(id, &spec.prompt(), false).await?;
        }
        service.scheduler.enqueue(id);
    }
    Ok(())
}

/// Without an answer it is not known whether the task runs. Asking again is harmless, because the id
/// is ours: it finds the task or creates it.
async fn post(
    server: &AgentServer,
    new: &NewConversation<'_>,
) -> Result<(Conversation, bool), NotCreated> {
    match server.create(new).await {
        Err(failure) if failure.is_ambiguous() => {
            tracing::warn!(task = %new.id, ?failure, "no answer to a start, asking again");
            let again = server.create(new).await;
            again.map_err(|failure| NotCreated::Uncertain(uncertain(new.id, failure.into())))
        }
        answer => answer.map_err(|failure| match failure.is_full() {
            true => NotCreated::Full(failure.into()),
            false => NotCreated::Certain(failure.into()),
        }),
    }
}

fn check_fingerprint(conversation: &Conversation, fingerprint: &str) -> Result<(), ToolError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    if tags.fingerprint() == Some(fingerprint) {
        return Ok(());
    }
    Err(ToolError::new(
        ToolErrorKind::Conflict,
        "This idempotency_key was used for another task or file. Use a new key for new work.",
    ))
}
