//! What a task is really doing, judged from what the agent server says. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Execution, RunError};
use crate::excerpt;

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    /// The agent works, or is about to.
    Running,
    /// The agent asks whether it may do something.
    WaitingForConfirmation,
    /// Held by somebody; can go on.
    Paused,
    /// Stopped by `cancel_task` or by its like.
    Cancelled,
    /// The agent says that it is done.
    Finished,
    /// It ended without being done.
    Failed,
    /// The agent went in circles and was stopped.
    Stuck,
    /// The agent stopped without an end and waits for a message.
    Idle,
    /// It cannot be said right now.
    Unknown,
}

/// What is known about a conversation, as far as its status depends on it.
pub(crate) struct Evidence {
    pub(crate) execution: Execution,
    /// The agent has done or said anything.
    pub(crate) worked: bool,
    pub(crate) max_iterations: Option<u32>,
    /// How it came to stand still; only looked up where it does.
    pub(crate) stop: Option<Stop>,
}

/// The event after which a run stood still.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The run broke off.
    Broke(RunError),
    /// The agent server restarted while a step was under way.
    Restart,
    /// Somebody interrupted it.
    Interrupt,
}

/// A status and what the caller should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) status: TaskStatus,
    /// Why it is not done.
    pub(crate) error: Option<String>,
    /// What to do about it.
    pub(crate) next: Option<&'static str>,
}

impl TaskStatus {
    /// Nothing more happens by itself.
    pub(crate) fn is_settled(self) -> bool {
        !matches!(self, Self::Running | Self::Unknown)
    }
}

impl Verdict {
    /// The status that the evidence speaks for.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        use TaskStatus as S;
        match evidence.execution {
            Execution::Running => Self::plain(
                S::Running,
                "Ask get_task_status again in a while, or stop it with cancel_task.",
            ),
            // A new conversation is idle until its first step begins.
            Execution::Idle if !evidence.worked => Self::plain(
                S::Running,
                "It is starting. If it still is in a minute, cancel_task it and run it again.",
            ),
            Execution::Idle => Self::plain(
                S::Idle,
                "The agent stopped and waits for a message: read get_task_result; go on in \
                 OpenHands or run another task.",
            ),
            Execution::Paused => match evidence.stop {
                Some(Stop::Interrupt) => Self::plain(
                    S::Cancelled,
                    "It was stopped; run the task again if needed.",
                ),
                _ => Self::plain(
                    S::Paused,
                    "Somebody paused it: resume it in OpenHands, or run the task again.",
                ),
            },
            Execution::WaitingForConfirmation => Self::plain(
                S::WaitingForConfirmation,
                "The agent asks for permission for last_action: answer in OpenHands, or \
                 cancel_task it.",
            ),
            Execution::Finished => Self {
                status: S::Finished,
                error: None,
                next: None,
            },
            Execution::Stuck => Self::failed(
                S::Stuck,
                "The agent repeated itself without getting on and was stopped.",
                "Read get_task_result, then run the task again with other or clearer words.",
            ),
            Execution::Error => Self::broken(evidence),
            Execution::Deleting => Self::failed(
                S::Unknown,
                "The task is being deleted.",
                "Run it again if it is still needed.",
            ),
            Execution::Unknown => Self::failed(
                S::Unknown,
                "The agent server reports a state that this server does not know.",
                "Look at the task in OpenHands.",
            ),
        }
    }

    /// A task that was started and of which nothing more is known right now.
    pub(crate) fn unseen(reason: &str) -> Self {
        Self {
            status: TaskStatus::Unknown,
            error: Some(reason.to_owned()),
            next: Some(
                "The task was started and may be running: ask get_task_status, do not run it again.",
            ),
        }
    }

    fn plain(status: TaskStatus, next: &'static str) -> Self {
        Self {
            status,
            error: None,
            next: Some(next),
        }
    }

    fn failed(status: TaskStatus, error: impl Into<String>, next: &'static str) -> Self {
        Self {
            status,
            error: Some(error.into()),
            next: Some(next),
        }
    }

    fn broken(evidence: &Evidence) -> Self {
        let (error, next) = match &evidence.stop {
            Some(Stop::Broke(error)) => broke(error, evidence.max_iterations),
            Some(Stop::Restart) => (
                "The agent server restarted while the task was running; the step under way was \
                 lost."
                    .to_owned(),
                "Read get_task_result for what was done, then run what is left as a new task.",
            ),
            // A restart between two steps leaves no event.
            _ => (
                "The run ended without a reason given, most likely because the agent server \
                 restarted."
                    .to_owned(),
                "Read get_task_result for what was done, then run what is left as a new task.",
            ),
        };
        Self::failed(TaskStatus::Failed, error, next)
    }
}

