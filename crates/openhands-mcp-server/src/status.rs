//! What a task is really doing, judged from what the agent server says. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Execution;
use crate::notes::{Stopped, Waits};
use crate::stop::{self, Stop};

/// Seconds without any event after which a running task is suspect: no call to a model takes as
/// long, but a command may.
const QUIET: u64 = 600;

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
    pub(crate) stop: Option<Stop>,
    /// What it waits for before it begins.
    pub(crate) waits: Option<Waits>,
    /// Why we stopped it.
    pub(crate) stopped: Option<Stopped>,
    /// Seconds since anything happened, where that can be said.
    pub(crate) quiet: Option<u64>,
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
        !matches!(self, Self::Queued | Self::Running | Self::Unknown)
    }
}

impl Verdict {
    /// The status that the evidence speaks for.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        use TaskStatus as S;
        match evidence.execution {
            execution if execution.is_still() && evidence.waits.is_some() => Self::plain(
                S::Queued,
                match evidence.waits {
                    Some(Waits::ForRepository(_)) => {
                        "Its repository is being fetched; it begins by itself. Ask wait_task."
                    }
                    _ => {
                        "All places for running tasks are taken; it begins by itself when one is \
                         free. Ask wait_task, or cancel_task it."
                    }
                },
            ),
            Execution::Idle | Execution::Paused if evidence.stopped.is_some() => {
                Self::stopped(evidence)
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
            Execution::Paused => match evidence.stop {
                Some(Stop::Interrupt) => Self::plain(
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
                let (error, next) = stop::explain(evidence.stop.as_ref(), evidence.max_iterations);
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
    pub(crate) fn unseen(reason: &str) -> Self {
        Self {
            status: TaskStatus::Unknown,
            error: Some(reason.to_owned()),
            next: Some(
                "The task was started and may be running: ask get_task_status, do not run it again.",
            ),
        }
    }

    /// What is known from a list, which does not say how a task came to stand still.
    pub(crate) fn listed(
        execution: Execution,
        waits: Option<Waits>,
        stopped: Option<Stopped>,
    ) -> TaskStatus {
        Self::of(&Evidence {
            execution,
            worked: true,
            max_iterations: None,
            stop: None,
            waits,
            stopped,
            quiet: None,
        })
        .status
    }

    fn running(quiet: Option<u64>) -> Self {
        match quiet.filter(|quiet| *quiet > QUIET) {
            Some(quiet) => Self::failed(
                TaskStatus::Running,
                format!(
                    "Nothing has happened for {} minutes: its command takes long, its model does \
                     not answer, or the task is wedged.",
                    quiet / 60
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

    fn stopped(evidence: &Evidence) -> Self {
        use TaskStatus as S;
        match evidence.stopped {
            Some(Stopped::Time) => Self::failed(
                S::Failed,
                "The task used up its time and was stopped (max_seconds).",
                "Read the result so far; resume_task gives it the same time again.",
            ),
            Some(Stopped::Cost) => Self::failed(
                S::Failed,
                "The task used up its money and was stopped (max_cost).",
                "Read the result so far, then run what is left as a new task.",
            ),
            Some(Stopped::NoRepository) => Self::failed(
                S::Failed,
                "The repository or branch could not be fetched, so the agent was not started.",
                "Check context.repository and branch; a private one needs credentials on the \
                 agent server.",
            ),
            Some(Stopped::Cancelled) | None => Self::plain(
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

    fn judge(execution: E, worked: bool, stop: Option<Stop>) -> Verdict {
        Verdict::of(&Evidence {
            execution,
            worked,
            max_iterations: Some(500),
            stop,
            waits: None,
            stopped: None,
            quiet: Some(60),
        })
    }

    fn noted(execution: E, waits: Option<Waits>, stopped: Option<Stopped>) -> TaskStatus {
        Verdict::listed(execution, waits, stopped)
    }

    #[test]
    fn what_we_noted_decides_only_while_it_stands_still() {
        let room = Some(Waits::ForRoom);
        assert_eq!(noted(E::Idle, room, None), TaskStatus::Queued);
        assert_eq!(noted(E::Paused, room, None), TaskStatus::Queued);
        assert_eq!(noted(E::Running, room, None), TaskStatus::Running);
        assert_eq!(noted(E::Error, room, None), TaskStatus::Queued);
        let asks = noted(E::WaitingForConfirmation, room, None);
        assert_eq!(asks, TaskStatus::WaitingForConfirmation);
        let time = Some(Stopped::Time);
        assert_eq!(noted(E::Paused, None, time), TaskStatus::Failed);
        assert_eq!(noted(E::Finished, None, time), TaskStatus::Finished);
        let cancelled = Some(Stopped::Cancelled);
        assert_eq!(noted(E::Idle, None, cancelled), TaskStatus::Cancelled);
        assert!(!TaskStatus::Queued.is_settled());
    }

    #[test]
    fn a_task_without_a_sign_of_life_is_named() {
        assert_eq!(Verdict::running(Some(599)).error, None);
        let wedged = Verdict::running(Some(1_260));
        assert_eq!(wedged.status, TaskStatus::Running);
        assert!(wedged.error.unwrap().contains("21 minutes"));
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
}
