//! Finds an execution by scanning ids, which are numbers: n8n 1 lists no execution that waits.

use std::time::Duration;

use futures_util::future::join_all;
use n8n_workflow::{Execution, Id};
use serde_json::value::RawValue;
use upstream::http::HttpFailure;
use upstream::time::{Timestamp, before, parse_timestamp};

use super::search::{Search, newest};
use crate::api::N8nFailure as _;
use crate::production_url::REQUEST_ID;

const CONCURRENT_LOOKUPS: u64 = 10;
/// Ids that are scanned above the newest listed one: some of them wait, others were deleted with
/// their workflow.
const MAX_IDS_ABOVE: u64 = 300;
/// Ids that are scanned below it, if n8n is busy.
const MAX_IDS_BELOW: u64 = 400;
/// The largest assumed error of n8n's clock.
const CLOCK_SKEW: Duration = Duration::from_secs(120);

/// The result of a scan.
pub(super) enum ScanResult {
    Found(Box<Execution>),
    /// An execution may be ours: n8n was slow to save its trigger's data, or to answer.
    Unclear,
    Nothing,
}

impl Search {
    /// Scans ids: upwards, where it is known which ids were there before the run, as its own is one of the next;
    /// otherwise downwards, from above the newest to the first execution older than `since`.
    pub(super) async fn scan(&self, since: Timestamp) -> ScanResult {
        let Ok(newest) = newest(&self.api, None).await else {
            return ScanResult::Unclear;
        };
        for after in starts(self.after, self.after_any, newest) {
            match self.scan_after(after, newest, since).await {
                ScanResult::Nothing => {}
                found => return found,
            }
        }
        ScanResult::Nothing
    }

    /// Scans ids above `after`, which were not there before the run.
    async fn scan_after(&self, after: u64, newest: u64, since: Timestamp) -> ScanResult {
        // The list is empty, too, if everything that had ended was deleted.
        let newest = newest.max(after);
        let mut result = ScanResult::Nothing;
        let oldest = before(since, CLOCK_SKEW);
        let highest = newest + MAX_IDS_ABOVE;
        let lowest = newest.saturating_sub(MAX_IDS_BELOW).max(after);
        let chunk = |at: u64| lowest + at * CONCURRENT_LOOKUPS;
        let count = (highest - lowest).div_ceil(CONCURRENT_LOOKUPS);
        for at in 0..count {
            let at = if self.after.is_some() {
                at
            } else {
                count - 1 - at
            };
            let numbers = chunk(at) + 1..=chunk(at + 1).min(highest);
            let seen = join_all(numbers.map(|number| self.look_up(number))).await;
            if seen.iter().any(Result::is_err) {
                result = ScanResult::Unclear;
            }
            let seen: Vec<Execution> = seen.into_iter().flatten().flatten().collect();
            for execution in &seen {
                if execution.workflow_id.as_ref() != Some(&self.workflow) {
                    continue;
                }
                match self.check(&execution.id).await {
                    ScanResult::Nothing => {}
                    ScanResult::Unclear => result = ScanResult::Unclear,
                    found @ ScanResult::Found(_) => return found,
                }
            }
            let is_old = |seen: &Execution| {
                let started = seen.started_at.as_deref().and_then(parse_timestamp);
                started.is_some_and(|started| started < oldest)
            };
            if self.after.is_none() && seen.iter().any(is_old) {
                break;
            }
        }
        result
    }

    /// The execution with this number, without its data.
    async fn look_up(&self, number: u64) -> Result<Option<Execution>, HttpFailure> {
        let id = number.to_string();
        match self.api.get(&["executions", &id], &[]).await {
            Err(failure) if failure.is_missing() => Ok(None),
            seen => seen.map(Some),
        }
    }

    /// Checks whether the execution holds our request id; unclear while it holds none.
    async fn check(&self, id: &Id) -> ScanResult {
        let query = [("includeData", "true")];
        let path = ["executions", id.as_str()];
        let Ok(found) = self.api.get::<Box<RawValue>>(&path, &query).await else {
            return ScanResult::Unclear;
        };
        let Ok(execution) = serde_json::from_str::<Box<Execution>>(found.get()) else {
            return ScanResult::Nothing;
        };
        if found.get().contains(&self.request_id) {
            self.store_id(id);
            ScanResult::Found(execution)
        } else if execution.status.has_ended() || found.get().contains(REQUEST_ID) {
            ScanResult::Nothing
        } else {
            ScanResult::Unclear
        }
    }
}

/// The ids after which to scan: the newest that was seen, of the workflow or of all; and that of the workflow
/// alone if n8n lists no id as high, as it counts from a lower one again after it was reset or restored.
fn starts(after: Option<u64>, after_any: u64, newest: u64) -> impl Iterator<Item = u64> {
    let own = after.unwrap_or(0);
    let again = (newest < after_any && own < after_any).then_some(own);
    std::iter::once(own.max(after_any)).chain(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_ids_are_scanned_after_a_reset() {
        for (after, after_any, newest, expected) in [
            (Some(7), 9, 12, &[9][..]),
            (Some(7), 9, 9, &[9]),
            (None, 0, 0, &[0]),
            (Some(9), 9, 3, &[9]),
            // The run of a restored n8n, whose newest is 3.
            (Some(2), 900, 3, &[900, 2]),
            (None, 900, 3, &[900, 0]),
        ] {
            let found: Vec<u64> = starts(after, after_any, newest).collect();
            assert_eq!(found, expected);
        }
    }
}
