//! Findings: the possible problems of a container.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a container is in the state that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// It used more memory than its limit.
    OomKilled,
    /// SIGKILL from outside of it.
    Killed,
    /// It was stopped on request.
    Stopped,
    /// The application ended with an error of its own.
    AppError,
    /// The application crashed with a signal.
    Crashed,
    CommandNotFound,
    NotExecutable,
    PortTaken,
    BindSourceMissing,
    /// A directory where a file is expected, or the reverse.
    MountMismatch,
    MissingLibrary,
    /// The image is for another CPU or system.
    WrongPlatform,
    NetworkMissing,
    /// The container whose network it uses does not run.
    NetworkOwnerGone,
    NameResolution,
    /// Another service refused, or did not answer.
    PeerUnreachable,
    AuthenticationFailed,
    DiskFull,
    HeapExhausted,
    /// Of processes and threads.
    PidsLimit,
    OpenFilesLimit,
    /// Nothing listens on a published port, or only on 127.0.0.1.
    NotListening,
    /// The engine does not answer about this container.
    Stuck,
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

/// The confidence in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    /// The engine itself says so.
    High,
    /// Likely; others are possible.
    Medium,
    Low,
}

/// One possible answer to "what is wrong". The texts may contain output of the container and the
/// engine, so they are redacted before they are returned.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) cause: Cause,
    pub(super) confidence: Confidence,
    /// One sentence.
    pub(super) summary: String,
    /// Facts that support it.
    pub(super) evidence: Vec<String>,
    /// Actions to take, the most promising first.
    pub(super) next_steps: Vec<String>,
}

impl Finding {
    pub(super) fn new(confidence: Confidence, cause: Cause, summary: impl Into<String>) -> Self {
        Self {
            cause,
            confidence,
            summary: summary.into(),
            evidence: Vec::new(),
            next_steps: Vec::new(),
        }
    }

    pub(super) fn high(cause: Cause, summary: impl Into<String>) -> Self {
        Self::new(Confidence::High, cause, summary)
    }

    pub(super) fn medium(cause: Cause, summary: impl Into<String>) -> Self {
        Self::new(Confidence::Medium, cause, summary)
    }

    /// With high confidence if the evidence is `conclusive`, else with medium.
    pub(super) fn high_if(conclusive: bool, cause: Cause, summary: impl Into<String>) -> Self {
        match conclusive {
            true => Self::high(cause, summary),
            false => Self::medium(cause, summary),
        }
    }

    pub(super) fn because(mut self, fact: impl Into<String>) -> Self {
        self.evidence.push(fact.into());
        self
    }

    /// Adds a step before the others.
    pub(super) fn first(mut self, step: impl Into<String>) -> Self {
        self.next_steps.insert(0, step.into());
        self
    }

    pub(super) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_steps.push(step.into());
        self
    }
}
