//! Finding the execution that no list has: n8n 1 lists none that waits. It is looked for by its
//! number.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::value::RawValue;
use upstream::http::HttpFailure;
use upstream::time::{Timestamp, before, parse_timestamp};

use super::search::{Search, newest};
use crate::api::{Execution, N8nFailure as _};
use crate::id::Id;
use crate::production_url::REQUEST_ID;

/// Numbers that are asked for at the same time.
const CONCURRENT_LOOKUPS: u64 = 10;
/// How far above the newest that is listed: of those between, some wait and others went with their
/// workflows.
const MAX_ABOVE: u64 = 300;
/// How far below it, on an n8n that is busy.
const MAX_BELOW: u64 = 400;
/// How far n8n's clock may be off.
const CLOCK_SKEW: Duration = Duration::from_secs(120);

/// The finding under the numbers.
pub(super) enum Scanned {
    Found(Box<Execution>),
    /// There is one that may be ours: n8n is slow to save what its trigger has received, or to
    /// answer.
    Unclear,
    Nothing,
}

impl Search {
    /// Looks by number, from the newest downwards, for one that has begun since `begun`.
    pub(super) async fn scan(&self, begun: Timestamp) -> Scanned {
        let after = self.after.unwrap_or(0);
        let Ok(newest) = newest(&self.api, None).await else {
            return Scanned::Unclear;
        };
        let newest = newest.max(after);
        let mut scanned = Scanned::Nothing;
        let too_old = before(begun, CLOCK_SKEW);
        let mut above = newest + MAX_ABOVE;
        let lowest = newest.saturating_sub(MAX_BELOW).max(after);
        while above > lowest {
            let below = above.saturating_sub(CONCURRENT_LOOKUPS).max(lowest);
            let seen = join_all((below + 1..=above).map(|number| self.look_up(number))).await;
            if seen.iter().any(Result::is_err) {
                scanned = Scanned::Unclear;
            }
            let seen: Vec<Execution> = seen.into_iter().flatten().flatten().collect();
            for ours in seen
                .iter()
                .filter(|seen| seen.workflow_id.as_ref() == Some(&self.workflow))
            {
                match self.read(&ours.id).await {
                    Scanned::Nothing => {}
                    Scanned::Unclear => scanned = Scanned::Unclear,
                    found @ Scanned::Found(_) => return found,
                }
            }
            let is_old = |seen: &Execution| {
                let started = seen.started_at.as_deref().and_then(parse_timestamp);
                started.is_some_and(|started| started < too_old)
            };
            if seen.iter().any(is_old) {
                break;
            }
            above = below;
        }
        scanned
    }

    /// The execution of this number without its data; `None` if there is none.
    async fn look_up(&self, number: u64) -> Result<Option<Execution>, HttpFailure> {
        let id = number.to_string();
        match self.api.get(&["executions", &id], &[]).await {
            Err(failure) if failure.is_missing() => Ok(None),
            seen => seen.map(Some),
        }
    }

    /// The execution with its data, if it holds our id; unclear while it holds nobody's.
    async fn read(&self, id: &Id) -> Scanned {
        let query = [("includeData", "true")];
        let found: Result<Box<RawValue>, HttpFailure> =
            self.api.get(&["executions", id.as_str()], &query).await;
        let Ok(found) = found else {
            return Scanned::Unclear;
        };
        let Ok(execution) = serde_json::from_str::<Box<Execution>>(found.get()) else {
            return Scanned::Nothing;
        };
        if found.get().contains(&self.request_id) {
            self.remember(id);
            Scanned::Found(execution)
        } else if execution.status.has_ended() || found.get().contains(REQUEST_ID) {
            Scanned::Nothing
        } else {
            Scanned::Unclear
        }
    }
}
