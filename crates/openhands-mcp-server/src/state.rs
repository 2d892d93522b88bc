//! The state of a task: one pure function of what the agent server says about its conversation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use upstream::time;

use crate::api::tags::{ConversationTags, StopReason};
use crate::api::{
    AgentServer, ApiResult, Conversation, Execution, RunEnd, SandboxProblem, event_kind,
    explain_run_end,
};
use crate::budget::Limit;

/// The code of the error of a run that has used up the steps of one run.
const MAX_ITERATIONS_REACHED: &str = "MaxIterationsReached";

/// A running task without any event for this time is reported: no model call takes as long, but a
/// command may.
const QUIET_TIME: Duration = Duration::from_secs(600);

/// Seconds by which the clock that stops a task may be ahead of that of its events.
const CLOCK_TOLERANCE: u64 = 3;

/// The status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    /// Its repository or sandbox is not ready yet.
    Queued,
    /// The agent works or is starting.
    #[default]
    Running,
    /// The agent asks for permission.
    WaitingForConfirmation,
    /// Paused; can be resumed.
    Paused,
    /// Stopped, by cancel_task for example.
    Cancelled,
    /// Done, says the agent.
    Finished,
    /// Ended without being done.
    Failed,
    /// Stopped because the agent repeated itself.
    Stuck,
    /// The agent waits for a message.
    Idle,
    /// Not known right now.
    Unknown,
}

/// The facts about a task on which its state depends: all that the agent server says.
pub(crate) struct TaskFacts {
    pub(crate) conversation: Conversation,
    /// Actions of its agent.
    pub(crate) steps: u64,
    /// Its agent has sent a message; only looked up of an idle task without steps.
    has_answered: bool,
    /// The end of its last run; only looked up of a task that does not run.
    run_end: Option<RunEnd>,
}

/// A status with its explanation for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskOutcome {
    pub(crate) status: TaskStatus,
    /// The reason why the task is not done.
    pub(crate) error: Option<String>,
    /// The next step for the caller.
    pub(crate) next: Option<&'static str>,
}

impl From<Execution> for TaskStatus {
    /// The status of a task of which nothing else is known.
    fn from(execution: Execution) -> Self {
        match execution {
            Execution::Idle => Self::Idle,
            Execution::Running => Self::Running,
            Execution::Paused => Self::Paused,
            Execution::WaitingForConfirmation => Self::WaitingForConfirmation,
            Execution::Finished => Self::Finished,
            Execution::Error => Self::Failed,
            Execution::Stuck => Self::Stuck,
            Execution::Deleting | Execution::Unknown => Self::Unknown,
        }
    }
}

impl TaskStatus {
    /// Returns true if nothing more happens until a caller acts.
    pub(crate) fn is_settled(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Unknown)
    }
}

impl TaskFacts {
    /// Reads what the agent server says about the task, whose agent has taken this number of steps.
    pub(crate) async fn read(
        server: &AgentServer,
        mut conversation: Conversation,
        steps: u64,
    ) -> ApiResult<Self> {
        loop {
            let (id, execution) = (conversation.id, conversation.execution_status);
            // An agent that only sends a message takes no steps.
            let has_answered = execution == Execution::Idle
                && steps == 0
                && server.count_messages(id, "agent").await? > 0;
            let run_end = run_end(server, &conversation).await?;
            let facts = Self {
                conversation,
                steps,
                has_answered,
                run_end,
            };
            // Its events may be newer than its state.
            let is_old = match execution {
                Execution::Idle => facts.has_acted(),
                Execution::Error => true,
                _ => false,
            };
            if !is_old {
                return Ok(facts);
            }
            conversation = server.conversation(id).await?;
            if conversation.execution_status == execution
                && conversation.updated_at == facts.conversation.updated_at
            {
                return Ok(facts);
            }
        }
    }

    /// The facts about a task in a list, which does not tell how a run ended.
    pub(crate) fn of_listed(conversation: Conversation) -> Self {
        Self {
            conversation,
            steps: 1,
            has_answered: false,
            run_end: None,
        }
    }

    fn has_acted(&self) -> bool {
        self.steps > 0 || self.has_answered
    }

    /// Returns true if the agent server has ended a run at its first limit of steps, which has been raised since then:
    /// the task goes on with another run.
    pub(crate) fn goes_on(&self) -> bool {
        let (task, tags) = (
            &self.conversation,
            ConversationTags::from_task(&self.conversation),
        );
        let used = tags.used(task, self.steps, task.last_event_at());
        task.execution_status == Execution::Error
            && self.is_at_step_limit()
            && tags.stop_reason().is_none()
            && tags.steps().is_some()
            && tags.limits(task).reached(&used).is_none()
    }