/// The agent server's detail of an error quotes the model provider, so its name and class are
/// all that is used.
fn broke(error: &RunError, max_iterations: Option<u32>) -> (String, &'static str) {
    let name = excerpt::line(&error.code, 60);
    let class = error.classification.as_ref().map(|c| c.kind.as_str());
    match (name.as_str(), class.unwrap_or_default()) {
        ("MaxIterationsReached", _) => {
            let limit = max_iterations.map_or(String::new(), |max| format!(" of {max} steps"));
            (
                format!("The agent reached its limit{limit} before it was done ({name})."),
                "Read get_task_result, then run what is left as a smaller task.",
            )
        }
        ("MaxBudgetReached", _) => (
            format!("The task used up its budget before it was done ({name})."),
            "Raise the budget in OpenHands, or run a smaller task.",
        ),
        (_, "auth") | ("LLMAuthenticationError", _) => (
            format!("The model provider refuses the agent's credentials ({name})."),
            "The operator has to correct the model's key in the OpenHands settings.",
        ),
        (_, "quota") => (
            format!("The account at the model provider is used up ({name})."),
            "The operator has to raise the quota or choose another model in OpenHands.",
        ),
        (_, "rate_limit") => (
            format!("The model provider limits the rate of requests ({name})."),
            "Run the task again in some minutes.",
        ),
        (_, "config") => (
            format!("The agent's model or tools are not set up correctly ({name})."),
            "The operator has to correct the OpenHands settings or the agent profile.",
        ),
        (_, "transient") => (
            format!("The model did not answer, or answered with an error ({name})."),
            "Run the task again; if it fails again, check the model in the OpenHands settings.",
        ),
        _ => (
            format!("The run broke off ({name})."),
            "Run the task again; the agent server's log says more.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Execution as E;

    fn judge(execution: E, worked: bool, stop: Option<Stop>) -> Verdict {
        Verdict::of(&Evidence {
            execution,
            worked,
            max_iterations: Some(500),
            stop,
        })
    }

    fn broke_with(code: &str, class: &str) -> String {
        let error = serde_json::json!({"code": code, "classification": {"kind": class}});
        let error = serde_json::from_value(error).unwrap();
        let verdict = judge(E::Error, true, Some(Stop::Broke(error)));
        assert_eq!(verdict.status, TaskStatus::Failed);
        assert!(verdict.next.is_some());
        verdict.error.unwrap()
    }

    #[test]
    fn idle_at_first_is_not_an_end() {
        assert_eq!(judge(E::Idle, false, None).status, TaskStatus::Running);
        assert_eq!(judge(E::Idle, true, None).status, TaskStatus::Idle);
    }

    #[test]
    fn every_state_has_a_status_and_all_but_done_a_next_step() {
        let cases = [
            (E::Running, TaskStatus::Running),
            (E::Paused, TaskStatus::Paused),
            (
                E::WaitingForConfirmation,
                TaskStatus::WaitingForConfirmation,
            ),
            (E::Finished, TaskStatus::Finished),
            (E::Stuck, TaskStatus::Stuck),
            (E::Error, TaskStatus::Failed),
            (E::Deleting, TaskStatus::Unknown),
            (E::Unknown, TaskStatus::Unknown),
        ];
        for (execution, status) in cases {
            let verdict = judge(execution, true, None);
            assert_eq!(verdict.status, status);
            assert_eq!(verdict.next.is_none(), status == TaskStatus::Finished);
        }
        let state = |text| serde_json::from_str::<E>(text).unwrap();
        assert_eq!(
            state("\"waiting_for_confirmation\""),
            E::WaitingForConfirmation
        );
        assert_eq!(state("\"dreaming\""), E::Unknown);
    }

    #[test]
    fn an_interrupt_is_a_cancellation_and_a_pause_is_none() {
        let verdict = judge(E::Paused, true, Some(Stop::Interrupt));
        assert_eq!(verdict.status, TaskStatus::Cancelled);
        assert!(verdict.status.is_settled());
    }

    #[test]
    fn failures_are_told_apart() {
        assert_eq!(
            broke_with("MaxIterationsReached", "agent_action"),
            "The agent reached its limit of 500 steps before it was done (MaxIterationsReached)."
        );
        assert!(broke_with("LLMServiceUnavailableError", "transient").contains("model did not"));
        assert!(broke_with("LLMAuthenticationError", "").contains("credentials"));
        assert!(broke_with("LLMBadRequestError", "config").contains("set up"));
        assert!(broke_with("KeyError", "internal").contains("broke off (KeyError)"));
        let restart = judge(E::Error, true, Some(Stop::Restart)).error.unwrap();
        assert!(restart.contains("restarted while"));
        assert!(
            judge(E::Error, true, None)
                .error
                .unwrap()
                .contains("without a reason")
        );
    }
}
