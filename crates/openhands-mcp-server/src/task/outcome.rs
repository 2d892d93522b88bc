//! The status of a task, derived from the state of its conversation. Pure.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Execution, RunEnd, SandboxProblem, explain_run_end};
use crate::tags::StopReason;

/// A running task without any event for this time is reported: no model call takes as long, but a
/// command may.
const QUIET_TIME: Duration = Duration::from_secs(600);

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    /// Its repository or sandbox is not ready yet.
    Queued,
    /// The agent works or is starting.
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

/// The facts about a conversation on which its status depends.
pub(crate) struct TaskFacts {
    pub(crate) execution: Execution,
    /// The agent has acted or sent a message.
    pub(crate) has_acted: bool,
    /// The limit of steps.
    pub(crate) max_iterations: Option<u64>,
    /// The end of the last run; only looked up if the task does not run.
    pub(crate) run_end: Option<RunEnd>,
    /// Its repository is being fetched.
    pub(crate) is_fetching: bool,
    pub(crate) stop_reason: Option<StopReason>,
    /// What git says about that reason.
    pub(crate) stop_text: Option<String>,
    /// Time since the last event, if known.
    pub(crate) quiet: Option<Duration>,
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

impl TaskStatus {
    /// Returns true if nothing more happens until a caller acts.
    pub(crate) fn is_settled(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Unknown)
    }
}

impl TaskOutcome {
    pub(crate) fn from_facts(facts: &TaskFacts) -> Self {
        use TaskStatus as S;
        match (facts.execution, facts.is_fetching, facts.stop_reason) {
            (Execution::Finished, ..) => Self {
                status: S::Finished,
                error: None,
                next: None,
            },
            (Execution::Idle, true, _) => Self::new(
                S::Queued,
                "Its repository is being fetched; it starts by itself. Call wait_task.",
            ),
            (Execution::Idle | Execution::Paused, _, Some(reason)) => {
                let mut outcome = Self::from_stop_reason(reason);
                if let (Some(error), Some(text)) = (&mut outcome.error, &facts.stop_text) {
                    *error += &format!(" Git says: {text}");
                }
                outcome
            }
            (Execution::Running, ..) => Self::running(facts.quiet),
            // A new conversation is idle until its first step starts.
            (Execution::Idle, ..) if !facts.has_acted => Self::new(
                S::Running,
                "It is starting. If it is still starting in a minute, stop it with cancel_task \
                 and run it again.",
            ),
            (Execution::Idle, ..) => Self::new(
                S::Idle,
                "The agent stopped and waits: read the result, then send it more instructions \
                 with send_message, or continue it with resume_task.",
            ),
            (Execution::Paused, ..) => match facts.run_end {
                Some(RunEnd::Interrupt) => Self::cancelled(),
                _ => Self::new(
                    S::Paused,
                    "It is paused: resume_task or send_message resumes it.",
                ),
            },
            (Execution::WaitingForConfirmation, ..) => Self::new(
                S::WaitingForConfirmation,
                "The agent asks for permission for all actions in confirmation: answer with \
                 respond_confirmation and the confirmation_id, or stop it with cancel_task.",
            ),
            (Execution::Stuck, ..) => Self::failed(
                S::Stuck,
                "The agent repeated itself without progress and was stopped.",
                "Read get_task_result, then explain the task more clearly with send_message.",
            ),
            (Execution::Error, ..) => {
                let end = facts.run_end.as_ref();
                let (error, next) = explain_run_end(end, facts.max_iterations);
                Self::failed(S::Failed, error, next)
            }
            (Execution::Deleting, ..) => Self::failed(
                S::Unknown,
                "The task is being deleted.",
                "Run it again if it is still needed.",
            ),
            (Execution::Unknown, ..) => Self::failed(
                S::Unknown,
                "The agent server reports a state that this server does not know.",
                "Look at the task in OpenHands.",
            ),
        }
    }

    /// The outcome of a started task that cannot be read now.
    pub(crate) fn unreadable(reason: &str) -> Self {
        Self::failed(
            TaskStatus::Unknown,
            reason,
            "The task was started and may be running: call get_task_status, do not run it again.",
        )
    }

