//! Finding the execution that one request has started.
//!
//! n8n tells no execution id in the reply of a trigger. But the trigger node keeps what it received,
//! and with it our unique request id, from the first moment on: the execution that holds it is ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::SetOnce;
use upstream::http::{Fault, HttpFailure};

use crate::api::{Api, Execution, ExecutionFilter};
use crate::id::Id;

/// Executions that are looked at in each listing: (per page, pages). The second try is for
/// workflows whose executions are so large that a page of them is too large to read.
const TRIES: [(u32, usize); 2] = [(20, 50), (1, 200)];
/// The same, where it is not known where the new ones begin.
const BLIND_TRIES: [(u32, usize); 2] = [(20, 5), (1, 20)];

/// The statuses by which lists are asked for, of a run that may be under way and of one that has
/// replied: without a status n8n leaves out those that run.
pub(super) const RUNNING_FIRST: Statuses = [Some("running"), None];
pub(super) const ENDED_FIRST: Statuses = [None, Some("running")];

type Statuses = [Option<&'static str>; 2];

/// Everything that one run is found by, even when its caller has gone.
pub(super) struct Search {
    pub(super) api: Arc<Api>,
    pub(super) workflow: Id,
    pub(super) request_id: String,
    /// The newest execution of the workflow before ours, where that is known: n8n counts upwards.
    pub(super) after: Option<u64>,
    /// Set as soon as the execution is found, or n8n names it.
    pub(super) execution: Arc<SetOnce<Id>>,
    /// The trigger keeps nothing of ours, and n8n was asked to start it: the only new execution is
    /// ours.
    pub(super) is_anonymous: AtomicBool,
}

/// The number of the newest execution, of this workflow or of all; 0 if there is none.
pub(super) async fn newest(api: &Api, workflow: Option<&Id>) -> Result<u64, HttpFailure> {
    let filter = ExecutionFilter {
        workflow: workflow.cloned(),
        limit: 1,
        ..ExecutionFilter::default()
    };
    let page = api.executions::<Execution>(&filter).await?;
    Ok(page
        .data
        .first()
        .and_then(|row| number(&row.id))
        .unwrap_or(0))
}

impl Search {
    pub(super) fn new(
        api: &Arc<Api>,
        workflow: Id,
        request_id: String,
        after: Option<u64>,
    ) -> Self {
        Self {
            api: Arc::clone(api),
            workflow,
            request_id,
            after,
            execution: Arc::default(),
            is_anonymous: AtomicBool::new(false),
        }
    }

    /// The execution that holds the request id, with its data.
    pub(super) async fn find(&self, lists: Statuses) -> Result<Option<Execution>, HttpFailure> {
        for status in lists {
            if let Some(found) = self.find_in(status).await? {
                self.remember(&found.id);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) fn remember(&self, id: &Id) {
        // Known already: it is the same one.
        let _ = self.execution.set(id.clone());
    }

    /// The only execution that has begun since, for triggers that keep nothing of ours.
    pub(super) async fn only_new(&self) -> Option<Id> {
        if !self.is_anonymous.load(Ordering::Relaxed) || self.after.is_none() {
            return None;
        }
        let mut new = Vec::new();
        for status in RUNNING_FIRST {
            let filter = ExecutionFilter {
                workflow: Some(self.workflow.clone()),
                status,
                limit: 2,
                ..ExecutionFilter::default()
            };
            let page = self.api.executions::<Execution>(&filter).await.ok()?;
            let ids = page.data.into_iter().map(|row| row.id);
            new.extend(ids.filter(|id| self.is_after(id)));
        }
        new.dedup();
        let [only] = <[Id; 1]>::try_from(new).ok()?;
        Some(only)
    }

    async fn find_in(
        &self,
        status: Option<&'static str>,
    ) -> Result<Option<Execution>, HttpFailure> {
        let tries = if self.after.is_some() {
            TRIES
        } else {
            BLIND_TRIES
        };
        for (limit, pages) in tries {
            match self.walk(status, limit, pages).await {
                Err(failure) if matches!(failure.fault(), Fault::TooLarge(_)) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    async fn walk(
        &self,
        status: Option<&'static str>,
        limit: u32,
        pages: usize,
    ) -> Result<Option<Execution>, HttpFailure> {
        #[derive(Deserialize)]
        struct Row {
            id: Id,
        }
        let mut filter = ExecutionFilter {
            workflow: Some(self.workflow.clone()),
            status,
            with_data: true,
            limit,
            ..ExecutionFilter::default()
        };
        for _ in 0..pages {
            let page = self.api.executions::<Box<RawValue>>(&filter).await?;
            if let Some(row) = ours(&page.data, &self.request_id) {
                return Ok(serde_json::from_str(row.get()).ok());
            }
            let all_new = page.data.iter().all(|row| {
                let row = serde_json::from_str::<Row>(row.get());
                row.is_ok_and(|row| self.is_after(&row.id))
            });
            filter.cursor = match page.next_cursor {
                Some(next) if all_new => Some(next),
                _ => break,
            };
        }
        Ok(None)
    }

    fn is_after(&self, id: &Id) -> bool {
        match (number(id), self.after) {
            (Some(number), Some(after)) => number > after,
            _ => true,
        }
    }
}

fn number(id: &Id) -> Option<u64> {
    id.as_str().parse().ok()
}

/// The oldest row that holds the id: a younger one that does was started by ours, or repeats it.
fn ours<'a>(newest_first: &'a [Box<RawValue>], request_id: &str) -> Option<&'a RawValue> {
    let mut rows = newest_first.iter().rev();
    rows.find(|row| row.get().contains(request_id))
        .map(|row| &**row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_holds_the_id_is_ours() {
        let row = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let rows = [r#"[4,"b"]"#, r#"[3,"a"]"#, r#"[2,"a"]"#, r#"[1,"c"]"#].map(row);
        assert_eq!(ours(&rows, "a").unwrap().get(), r#"[2,"a"]"#);
        assert!(ours(&rows, "d").is_none());
    }
}
