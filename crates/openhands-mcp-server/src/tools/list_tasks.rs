//! `list_tasks`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted;
use upstream::text::one_line;

use crate::OpenHands;
use crate::api::{
    AppConversation, AppServer, Backend, Conversation, Execution, SandboxStatus, Servers, StartEnd,
    TaskId,
};
use crate::tags::ConversationTags;
use crate::task::{TaskOutcome, TaskStatus};

/// Tasks in an answer; each takes about 60 tokens.
const DEFAULT_LIMIT: u32 = 20;
/// Conversations in one response that is filtered, and the responses of one call.
const PAGE_SIZE: u32 = 50;
const MAX_PAGES: usize = 20;
/// Characters of a title.
const MAX_TITLE_CHARS: usize = 80;

/// Lists the tasks of the agent server, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTasks {
    /// Only these.
    status: Option<TaskStatus>,
    /// Default 20.
    limit: Option<Bounded<1, 50>>,
    /// Previous next_cursor.
    cursor: Option<String>,
}

/// The state of the agent of all tasks with this status; `None` if they are in several states.
fn execution(status: TaskStatus) -> Option<Execution> {
    match status {
        TaskStatus::Running => Some(Execution::Running),
        TaskStatus::Queued | TaskStatus::Idle => Some(Execution::Idle),
        TaskStatus::Paused => Some(Execution::Paused),
        TaskStatus::WaitingForConfirmation => Some(Execution::WaitingForConfirmation),
        TaskStatus::Finished => Some(Execution::Finished),
        TaskStatus::Stuck => Some(Execution::Stuck),
        TaskStatus::Cancelled | TaskStatus::Failed | TaskStatus::Unknown => None,
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskPage {
    tasks: Vec<ListedTask>,
    /// There are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ListedTask {
    task_id: TaskId,
    status: TaskStatus,
    /// Its first words.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// UTC.
    created_at: String,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

impl Tool for ListTasks {
    const NAME: &'static str = "list_tasks";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = TaskPage;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<TaskPage, ToolError> {
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get);
        let server = match service.servers.backend().await? {
            Backend::App(app) => return self.in_sandboxes(&service.servers, &app, limit).await,
            Backend::Agent(server) => server,
        };
        let execution = self.status.and_then(execution);
        let owner = service.owner(call);
        let is_wanted = |task: &Conversation| {
            let tags = ConversationTags::new(task.tags.clone());
            let may_see = owner.as_ref().is_none_or(|owner| owner.may_see(&tags));
            may_see
                && self
                    .status
                    .is_none_or(|status| status == listed_status(task))
        };
        // Of a page without a filter every task is shown.
        let size = match (self.status, &owner) {
            (None, None) => limit,
            _ => PAGE_SIZE,
        };
        let (mut tasks, mut cursor) = (Vec::new(), self.cursor.clone());
        for _ in 0..MAX_PAGES {
            let page = server.conversations(execution, size, cursor.as_deref());
            let page = page.await?;
            cursor = page.next_page_id;
            for task in page.items.into_iter().filter(is_wanted) {
                if tasks.len() == limit as usize {
                    // The cursor of the agent server is the id of the next one.
                    return Ok(TaskPage {
                        tasks,
                        next_cursor: Some(task.id.simple()),
                    });
                }
                tasks.push(ListedTask::from_agent_server(task));
            }
            if cursor.is_none() {
                break;
            }
        }
        Ok(TaskPage {
            tasks,
            next_cursor: cursor,
        })
    }
}

impl ListTasks {
    async fn in_sandboxes(
        self,
        servers: &Servers,
        app: &AppServer,
        limit: u32,
    ) -> Result<TaskPage, ToolError> {
        if self.status.is_some() {
            return Err(ToolError::invalid_argument(
                "The OpenHands V1 app server cannot list by status: leave status out.",
            ));
        }
        let page = app.conversations(limit, self.cursor.as_deref()).await?;
        // Not needed for the list, and huge if the tasks are: then only the titles of OpenHands are known.
        let starts = app.starts(limit).await.unwrap_or_default();
        let words = |id| {
            let start = starts.iter().find(|start| start.task() == Some(id))?;
            start.prompt().map(task_words)
        };
        let listed = page.items.iter();
        let listed = listed.map(|task| ListedTask::from_app_server(task, words(task.id)));
        let mut tasks: Vec<ListedTask> = Vec::new();
        if self.cursor.is_none() {
            let is_listed = |id| page.items.iter().any(|task| task.id == id);
            let oldest = page.items.last().map(|task| task.created_at.as_str());
            let oldest = oldest.filter(|_| page.next_page_id.is_some());
            let starts = starts.iter().filter(|start| {
                let is_new = oldest.is_none_or(|oldest| start.created_at.as_str() > oldest);
                is_new && start.task().is_some_and(|id| !is_listed(id))
            });
            tasks.extend(starts.filter_map(|start| {
                let id = start.task()?;
                let status = match servers.start_end(id) {
                    Some(StartEnd::Deleted) => return None,
                    Some(StartEnd::Cancelled) => TaskStatus::Cancelled,
                    None if start.has_failed() => TaskStatus::Failed,
                    // Neither starting nor listed: it was deleted.
                    None if !start.is_in_progress() => return None,
                    None => TaskStatus::Queued,
                };
                let title = words(id);
                Some(ListedTask::new(
                    id,
                    status,
                    title.as_deref(),
                    &start.created_at,
                    0.0,
                ))
            }));
        }
        tasks.extend(listed);
        Ok(TaskPage {
            tasks,
            next_cursor: page.next_page_id,
        })
    }
}

/// The status of a task in the list.
fn listed_status(task: &Conversation) -> TaskStatus {
    let tags = ConversationTags::new(task.tags.clone());
    let is_fetching = tags.fetch().is_some();
    TaskOutcome::status_in_list(task.execution_status, is_fetching, tags.stop_reason())
}

/// The words of a task from its prompt, to which files and a repository may be added.
pub(super) fn task_words(prompt: &str) -> String {
    let (task, _) = prompt
        .split_once("\n\nYour working directory is")
        .unwrap_or((prompt, ""));
    one_line(&redacted(task), MAX_TITLE_CHARS)
}

impl ListedTask {
    fn new(
        task_id: TaskId,
        status: TaskStatus,
        title: Option<&str>,
        created_at: &str,
        cost: f64,
    ) -> Self {
        Self {
            task_id,
            status,
            task: title.map(|title| one_line(&redacted(title), MAX_TITLE_CHARS)),
            created_at: created_at.chars().take(19).collect(),
            cost: Some(cost).filter(|cost| *cost > 0.0),
        }
    }

    fn from_app_server(task: &AppConversation, words: Option<String>) -> Self {
        let status = match (task.sandbox_status, task.execution_status) {
            (SandboxStatus::Running, Some(execution)) => {
                TaskOutcome::status_in_list(execution, false, None)
            }
            (SandboxStatus::Starting, _) => TaskStatus::Queued,
            (SandboxStatus::Paused, _) => TaskStatus::Paused,
            _ => TaskStatus::Unknown,
        };
        let title = words.as_deref().or(task.title.as_deref());
        Self::new(task.id, status, title, &task.created_at, task.cost())
    }

    fn from_agent_server(task: Conversation) -> Self {
        let status = listed_status(&task);
        let tags = ConversationTags::new(task.tags);
        let title = tags.title().or(task.title.as_deref());
        Self::new(task.id, status, title, &task.created_at, task.stats.cost())
    }
}
