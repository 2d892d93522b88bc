//! Tools that list tasks, agent profiles and usage.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use upstream::redact::redacted;
use upstream::text::one_line;
use upstream::time::{Timestamp, before, parse_timestamp};

use crate::OpenHands;
use crate::api::tags::tag;
use crate::api::{
    AgentProfile, AppConversation, AppServer, Backend, Conversation, Execution, ModelProfile,
    SandboxStatus, Servers, StartStatus, TaskId, round_cost,
};
use crate::state::{TaskFacts, TaskOutcome, TaskStatus};

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

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskPage {
    tasks: Vec<ListedTask>,
    /// There are more.
    next_cursor: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ListedTask {
    task_id: TaskId,
    status: TaskStatus,
    /// Its first words.
    task: Option<String>,
    /// UTC.
    created_at: String,
    /// US dollars.
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
            let may_see = owner.as_ref().is_none_or(|owner| owner.may_see(&task.tags));
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
        for number in 0..MAX_PAGES {
            let page = server.conversations(execution, size, cursor.as_deref());
            let page = page.await?;
            // Without the task with this id the agent server begins again with the newest.
            let first = page.items.first().map(|first| first.id.simple());
            if number == 0 && cursor.is_some() && first != cursor {
                return Err(ToolError::invalid_argument(
                    "cursor must be the next_cursor of a previous result, and its task is gone or has another \
                     status now: call list_tasks without cursor.",
                ));
            }
            cursor = page.next_page_id;
            for task in page.items.into_iter().filter(is_wanted) {
                if tasks.len() == limit as usize {
                    // The cursor of the agent server is the id of the next one.
                    return Ok(TaskPage {
                        tasks,
                        next_cursor: Some(task.id.simple()),
                    });
                }
                let title = task.tags.get(tag::TITLE).or(task.title.as_deref());
                let (status, cost) = (listed_status(&task), task.stats.cost());
                tasks.push(ListedTask::new(
                    task.id,
                    status,
                    title,
                    &task.created_at,
                    cost,
                ));
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
                let problem = servers.start_problem(id, start)?;
                let status = TaskOutcome::from_sandbox_problem(&problem).status;
                // A task that is neither starting nor listed was deleted.
                let is_gone = status == TaskStatus::Queued && start.status == StartStatus::Ready;
                let (title, at) = (words(id), &start.created_at);
                (!is_gone).then(|| ListedTask::new(id, status, title.as_deref(), at, 0.0))
            }));
        }
        tasks.extend(listed);
        // The app server cannot list by it, so a page may be short.
        tasks.retain(|task| self.status.is_none_or(|status| status == task.status));
        Ok(TaskPage {
            tasks,
            next_cursor: page.next_page_id,
        })
    }
}

/// The status of a task in the list.
fn listed_status(task: &Conversation) -> TaskStatus {
    TaskFacts::of_listed(task.clone()).outcome().status
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
            (SandboxStatus::Running, Some(execution)) => execution.into(),
            (SandboxStatus::Starting, _) => TaskStatus::Queued,
            (SandboxStatus::Paused, _) => TaskStatus::Paused,
            _ => TaskStatus::Unknown,
        };
        let title = words.as_deref().or(task.title.as_deref());
        let cost = task
            .metrics
            .as_ref()
            .map(|metrics| metrics.accumulated_cost);
        let cost = cost.unwrap_or_default();
        Self::new(task.id, status, title, &task.created_at, cost)
    }
}

/// Returns the agent profiles and models of OpenHands, for `agent` and `model` of run_task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAgentProfiles {}

#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentProfiles {
    profiles: Vec<ProfileRow>,
    models: Vec<ModelProfile>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ProfileRow {
    /// For run_task.
    name: String,
    /// Such as openhands.
    agent_kind: Option<String>,
    /// The model's profile.
    model: Option<String>,
    /// Used by default.
    default: bool,
}

impl Tool for ListAgentProfiles {
    const NAME: &'static str = "list_agent_profiles";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = AgentProfiles;

