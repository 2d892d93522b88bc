//! What can be wrong with a container.

use schemars::JsonSchema;
use serde::Serialize;

/// Why a container is in the state that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// It used more memory than its limit.
    OomKilled,
    /// SIGKILL from outside of it.
    Killed,
    /// A stop that somebody asked for.
    Stopped,
    /// The application ended with an error of its own.
    AppError,
    /// The application died of a signal of its own doing.
    Crashed,
    CommandNotFound,
    NotExecutable,
    PortTaken,
    BindSourceMissing,
    /// It ends and is restarted, again and again.
    CrashLoop,
    Unhealthy,
    /// Its log cannot be read.
    NoLogs,
    /// It could not be started for another reason.
    StartFailed,
    NeverStarted,
    /// It did its work and ended.
    Finished,
    Paused,
    /// Nothing is wrong.
    Running,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    /// The engine itself says so.
    High,
    /// The facts fit, and others could too.
    Medium,
    Low,
}

/// One answer to "what is wrong". All texts may hold what the container and the engine said, so
/// they are redacted before they go out.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) cause: Cause,
    pub(super) confidence: Confidence,
    /// One sentence.
    pub(super) summary: String,
    /// Facts that speak for it.
    pub(super) evidence: Vec<String>,
    /// What to do, the most promising first.
    pub(super) next_steps: Vec<String>,
}

impl Finding {
    pub(super) fn new(cause: Cause, confidence: Confidence, summary: impl Into<String>) -> Self {
        Self {
            cause,
            confidence,
            summary: summary.into(),
            evidence: Vec::new(),
            next_steps: Vec::new(),
        }
    }

    pub(super) fn because(mut self, fact: impl Into<String>) -> Self {
        self.evidence.push(fact.into());
        self
    }

    pub(super) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_steps.push(step.into());
        self
    }
}
