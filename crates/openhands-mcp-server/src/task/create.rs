//! Creating a task, which then runs or is queued.

use std::time::Duration;

use mcp_core::tool::ToolError;
use upstream::time;

use super::sandbox;
use super::spec::TaskSpec;
use super::start_error::{start_before, uncertain};
use crate::OpenHands;
use crate::api::{
    AgentServer, ApiResult, Backend, ConfirmationPolicy, Conversation, Execution, NewConversation,
    TaskId,
};
use crate::scheduler::Scheduler;
use crate::tags::{ConversationTags, WaitsFor};
use crate::workspace::mcp_servers::install_plugin;
use crate::workspace::{absolute_roots, set_up};

/// Retries of a creation on a full agent server, and their interval.
const MAX_SLOT_RETRIES: u32 = 30;
const SLOT_RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// After this time a created task that has no prompt counts as orphaned.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates the task, or finds the existing one with its idempotency key. If all slots are taken, the
/// task is queued at the agent server.
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
    // Looked up first: to upload a file again would undo the agent's work on it.
    match server.conversation(id).await {
        Ok(conversation) => {
            check_fingerprint(&conversation, &fingerprint)?;
            repair(&service.scheduler, server, id, &conversation, &spec).await?;
            Ok(id)
        }
        Err(failure) if failure.is_unknown_task() => {
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
    tags.set_budget(&budget);
    let prompt = spec.prompt();
    let new = NewConversation {
        id,
        agent_profile: &agent_profile,
        working_dir: &workspace.directory,
        tags: tags.as_tags(),
        max_iterations: budget.iterations,
        confirmation: spec.confirm.map(ConfirmationPolicy::from),
        plugin: plugin.as_ref(),
        prompt: Some(&prompt),
    };
    let waits_for = workspace.fetch.map(WaitsFor::Repository);
    let start = start_or_queue(&service.scheduler, server, &new, &tags, waits_for);
    let conversation = start_before(spec.answer_by, id, start).await?;
    // Another call with the same key may have created it in the meantime.
    if let Some(fingerprint) = tags.fingerprint() {
        check_fingerprint(&conversation, fingerprint)?;
    }
    tracing::info!(task = %id, "task started");
    Ok(id)
}

async fn start_or_queue(
    scheduler: &Scheduler,
    server: &AgentServer,
    new: &NewConversation<'_>,
    tags: &ConversationTags,
    waits_for: Option<WaitsFor>,
) -> Result<Conversation, ToolError> {
    let mut tags = tags.clone();
    if waits_for.is_none() && scheduler.take_slot(new.id).await? {
        tags.begin_run();
        let tags = tags.as_tags();
        let created = post(server, &NewConversation { tags, ..*new }).await;
        if !matches!(created, Ok(Ok(_))) {
            scheduler.give_back_slot(new.id);
        }
        match created? {
            Err(failure) if failure.is_full() => {}
            created => return Ok(created?.0),
        }
    }
    tags.end_run();
    tags.set_waits_for(Some(waits_for.unwrap_or(WaitsFor::Slot)));
    let tags = tags.as_tags();
    let conversation = create_waiting(server, NewConversation { tags, ..*new }).await?;
    scheduler.enqueue(new.id);
    Ok(conversation)
}

/// Creates the conversation without starting the agent. All that the start needs is then at the agent
/// server.
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
        match post(server, &unprompted).await? {
            // To create a conversation takes a slot for a moment; one may become free.
            Err(failure) if failure.is_full() && retries < MAX_SLOT_RETRIES => {
                retries += 1;
                tokio::time::sleep(SLOT_RETRY_INTERVAL).await;
            }
            created => break created?,
        }
    };
    if is_new || server.count_messages(new.id, "user").await? == 0 {
        let prompt = new.prompt.unwrap_or_default();
        server.prompt(new.id, prompt, false).await?;
    }
    Ok(conversation)
}

/// Prompts a task that has no prompt because the server crashed after it had created the task.
async fn repair(
    scheduler: &Scheduler,
    server: &AgentServer,
    id: TaskId,
    conversation: &Conversation,
    spec: &TaskSpec,
) -> Result<(), ToolError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    let is_waiting = conversation.execution_status == Execution::Idle && tags.waits_for().is_some();
    let quiet = time::since(&conversation.updated_at);
    if is_waiting && quiet.is_some_and(|quiet| quiet > PROMPT_TIMEOUT) {
        if server.count_messages(id, "user").await? == 0 {
            server.prompt(id, &spec.prompt(), false).await?;
        }
        scheduler.enqueue(id);
    }
    Ok(())
}

/// Creates the conversation. If the response is lost, repeats the request, which is safe because the
/// id is ours.
///
/// # Errors
/// The outer error: it is uncertain whether the conversation was created.
async fn post(
    server: &AgentServer,
    new: &NewConversation<'_>,
) -> Result<ApiResult<(Conversation, bool)>, ToolError> {
    match server.create(new).await {
        Err(failure) if failure.is_ambiguous() => {
            tracing::warn!(task = %new.id, ?failure, "no response to a start, retrying");
            let created = server.create(new).await;
            let created = created.map_err(|failure| uncertain(new.id, failure.into()));
            created.map(Ok)
        }
        created => Ok(created),
    }
}

fn check_fingerprint(conversation: &Conversation, fingerprint: &str) -> Result<(), ToolError> {
    let tags = ConversationTags::new(conversation.tags.clone());
    if tags.fingerprint() == Some(fingerprint) {
        return Ok(());
    }
    Err(ToolError::conflict(
        "This idempotency_key was used for another task or file. Use a new key for new work.",
    ))
}