    async fn call(self, service: &OpenHands, _: &Call) -> Result<AgentProfiles, ToolError> {
        let server = service.servers.shared_agent().await?;
        let (profiles, active) = server.agent_profiles().await?;
        let row = |profile: AgentProfile| ProfileRow {
            default: match &service.profile {
                Some(name) => *name == profile.name,
                None => active.as_ref() == Some(&profile.id),
            },
            name: profile.name,
            agent_kind: profile.agent_kind,
            model: profile.llm_profile_ref,
        };
        Ok(AgentProfiles {
            profiles: profiles.into_iter().map(row).collect(),
            models: server.models().await?,
        })
    }
}

const DEFAULT_DAYS: u32 = 7;
/// Tasks that are read: the agent server takes 10 ms for each.
const MAX_TASKS: u64 = 1_000;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Characters of a date.
const DATE_CHARS: usize = 10;

/// Sums the cost and tokens of tasks, by the day (UTC) on which they were created, by principal and by
/// agent profile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUsage {
    /// Default 7.
    days: Option<Bounded<1, 366>>,
}

#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct UsageReport {
    total: Usage,
    by_day: BTreeMap<String, Usage>,
    by_principal: BTreeMap<String, Usage>,
    by_profile: BTreeMap<String, Usage>,
    /// Gaps of the sums.
    not_counted: Vec<String>,
}

/// The usage of some tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(description = "")]
struct Usage {
    tasks: u64,
    /// US dollars.
    cost: f64,
    /// Read and written.
    tokens: u64,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.cost = round_cost(self.cost + other.cost);
        self.tokens += other.tokens;
    }
}

impl Tool for GetUsage {
    const NAME: &'static str = "get_usage";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = OpenHands;
    type Output = UsageReport;

    async fn call(self, service: &OpenHands, call: &Call) -> Result<UsageReport, ToolError> {
        let server = service.servers.shared_agent().await?;
        let days = self.days.map_or(DEFAULT_DAYS, Bounded::get);
        let since = before(Timestamp::now(), DAY * days);
        let profiles = server.agent_profiles().await?.0.into_iter();
        let profiles: BTreeMap<String, String> =
            profiles.map(|profile| (profile.id, profile.name)).collect();
        let owner = service.owner(call);
        let mut report = UsageReport::default();
        report.not_counted.push("Deleted tasks.".to_owned());
        // Tasks with tokens and without a cost.
        let (mut unpriced, mut oldest) = (0_u64, String::new());
        let mut add = |task: &Conversation| {
            let tags = &task.tags;
            if owner.as_ref().is_some_and(|owner| !owner.may_see(tags)) {
                return;
            }
            let (cost, tokens) = (task.stats.cost(), task.stats.tokens());
            unpriced += u64::from(tokens > 0 && cost <= 0.0);
            let usage = Usage {
                tasks: 1,
                cost,
                tokens,
            };
            oldest = task.created_at.chars().take(DATE_CHARS).collect();
            let profile = task.profile().unwrap_or("none");
            let profile = profiles.get(profile).map_or(profile, String::as_str);
            report.total.add(usage);
            for (sums, key) in [
                (&mut report.by_day, oldest.as_str()),
                (
                    &mut report.by_principal,
                    tags.get(tag::PRINCIPAL).unwrap_or("none"),
                ),
                (&mut report.by_profile, profile),
            ] {
                sums.entry(key.to_owned()).or_default().add(usage);
            }
        };
        let (mut read, mut is_whole) = (0, true);
        let add_page = |page: Vec<Conversation>, has_more: bool| {
            for task in &page {
                if parse_timestamp(&task.created_at).is_some_and(|created| created < since) {
                    return false;
                }
                read += 1;
                add(task);
            }
            is_whole = !has_more || read < MAX_TASKS;
            is_whole
        };
        server.each_page(None, add_page).await?;
        if !is_whole {
            report.not_counted.push(format!(
                "Tasks before the newest {MAX_TASKS} of the agent server (of {oldest} and earlier)."
            ));
        }
        if unpriced > 0 {
            report.not_counted.push(format!(
                "The cost of {unpriced} tasks: OpenHands does not know the price of their model."
            ));
        }
        Ok(report)
    }
}
