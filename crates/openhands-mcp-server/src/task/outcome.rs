//! The status of a task, judged from what the agent server says. Pure.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::run_end::{RunEnd, explain};
use crate::api::{Execution, Sandbox};
use crate::tags::{StopReason, WaitsFor};

/// Time without any event after which a running task is suspect: no call to a model takes as
/// long, but a command may.
const QUIET_TIME: Duration = Duration::from_secs(600);

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    /// It waits for its turn and begins by itself.
    Queued,
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
    pub(crate) run_end: Option<RunEnd>,
    /// What it waits for before it begins.
    pub(crate) waits_for: Option<WaitsFor>,
    /// Why we stopped it.
    pub(crate) stop_reason: Option<StopReason>,
    /// Time since anything happened, where that can be said.
    pub(crate) quiet: Option<Duration>,
}

/// A status and what the caller should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskOutcome {
    pub(crate) status: TaskStatus,
    /// Why it is not done.
    pub(crate) error: Option<String>,
    /// What to do about it.
    pub(crate) next: Option<&'static str>,
}

impl TaskStatus {
    /// Nothing more happens by itself.
    pub(crate) fn is_settled(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Unknown)
    }
}

impl TaskOutcome {
    /// The status that the evidence speaks for.
    pub(crate) fn from_evidence(evidence: &Evidence) -> Self {
        use TaskStatus as S;
        match evidence.execution {
            execution if execution.is_still() && evidence.waits_for.is_some() => Self::plain(
                S::Queued,
                match evidence.waits_for {
                    Some(WaitsFor::Repository(_)) => {
                        "Its repository is being fetched; it begins by itself. Ask wait_task."
                    }
                    _ => {
                        "All places for running tasks are taken; it begins by itself when one is \
                         free. Ask wait_task, or cancel_task it."
                    }
                },
            ),
            Execution::Idle | Execution::Paused if evidence.stop_reason.is_some() => {
                Self::from_stop_reason(evidence.stop_reason)
            }
            Execution::Running => Self::running(evidence.quiet),
            // A new conversation is idle until its first step begins.
            Execution::Idle if !evidence.worked => Self::plain(
                S::Running,
                "It is starting. If it still is in a minute, cancel_task it and run it again.",
            ),
            Execution::Idle => Self::plain(
                S::Idle,
                "The agent stopped and waits: read the result, then tell it more with send_message \
                 or let it go on with resume_task.",
            ),
            Execution::Paused => match evidence.run_end {
                Some(RunEnd::Interrupt) => Self::plain(
                    S::Cancelled,
                    "It was stopped. Go on with send_message or resume_task if needed.",
                ),
                _ => Self::plain(
                    S::Paused,
                    "It is paused: resume_task or send_message lets it go on.",
                ),
            },
            Execution::WaitingForConfirmation => Self::plain(
                S::WaitingForConfirmation,
                "The agent asks for permission for last_action: answer with \
                 respond_confirmation, or cancel_task it.",
            ),
            Execution::Finished => Self {
                status: S::Finished,
                error: None,
                next: None,
            },
            Execution::Stuck => Self::failed(
                S::Stuck,
                "The agent repeated itself without getting on and was stopped.",
                "Read get_task_result, then say it in other or clearer words with send_message.",
            ),
            Execution::Error => {
                let (error, next) = explain(evidence.run_end.as_ref(), evidence.max_iterations);
                Self::failed(S::Failed, error, next)
            }
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
    pub(crate) fn unreadable(reason: &str) -> Self {
        Self {
            status: TaskStatus::Unknown,
            error: Some(reason.to_owned()),
            next: Some(
                "The task was started and may be running: ask get_task_status, do not run it again.",
            ),
        }
    }

    /// The outcome of a task whose sandbox does not run.
    pub(crate) fn from_sandbox(sandbox: Sandbox) -> Self {
        use TaskStatus as S;
        let (status, error, next) = match sandbox {
            Sandbox::Starting => (
                S::Queued,
                None,
                "Its sandbox is being started; it begins by itself. Ask wait_task.",
            ),
            Sandbox::Paused => (
                S::Paused,
                None,
                "Its sandbox is paused: resume_task or send_message wakes it.",
            ),
            Sandbox::Broken => (
                S::Failed,
                Some("Its sandbox is broken, so nothing more can be said of it."),
                "Look at the sandbox in OpenHands, or run the task again.",
            ),
            Sandbox::Gone => (
                S::Failed,
                Some("Its sandbox has been removed, and with it all that it did there."),
                "Run it again if it is still needed.",
            ),
            Sandbox::NotStarted => (
                S::Failed,
                Some("OpenHands could not start its sandbox or its agent."),
                "Check the model and the git credentials in OpenHands' settings; its log says \
                 more. Then run it again.",
            ),
        };
        Self {
            status,
            error: error.map(str::to_owned),
            next: Some(next),
        }
    }

    /// The status as far as a list tells it, which does not say how a run ended.
    pub(crate) fn status_in_list(
        execution: Execution,
        waits_for: Option<WaitsFor>,
        stop_reason: Option<StopReason>,
    ) -> TaskStatus {
        Self::from_evidence(&Evidence {
            execution,
            worked: true,
            max_iterations: None,
            run_end: None,
            waits_for,
            stop_reason,
            quiet: None,
        })
        .status
    }

    fn running(quiet: Option<Duration>) -> Self {
        match quiet.filter(|quiet| *quiet > QUIET_TIME) {
            Some(quiet) => Self::failed(
                TaskStatus::Running,
                format!(
                    "Nothing has happened for {} minutes: its command takes long, its model does \
                     not answer, or the task is wedged.",
                    quiet.as_secs() / 60
                ),
                "If last_action does not take this long, cancel_task it, then resume_task or run \
                 it again.",
            ),
            None => Self::plain(
                TaskStatus::Running,
                "Ask wait_task or get_task_status for its end, or stop it with cancel_task.",
            ),
        }
    }

    fn from_stop_reason(reason: Option<StopReason>) -> Self {
        use TaskStatus as S;
        match reason {
            Some(StopReason::Time) => Self::failed(
                S::Failed,
                "The task used up its time and was stopped (max_seconds).",
                "Read the result so far; resume_task gives it the same time again.",
            ),
            Some(StopReason::Cost) => Self::failed(
                S::Failed,
                "The task used up its money and was stopped (max_cost).",
                "Read the result so far, then run what is left as a new task.",
            ),
            Some(StopReason::NoRepository) => Self::failed(
                S::Failed,
                "The repository or branch could not be fetched, so the agent was not started.",
                "Check context.repository and branch; a private one needs credentials on the \
                 agent server.",
            ),
            Some(StopReason::Cancelled) | None => Self::plain(
                S::Cancelled,
                "It was stopped. Go on with send_message or resume_task if needed.",
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Execution as E;

    fn judge(execution: E, worked: bool, run_end: Option<RunEnd>) -> TaskOutcome {
        TaskOutcome::from_evidence(&Evidence {
            execution,
            worked,
            max_iterations: Some(500),
            run_end,
            waits_for: None,
            stop_reason: None,
            quiet: Some(Duration::from_secs(60)),
        })
    }

    #[test]
    fn tags_decide_only_while_a_task_stands_still() {
        use TaskStatus as S;
        let slot = Some(WaitsFor::Slot);
        let time = Some(StopReason::Time);
        for (execution, waits_for, reason, status) in [
            (E::Idle, slot, None, S::Queued),
            (E::Paused, slot, None, S::Queued),
            (E::Running, slot, None, S::Running),
            (E::Error, slot, None, S::Queued),
            (
                E::WaitingForConfirmation,
                slot,
                None,
                S::WaitingForConfirmation,
            ),
            (E::Paused, None, time, S::Failed),
            (E::Finished, None, time, S::Finished),
            (E::Idle, None, Some(StopReason::Cancelled), S::Cancelled),
        ] {
            let listed = TaskOutcome::status_in_list(execution, waits_for, reason);
            assert_eq!(listed, status, "{execution:?} {waits_for:?} {reason:?}");
        }
        assert!(!S::Queued.is_settled());
    }

    #[test]
    fn a_task_without_a_sign_of_life_is_named() {
        assert_eq!(TaskOutcome::running(Some(QUIET_TIME)).error, None);
        let wedged = TaskOutcome::running(Some(Duration::from_secs(1_260)));
        assert_eq!(wedged.status, TaskStatus::Running);
        assert!(wedged.error.unwrap().contains("21 minutes"));
    }

    #[test]
    fn every_state_has_a_status_and_all_but_done_a_next_step() {
        use TaskStatus as S;
        let interrupt = || Some(RunEnd::Interrupt);
        for (execution, worked, end, status) in [
            (E::Running, true, None, S::Running),
            // Idle at first is not an end.
            (E::Idle, false, None, S::Running),
            (E::Idle, true, None, S::Idle),
            (E::Paused, true, None, S::Paused),
            (E::Paused, true, interrupt(), S::Cancelled),
            (
                E::WaitingForConfirmation,
                true,
                None,
                S::WaitingForConfirmation,
            ),
            (E::Finished, true, None, S::Finished),
            (E::Stuck, true, None, S::Stuck),
            (E::Error, true, None, S::Failed),
            (E::Deleting, true, None, S::Unknown),
            (E::Unknown, true, None, S::Unknown),
        ] {
            let outcome = judge(execution, worked, end);
            assert_eq!(outcome.status, status, "{execution:?}");
            assert_eq!(outcome.next.is_none(), status == S::Finished);
        }
        assert!(S::Cancelled.is_settled());
        let state = |text| serde_json::from_str::<E>(text).unwrap();
        assert_eq!(
            state("\"waiting_for_confirmation\""),
            E::WaitingForConfirmation
        );
        assert_eq!(state("\"dreaming\""), E::Unknown);
    }
}
