//! Executions, as the API returns them.

use mcp_core::tool::ToolError;
use reqwest::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Api, Failure};
use crate::id::Id;

/// n8n's "until somebody resumes it".
const FOREVER: &str = "3000-";

/// An execution: one run of a workflow.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) id: Id,
    pub(crate) status: Status,
    #[serde(default)]
    wait_till: Option<String>,
    /// What its nodes did; only where it was asked for.
    #[serde(default)]
    pub(crate) data: Option<Box<RawValue>>,
    /// `data` was left out for its size.
    #[serde(default)]
    pub(crate) data_too_large_to_display: bool,
}

/// n8n's states of an execution.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    New,
    Running,
    Waiting,
    Success,
    Error,
    Crashed,
    Canceled,
    /// `unknown`, or a state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Which executions a list holds: n8n leaves those that run out unless they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    Running,
    EndedOrWaiting,
}

/// A page of `GET /executions`, newest first, each row as it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Executions {
    pub(crate) data: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

impl Status {
    /// True if nothing will happen any more.
    pub(crate) fn has_ended(self) -> bool {
        !matches!(self, Self::New | Self::Running | Self::Waiting)
    }
}

impl Execution {
    /// True if only somebody's action ends the wait.
    pub(crate) fn waits_for_somebody(&self) -> bool {
        let until = self.wait_till.as_deref().unwrap_or_default();
        self.status == Status::Waiting && until.starts_with(FOREVER)
    }
}

impl Api {
    /// An execution; `None` if n8n does not have it (any more).
    pub(crate) async fn execution(
        &self,
        id: &Id,
        with_data: bool,
    ) -> Result<Option<Execution>, Failure> {
        let query: &[_] = if with_data {
            &[("includeData", "true")]
        } else {
            &[]
        };
        match self.get(&["executions", id.as_str()], query).await {
            Ok(execution) => Ok(Some(execution)),
            // The second is for ids that are not numbers.
            Err(failure) if failure.is_missing() || failure.is_bad_request() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// One page of a workflow's executions, newest first, with their data.
    pub(crate) async fn executions(
        &self,
        workflow: &Id,
        listing: Listing,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Executions, Failure> {
        let limit = limit.to_string();
        let mut query = vec![
            ("workflowId", workflow.as_str()),
            ("includeData", "true"),
            ("limit", &limit),
        ];
        if listing == Listing::Running {
            query.push(("status", "running"));
        }
        if let Some(cursor) = cursor {
            query.push(("cursor", cursor));
        }
        self.get(&["executions"], &query).await
    }

    /// Stops an execution. One that has ended already is as good as stopped.
    pub(crate) async fn stop(&self, id: &Id) -> Result<(), ToolError> {
        let stopped = self
            .send(Method::POST, &["executions", id.as_str(), "stop"], &[])
            .await;
        match stopped {
            Ok(IgnoredAny) => Ok(()),
            Err(failure) if failure.is_conflict() || failure.is_missing() => Ok(()),
            Err(failure) => Err(self.explain(failure)),
        }
    }
}
