//! An execution as n8n returns it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::id::Id;

/// The year that n8n writes for "until it is resumed".
const FOREVER: &str = "3000-";

/// One execution of a workflow.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// A number in today's n8n.
    pub id: Id,
    /// Its state.
    pub status: Status,
    /// Absent in answers of some versions.
    pub workflow_id: Option<Id>,
    /// n8n's word for the kind of its trigger.
    pub mode: Option<String>,
    /// RFC 3339, as the other times.
    pub started_at: Option<String>,
    /// Absent before its end.
    pub stopped_at: Option<String>,
    /// The execution that it retries.
    pub retry_of: Option<Id>,
    /// Until when it waits.
    pub wait_till: Option<String>,
    /// The version of the workflow that ran.
    pub workflow_version_id: Option<String>,
    /// The data of its nodes; only if it was requested.
    pub data: Option<Box<RawValue>>,
    /// The workflow as it was.
    pub workflow_data: Option<Box<RawValue>>,
    /// `data` was left out for its size.
    #[serde(default)]
    pub data_too_large_to_display: bool,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not begun.
    New,
    /// Some node runs.
    Running,
    /// Suspended until a time, a request or the answer of a person.
    Waiting,
    /// Ended without an error.
    Success,
    /// Ended by an error.
    Error,
    /// n8n itself was stopped.
    Crashed,
    /// A person or a caller has stopped it.
    Canceled,
    /// `unknown`, or a state that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Status {
    /// True if it does not go on, as far as is known.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::New | Self::Running | Self::Waiting)
    }
}

impl Execution {
    /// True if it waits without a time limit, until a person resumes it.
    pub fn waits_for_person(&self) -> bool {
        let until = self.wait_till.as_deref().unwrap_or_default();
        self.status == Status::Waiting && until.starts_with(FOREVER)
    }
}