    /// Returns true if the agent server has ended the last run at its limit of steps.
    pub(crate) fn is_at_step_limit(&self) -> bool {
        matches!(&self.run_end, Some(RunEnd::Error(error)) if error.code.as_deref() == Some(MAX_ITERATIONS_REACHED))
    }

    /// Returns true if the task begins or goes on once its repository or a slot is there.
    pub(crate) fn needs_run(&self) -> bool {
        self.goes_on() || self.is_fetching()
    }

    fn is_fetching(&self) -> bool {
        let tags = &self.conversation.tags;
        self.conversation.execution_status == Execution::Idle && tags.fetch().is_some()
    }

    /// The limit over which the task was stopped, if it is not tagged with the reason yet: tags cannot be set during a
    /// step.
    fn exceeded_limit(&self, tags: &ConversationTags) -> Option<StopReason> {
        let task = &self.conversation;
        if task.execution_status != Execution::Paused || !tags.is_in_run() {
            return None;
        }
        let mut used = tags.used(task, self.steps, task.last_event_at());
        used.seconds += CLOCK_TOLERANCE;
        tags.exceeded(&used).map(StopReason::Limit)
    }

    /// The state of the task.
    pub(crate) fn outcome(&self) -> TaskOutcome {
        use TaskStatus as S;
        let task = &self.conversation;
        let tags = &task.tags;
        let stopped = tags.stop_reason().or_else(|| self.exceeded_limit(tags));
        match (task.execution_status, stopped) {
            (Execution::Finished, _) => TaskOutcome {
                status: S::Finished,
                error: None,
                next: None,
            },
            (Execution::Idle, _) if self.is_fetching() => TaskOutcome::new(
                S::Queued,
                "Its repository is being fetched; it starts by itself. Call wait_task.",
            ),
            (Execution::Idle | Execution::Paused, Some(reason)) => {
                let mut outcome = TaskOutcome::from_stop_reason(reason);
                if let (Some(error), Some(text)) = (&mut outcome.error, tags.stop_text()) {
                    *error += &format!(" Git says: {text}");
                }
                outcome
            }
            (Execution::Running, _) => TaskOutcome::running(time::since(&task.updated_at)),
            (Execution::Error, _) if self.goes_on() => TaskOutcome::running(None),
            // A new conversation is idle until its first step starts.
            (Execution::Idle, _) if !self.has_acted() => TaskOutcome::new(
                S::Running,
                "It is starting. If it is still starting in a minute, stop it with cancel_task \
                 and run it again.",
            ),
            (Execution::Idle, _) => TaskOutcome::new(
                S::Idle,
                "The agent stopped and waits: read the result, then send it more instructions \
                 with send_message, or continue it with resume_task.",
            ),
            (Execution::Paused, _) => match self.run_end {
                Some(RunEnd::Interrupt) => TaskOutcome::cancelled(),
                _ => TaskOutcome::new(
                    S::Paused,
                    "It is paused: resume_task or send_message resumes it.",
                ),
            },
            (Execution::WaitingForConfirmation, _) => TaskOutcome::new(
                S::WaitingForConfirmation,
                "The agent asks for permission for all actions in confirmation: answer with \
                 respond_confirmation and the confirmation_id, or stop it with cancel_task.",
            ),
            (Execution::Stuck, _) => TaskOutcome::failed(
                S::Stuck,
                "The agent repeated itself without progress and was stopped.",
                "Read get_task_result, then explain the task more clearly with send_message.",
            ),
            (Execution::Error, _) => {
                let max_iterations = tags.steps().or(task.max_iterations);
                let (error, next) = explain_run_end(self.run_end.as_ref(), max_iterations);
                TaskOutcome::failed(S::Failed, error, next)
            }
            (Execution::Deleting, _) => TaskOutcome::failed(
                S::Unknown,
                "The task is being deleted.",
                "Run it again if it is still needed.",
            ),
            (Execution::Unknown, _) => TaskOutcome::failed(
                S::Unknown,
                "The agent server reports a state that this server does not know.",
                "Look at the task in OpenHands.",
            ),
        }
    }
}

