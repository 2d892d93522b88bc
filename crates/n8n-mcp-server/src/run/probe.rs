//! The execution that no list has: n8n 1 lists none that waits. It is looked for by its number.

use std::time::SystemTime;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::find::{Row, Search};
use crate::api::{Execution, Failure};
use crate::id::Id;
use crate::time::rfc3339;

/// Numbers that are asked for at the same time, and how far above the newest that is listed.
const AT_ONCE: u64 = 10;
const ABOVE: u64 = 50;
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

impl Search<'_> {
    /// Looks by number, from the newest downwards, for one that has begun since `begun`.
    pub(super) async fn probe(&self, begun: SystemTime) -> Option<Execution> {
        #[derive(Deserialize)]
        struct Page {
            data: Vec<Row>,
        }
        let after = self.after?;
        let query = [("limit", "1")];
        let page: Page = self.api.get(&["executions"], &query).await.ok()?;
        let newest = page.data.first().and_then(Row::number).unwrap_or(0);
        let newest = newest.max(after);
        let too_old = rfc3339(begun, SKEW);
        let mut above = newest + ABOVE;
        let lowest = newest.saturating_sub(BELOW).max(after);
        while above > lowest {
            let below = above.saturating_sub(AT_ONCE).max(lowest);
            let seen = join_all((below + 1..=above).map(|number| self.look_at(number))).await;
            let seen: Vec<Seen> = seen.into_iter().flatten().collect();
            for ours in seen
                .iter()
                .filter(|seen| seen.workflow_id.as_ref() == Some(self.workflow))
            {
                if let Some(found) = self.read(&ours.id).await {
                    return Some(found);
                }
            }
            let is_old = |seen: &Seen| {
                let started = seen.started_at.as_deref();
                started.is_some_and(|started| started < too_old.as_str())
            };
            if seen.iter().any(is_old) {
                return None;
            }
            above = below;
        }
        None
    }

    async fn look_at(&self, number: u64) -> Option<Seen> {
        let id = number.to_string();
        self.api.get(&["executions", &id], &[]).await.ok()
    }

    /// The execution with its data, if it holds our id.
    async fn read(&self, id: &Id) -> Option<Execution> {
        let query = [("includeData", "true")];
        let found: Result<Box<RawValue>, Failure> =
            self.api.get(&["executions", id.as_str()], &query).await;
        let found = found.ok()?;
        let is_ours = found.get().contains(self.request_id);
        is_ours.then(|| serde_json::from_str(found.get()).ok())?
    }
}
