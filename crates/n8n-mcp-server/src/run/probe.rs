//! The execution that no list has: n8n 1 lists none that waits. It is looked for by its number.

use std::time::SystemTime;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::find::{Row, Search};
use super::hooks::REQUEST_ID;
use crate::api::{Execution, Failure};
use crate::id::Id;
use crate::time::rfc3339;

/// Numbers that are asked for at the same time, and how far above the newest that is listed: of those
/// between, some wait and others went with their workflows.
const AT_ONCE: u64 = 10;
const ABOVE: u64 = 300;
/// How far below it, on an n8n that is busy.
const BELOW: u64 = 400;
/// n8n's clock may be off by so many seconds.
const SKEW: u64 = 120;

/// An execution without its data.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    id: Id,
    #[serde(default)]
    workflow_id: Option<Id>,
    #[serde(default)]
    started_at: Option<String>,
}

/// What is there under the numbers.
pub(super) enum Probed {
    Found(Box<Execution>),
    /// There is one that may be ours: n8n is slow to save what its trigger has received, or to
    /// answer.
    Unclear,
    Nothing,
}

impl Search<'_> {
    /// Looks by number, from the newest downwards, for one that has begun since `begun`.
    pub(super) async fn probe(&self, begun: SystemTime) -> Probed {
        #[derive(Deserialize)]
        struct Page {
            data: Vec<Row>,
        }
        let after = self.after.unwrap_or(0);
        let query = [("limit", "1")];
        let page: Result<Page, Failure> = self.api.get(&["executions"], &query).await;
        let Ok(page) = page else {
            return Probed::Unclear;
        };
        let mut probed = Probed::Nothing;
        let newest = page.data.first().and_then(Row::number).unwrap_or(0);
        let newest = newest.max(after);
        let too_old = rfc3339(begun, SKEW);
        let mut above = newest + ABOVE;
        let lowest = newest.saturating_sub(BELOW).max(after);
        while above > lowest {
            let below = above.saturating_sub(AT_ONCE).max(lowest);
            let seen = join_all((below + 1..=above).map(|number| self.look_at(number))).await;
            if seen.iter().any(Result::is_err) {
                probed = Probed::Unclear;
            }
            let seen: Vec<Seen> = seen.into_iter().flatten().flatten().collect();
            for ours in seen
                .iter()
                .filter(|seen| seen.workflow_id.as_ref() == Some(self.workflow))
            {
                match self.read(&ours.id).await {
                    Probed::Found(found) => return Probed::Found(found),
                    Probed::Unclear => probed = Probed::Unclear,
                    Probed::Nothing => {}
                }
            }
            let is_old = |seen: &Seen| {
                let started = seen.started_at.as_deref();
                started.is_some_and(|started| started < too_old.as_str())
            };
            if seen.iter().any(is_old) {
                break;
            }
            above = below;
        }
        probed
    }

    /// `None`: there is none of this number.
    async fn look_at(&self, number: u64) -> Result<Option<Seen>, Failure> {
        let id = number.to_string();
        match self.api.get(&["executions", &id], &[]).await {
            Err(failure) if failure.is_missing() => Ok(None),
            seen => seen.map(Some),
        }
    }

    /// The execution with its data, if it holds our id; unclear while it holds nobody's.
    async fn read(&self, id: &Id) -> Probed {
        let query = [("includeData", "true")];
        let found: Result<Box<RawValue>, Failure> =
            self.api.get(&["executions", id.as_str()], &query).await;
        let Ok(found) = found else {
            return Probed::Unclear;
        };
        let Ok(execution) = serde_json::from_str::<Box<Execution>>(found.get()) else {
            return Probed::Nothing;
        };
        if found.get().contains(self.request_id) {
            Probed::Found(execution)
        } else if execution.status.has_ended() || found.get().contains(REQUEST_ID) {
            Probed::Nothing
        } else {
            Probed::Unclear
        }
    }
}