/// The end of the last run, if the state alone does not tell it.
async fn run_end(server: &AgentServer, task: &Conversation) -> ApiResult<Option<RunEnd>> {
    let id = task.id;
    match task.execution_status {
        Execution::Error => {
            let (error, restart) = tokio::try_join!(
                server.last_event(id, event_kind::RUN_ERROR),
                server.last_restart(id),
            )?;
            let is_restart = restart.as_ref() > error.as_ref().map(|error| &error.timestamp);
            Ok(match is_restart {
                true => Some(RunEnd::Restart),
                false => error.map(Box::new).map(RunEnd::Error),
            })
        }
        Execution::Paused => {
            let (interrupted, paused) = tokio::try_join!(
                server.last_time(id, event_kind::INTERRUPT),
                server.last_time(id, event_kind::PAUSED),
            )?;
            Ok((interrupted > paused).then_some(RunEnd::Interrupt))
        }
        _ => Ok(None),
    }
}

impl TaskOutcome {
    /// The outcome of a task whose sandbox does not run.
    pub(crate) fn from_sandbox_problem(problem: &SandboxProblem) -> Self {
        use TaskStatus as S;
        match problem {
            SandboxProblem::Starting => Self::new(
                S::Queued,
                "Its sandbox is starting; the task starts by itself. Call wait_task.",
            ),
            SandboxProblem::Paused => Self::new(
                S::Paused,
                "Its sandbox is paused: resume_task or send_message resumes it.",
            ),
            SandboxProblem::Broken => Self::failed(
                S::Failed,
                "Its sandbox is broken, so nothing more is known about it.",
                "Look at the sandbox in OpenHands, or run the task again.",
            ),
            SandboxProblem::Gone => Self::failed(
                S::Failed,
                "Its sandbox was removed, together with all that it did there.",
                "Run it again if it is still needed.",
            ),
            SandboxProblem::Cancelled => Self::new(
                S::Cancelled,
                "It was cancelled before it had started. Run it again if it is still needed.",
            ),
            SandboxProblem::NotStarted(reason) => Self::failed(
                S::Failed,
                match reason {
                    Some(reason) => format!("OpenHands could not start it: {reason}."),
                    None => "OpenHands could not start its sandbox or its agent.".to_owned(),
                },
                "Check the model and the git credentials in OpenHands' settings; its log says \
                 more. Then run it again.",
            ),
        }
    }

    fn running(quiet: Option<Duration>) -> Self {
        let Some(quiet) = quiet.filter(|quiet| *quiet > QUIET_TIME) else {
            let next =
                "Call wait_task or get_task_status for its end, or stop it with cancel_task.";
            return Self::new(TaskStatus::Running, next);
        };
        let error = format!(
            "Nothing has happened for {} minutes: its command takes long, its model does not \
             answer, or the task hangs.",
            quiet.as_secs() / 60
        );
        let next = "If last_action should not take this long, call cancel_task, then resume_task, \
            or run it again.";
        Self::failed(TaskStatus::Running, error, next)
    }

    fn from_stop_reason(reason: StopReason) -> Self {
        let (error, next) = match reason {
            StopReason::Limit(Limit::Seconds) => (
                "The task reached its time limit and was stopped (max_seconds).",
                "Read the result so far; resume_task with a higher max_seconds gives it more.",
            ),
            StopReason::Limit(Limit::Steps) => (
                "The task reached its limit of steps and was stopped (max_iterations).",
                "Read the result so far; resume_task with a higher max_iterations gives it more.",
            ),
            StopReason::Limit(Limit::Cost) => (
                "The task reached its cost limit and was stopped (max_cost).",
                "Read the result so far; resume_task with a higher max_cost gives it more.",
            ),
            StopReason::NoRepository => (
                "The repository or branch could not be fetched, so the agent was not started.",
                "Check context.repository and branch; a private one needs credentials: on the agent \
                 server, or in OPENHANDS_GIT_TOKENS.",
            ),
            StopReason::NoModel => (
                "The profile of its model cannot be used, so the agent was not started.",
                "Run it again with a model that list_agent_profiles shows.",
            ),
            StopReason::NoSlot => (
                "All slots for running tasks were taken when it was to start.",
                "Start it with resume_task, or repeat its call with the same idempotency_key, when a task has ended.",
            ),
            StopReason::Cancelled => return Self::cancelled(),
        };
        Self::failed(TaskStatus::Failed, error, next)
    }

    fn cancelled() -> Self {
        let next = "It was stopped. Continue it with send_message or resume_task if needed.";
        Self::new(TaskStatus::Cancelled, next)
    }

    fn new(status: TaskStatus, next: &'static str) -> Self {
        Self {
            status,
            error: None,
            next: Some(next),
        }
    }

