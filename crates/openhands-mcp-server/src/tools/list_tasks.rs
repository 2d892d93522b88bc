//! `list_tasks`

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::redact::redacted;
use upstream::text::one_line;

use crate::OpenHands;
use crate::api::{
    AppConversation, AppServer, Backend, Execution, ListedConversation, SandboxStatus, TaskId,
};
use crate::tags::ConversationTags;
use crate::task::{TaskOutcome, TaskStatus};

/// Rows of an answer: some 60 tokens each.
const DEFAULT_LIMIT: u32 = 20;
/// Characters of a task's first words.
const MAX_TITLE: usize = 80;

/// Lists the tasks of the agent server, newest first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTasks {
    /// Only these.
    status: Option<Filter>,
    /// Default 20.
    limit: Option<Bounded<1, 50>>,
    /// next_cursor of the last answer.
    cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Filter {
    /// At work.
    Running,
    /// Queued, or waiting for a message.
    Idle,
    /// Paused, cancelled or out of budget.
    Paused,
    /// Asking for permission.
    WaitingForConfirmation,
    /// Done.
    Finished,
    /// Broken off.
    Failed,
    /// Going in circles.
    Stuck,
}

impl From<Filter> for Execution {
    fn from(filter: Filter) -> Self {
        match filter {
            Filter::Running => Self::Running,
            Filter::Idle => Self::Idle,
            Filter::Paused => Self::Paused,
            Filter::WaitingForConfirmation => Self::WaitingForConfirmation,
            Filter::Finished => Self::Finished,
            Filter::Failed => Self::Error,
            Filter::Stuck => Self::Stuck,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Tasks {
    tasks: Vec<Row>,
    /// There are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
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
    type Output = Tasks;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<Tasks, ToolError> {
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get);
        let server = match service.servers.backend().await? {
            Backend::App(app) => return self.in_sandboxes(&app, limit).await,
            Backend::Agent(server) => server,
        };
        let status = self.status.map(Execution::from);
        let page = server.conversations(status, limit, self.cursor.as_deref());
        let page = page.await?;
        Ok(Tasks {
            tasks: page.items.into_iter().map(row).collect(),
            next_cursor: page.next_page_id,
        })
    }
}

impl ListTasks {
    async fn in_sandboxes(self, app: &AppServer, limit: u32) -> Result<Tasks, ToolError> {
        if self.status.is_some() {
            return Err(ToolError::invalid_argument(
                "The OpenHands V1 app server cannot list by status: leave status out.",
            ));
        }
        let page = app.conversations(limit, self.cursor.as_deref()).await?;
        Ok(Tasks {
            tasks: page.items.into_iter().map(sandboxed).collect(),
            next_cursor: page.next_page_id,
        })
    }
}

fn sandboxed(listed: AppConversation) -> Row {
    let status = match (listed.sandbox_status, listed.execution_status) {
        (SandboxStatus::Running, Some(execution)) => {
            TaskOutcome::status_in_list(execution, None, None)
        }
        (SandboxStatus::Starting, _) => TaskStatus::Queued,
        (SandboxStatus::Paused, _) => TaskStatus::Paused,
        _ => TaskStatus::Unknown,
    };
    Row {
        task_id: listed.id,
        status,
        cost: Some(listed.cost()).filter(|cost| *cost > 0.0),
        task: listed
            .title
            .map(|title| one_line(&redacted(&title), MAX_TITLE)),
        created_at: listed.created_at.chars().take(19).collect(),
    }
}

fn row(listed: ListedConversation) -> Row {
    let tags = ConversationTags::new(listed.tags);
    let title = tags.title().or(listed.title.as_deref());
    Row {
        task_id: listed.id,
        status: TaskOutcome::status_in_list(
            listed.execution_status,
            tags.waits_for(),
            tags.stop_reason(),
        ),
        task: title.map(|title| one_line(&redacted(title), MAX_TITLE)),
        created_at: listed.created_at.chars().take(19).collect(),
        cost: Some(listed.stats.cost()).filter(|cost| *cost > 0.0),
    }
}