    /// The outcome of a task whose sandbox does not run.
    pub(crate) fn from_sandbox_problem(problem: SandboxProblem, reason: Option<&str>) -> Self {
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
            SandboxProblem::NotStarted => Self::failed(
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

    /// The status of a task in a list, which does not tell how a run ended.
    pub(crate) fn status_in_list(
        execution: Execution,
        is_fetching: bool,
        stop_reason: Option<StopReason>,
    ) -> TaskStatus {
        let facts = TaskFacts {
            execution,
            has_acted: true,
            max_iterations: None,
            run_end: None,
            is_fetching,
            stop_reason,
            stop_text: None,
            quiet: None,
        };
        Self::from_facts(&facts).status
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
        use TaskStatus as S;
        match reason {
            StopReason::Time => Self::failed(
                S::Failed,
                "The task reached its time limit and was stopped (max_seconds).",
                "Read the result so far; resume_task with a higher max_seconds gives it more.",
            ),
            StopReason::Steps => Self::failed(
                S::Failed,
                "The task reached its limit of steps and was stopped (max_iterations).",
                "Read the result so far; resume_task with a higher max_iterations gives it more.",
            ),
            StopReason::Cost => Self::failed(
                S::Failed,
                "The task reached its cost limit and was stopped (max_cost).",
                "Read the result so far; resume_task with a higher max_cost gives it more.",
            ),
            StopReason::NoRepository => Self::failed(
                S::Failed,
                "The repository or branch could not be fetched, so the agent was not started.",
                "Check context.repository and branch; a private one needs credentials: on the agent \
                 server, or in OPENHANDS_GIT_TOKENS.",
            ),
            StopReason::NoModel => Self::failed(
                S::Failed,
                "The profile of its model cannot be used, so the agent was not started.",
                "Run it again with a model that list_agent_profiles shows.",
            ),
            StopReason::NoSlot => Self::failed(
                S::Failed,
                "All slots for running tasks were taken when it was to start.",
                "Start it with resume_task, or repeat its call with the same idempotency_key, when a task has ended.",
            ),
            StopReason::Cancelled => Self::cancelled(),
        }
    }

    fn cancelled() -> Self {
        let next = "It was stopped. Continue it with send_message or resume_task if needed.";
        Self::new(TaskStatus::Cancelled, next)
    }

    fn new(status: TaskStatus, next: &'static str) -> Self {
        let (error, next) = (None, Some(next));
        Self {
            status,
            error,
            next,
        }
    }

    fn failed(status: TaskStatus, error: impl Into<String>, next: &'static str) -> Self {
        let (error, next) = (Some(error.into()), Some(next));
        Self {
            status,
            error,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Execution as E;

    fn evaluate(execution: E, has_acted: bool, run_end: Option<RunEnd>) -> TaskOutcome {
        TaskOutcome::from_facts(&TaskFacts {
            execution,
            has_acted,
            max_iterations: Some(500),
            run_end,
            is_fetching: false,
            stop_reason: None,
            stop_text: None,
            quiet: Some(Duration::from_secs(60)),
        })
    }

    #[test]
    fn tags_count_only_while_a_task_does_not_run() {
        use TaskStatus as S;
        let time = Some(StopReason::Time);
        for (execution, is_fetching, reason, status) in [
            (E::Idle, true, None, S::Queued),
            (E::Running, true, None, S::Running),
            (E::Paused, false, time, S::Failed),
            (E::Finished, false, time, S::Finished),
            (E::Idle, false, Some(StopReason::NoSlot), S::Failed),
            (E::Idle, false, Some(StopReason::Cancelled), S::Cancelled),
        ] {
            let listed = TaskOutcome::status_in_list(execution, is_fetching, reason);
            assert_eq!(listed, status, "{execution:?} {is_fetching} {reason:?}");
        }
        assert!(!S::Queued.is_settled());
    }

    #[test]
    fn long_silence_of_a_running_task_is_reported() {
        assert_eq!(TaskOutcome::running(Some(QUIET_TIME)).error, None);
        let silent = TaskOutcome::running(Some(Duration::from_secs(1_260)));
        assert_eq!(silent.status, TaskStatus::Running);
        assert!(silent.error.unwrap().contains("21 minutes"));
    }

    #[test]
    fn every_state_has_a_status_and_all_but_finished_a_next_step() {
        use TaskStatus as S;
        let asking = E::WaitingForConfirmation;
        let interrupt = || Some(RunEnd::Interrupt);
        for (execution, has_acted, end, status) in [
            (E::Running, true, None, S::Running),
            // A new conversation is idle at first.
            (E::Idle, false, None, S::Running),
            (E::Idle, true, None, S::Idle),
            (E::Paused, true, None, S::Paused),
            (E::Paused, true, interrupt(), S::Cancelled),
            (asking, true, None, S::WaitingForConfirmation),
            (E::Finished, true, None, S::Finished),
            (E::Stuck, true, None, S::Stuck),
            (E::Error, true, None, S::Failed),
            (E::Deleting, true, None, S::Unknown),
            (E::Unknown, true, None, S::Unknown),
        ] {
            let outcome = evaluate(execution, has_acted, end);
            assert_eq!(outcome.status, status, "{execution:?}");
            assert_eq!(outcome.next.is_none(), status == S::Finished);
        }
        assert!(S::Cancelled.is_settled());
        let state = |text| serde_json::from_str::<E>(text).unwrap();
        assert_eq!(state("\"waiting_for_confirmation\""), asking);
        assert_eq!(state("\"unheard_of\""), E::Unknown);
    }
}