    pub(crate) fn failed(status: TaskStatus, error: impl Into<String>, next: &'static str) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::new(status, next)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// Events in the life of a task: the tags after each, the steps of its agent, and the end of its run.
    const EVENTS: [(&str, &str, u64, &str); 16] = [
        ("created", "", 0, ""),
        (
            "fetching",
            "mcpwaits=00000000000000000000000000000007",
            0,
            "",
        ),
        ("no-repository", "mcpstopped=repository x", 0, ""),
        ("no-model", "mcpstopped=model", 0, ""),
        ("full", "mcpstopped=slot", 0, ""),
        ("acted", "", 2, ""),
        ("interrupted", "", 2, "interrupt"),
        ("restarted", "", 2, "restart"),
        ("steps", "", 5, "limit"),
        ("raised", "mcpsteps=9", 5, "limit"),
        ("raised-cost", "mcpsteps=9,mcpcost=1", 5, "limit"),
        (
            "raised-time",
            "mcpsteps=9,mcpseconds=60,mcptime=60",
            5,
            "limit",
        ),
        ("overdue", "mcpseconds=60,mcptime=@1", 2, "interrupt"),
        ("over-steps", "mcpsteps=4,mcptime=@1", 5, "interrupt"),
        ("cancelled", "mcpstopped=cancelled", 2, "interrupt"),
        ("time", "mcpstopped=time", 2, "interrupt"),
    ];

    /// The facts about a task in this state, after one of the events.
    fn after(execution: &str, event: &str) -> TaskFacts {
        let (_, tags, steps, end) = EVENTS
            .into_iter()
            .find(|(name, ..)| *name == event)
            .unwrap();
        let tags = tags.split(',').filter_map(|tag| tag.split_once('='));
        let task = json!({"id": "82183f0e-7464-499a-a27d-37531b07889f",
            "execution_status": execution, "max_iterations": 5,
            "updated_at": "2026-01-01T00:01:00Z", "tags": tags.collect::<BTreeMap<_, _>>(),
            "stats": {"usage_to_metrics": {"a": {"accumulated_cost": 2.0}}}});
        let error = json!({"id": "a", "timestamp": "t", "kind": event_kind::RUN_ERROR,
            "code": MAX_ITERATIONS_REACHED});
        TaskFacts {
            conversation: serde_json::from_value(task).unwrap(),
            steps,
            has_answered: false,
            run_end: match end {
                "interrupt" => Some(RunEnd::Interrupt),
                "restart" => Some(RunEnd::Restart),
                "limit" => Some(RunEnd::Error(serde_json::from_value(error).unwrap())),
                _ => None,
            },
        }
    }

    #[test]
    fn every_state_after_every_event_has_a_status() {
        // One status for each event, or one for all.
        for (execution, expected) in [
            (
                "idle",
                "running queued failed failed failed idle idle idle idle idle idle idle idle idle cancelled failed",
            ),
            ("running", "running"),
            (
                "paused",
                "paused paused failed failed failed paused cancelled paused paused paused paused paused failed \
                 failed cancelled failed",
            ),
            ("waiting_for_confirmation", "waiting_for_confirmation"),
            ("finished", "finished"),
            ("stuck", "stuck"),
            (
                "error",
                "failed failed failed failed failed failed failed failed failed running failed failed failed \
                 failed failed failed",
            ),
            ("deleting", "unknown"),
            ("unheard_of", "unknown"),
        ] {
            let mut statuses = expected.split_whitespace().cycle();
            for (event, ..) in EVENTS {
                let facts = after(execution, event);
                let outcome = facts.outcome();
                let status = json!(outcome.status);
                assert_eq!(status, statuses.next().unwrap(), "{execution} {event}");
                let is_finished = outcome.status == TaskStatus::Finished;
                assert_eq!(outcome.next.is_none(), is_finished, "{execution} {event}");
                let needs_run = matches!(
                    (execution, event),
                    ("idle", "fetching") | ("error", "raised")
                );
                assert_eq!(facts.needs_run(), needs_run, "{execution} {event}");
                // A task that goes on by itself is not settled.
                assert!(!(needs_run && outcome.status.is_settled()));
            }
        }
    }

    #[test]
    fn agent_that_only_answers_has_acted() {
        let mut answered = after("idle", "created");
        answered.has_answered = true;
        assert_eq!(answered.outcome().status, TaskStatus::Idle);
        let error = after("idle", "no-repository").outcome().error.unwrap();
        assert!(error.ends_with("Git says: x"), "{error}");
    }

    #[test]
    fn long_silence_of_a_running_task_is_reported() {
        assert_eq!(TaskOutcome::running(Some(QUIET_TIME)).error, None);
        let silent = TaskOutcome::running(Some(Duration::from_secs(1_260)));
        assert_eq!(silent.status, TaskStatus::Running);
        assert!(silent.error.unwrap().contains("21 minutes"));
    }
}
