//! Finds the execution that one request has started.
//!
//! The reply of a trigger does not hold the execution's id. But the trigger node saves what it
//! received, and with it our unique request id, from its first moment on: the execution that holds
//! this id is ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use n8n_workflow::{Execution, Id};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::SetOnce;
use tokio::time::Instant;

use crate::api::{Api, ExecutionFilter, SharedFailure};
use crate::production_url::REQUEST_ID;
use crate::service::N8n;

/// Page size and most pages of each list; a tenth of the pages if the newest execution before the
/// run is unknown. The second pair is for executions so large that a page of 20 cannot be read.
const LIST_LIMITS: [(u32, usize); 2] = [(20, 50), (1, 200)];

/// Running executions of one workflow that are listed to see whether one of them still runs.
const MAX_RUNNING: u32 = 100;

/// The order of lists for a run that may be in flight, and for one that has replied: without a
/// status n8n lists no running executions.
pub(super) const RUNNING_FIRST: [Status; 2] = [Some("running"), None];
pub(super) const ENDED_FIRST: [Status; 2] = [None, Some("running")];

/// n8n's name of a status.
type Status = Option<&'static str>;

/// The data to find a run by, also after its client has disconnected.
pub(super) struct Search {
    pub(super) api: Arc<Api>,
    pub(super) workflow: Id,
    pub(super) request_id: String,
    /// The number of the workflow's newest execution before ours, if known; n8n counts upwards.
    pub(super) after: Option<u64>,
    /// The highest number of all that this server had seen before ours.
    pub(super) after_any: u64,
    /// Set as soon as the execution is found, or n8n returns its id.
    pub(super) execution: Arc<SetOnce<Id>>,
    /// The execution does not hold the request id, and n8n was asked to start it: the only new
    /// execution is ours.
    pub(super) keeps_no_request_id: AtomicBool,
}

/// The number of the newest execution, of this workflow or of all; 0 if none exists.
pub(super) async fn newest(api: &Api, workflow: Option<&Id>) -> Result<u64, SharedFailure> {
    let filter = ExecutionFilter::newest(workflow, None, 1);
    let page = api.shared_executions(&filter, Instant::now()).await?;
    let newest = page.data.first().and_then(|row| number(&row_id(row)?));
    let newest = newest.unwrap_or(0);
    api.saw_execution(newest);
    Ok(newest)
}

impl Search {
    /// For a run of the workflow of which nothing else is known.
    pub(super) fn new(n8n: &N8n, workflow: Id) -> Self {
        Self {
            api: Arc::clone(&n8n.api),
            workflow,
            request_id: String::new(),
            after: None,
            after_any: 0,
            execution: Arc::default(),
            keeps_no_request_id: AtomicBool::new(false),
        }
    }

    /// The execution that holds the request id, with its data.
    pub(super) async fn find(
        &self,
        statuses: &[Status],
    ) -> Result<Option<Execution>, SharedFailure> {
        let since = Instant::now();
        for &status in statuses {
            if let Some(found) = self.find_in_list(status, since).await? {
                self.store_id(&found.id);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) fn store_id(&self, id: &Id) {
        // If an id was stored before, it is the same one.
        let _ = self.execution.set(id.clone());
        self.api.saw_execution(number(id).unwrap_or(0));
    }

    /// True if n8n lists the execution among the running ones; false if it has ended, waits, or has
    /// more than a page of younger ones.
    pub(super) async fn is_running(&self, id: &Id) -> bool {
        let filter = ExecutionFilter::newest(Some(&self.workflow), Some("running"), MAX_RUNNING);
        let page = self.api.shared_executions(&filter, Instant::now()).await;
        page.is_ok_and(|page| page.data.iter().any(|row| row_id(row).as_ref() == Some(id)))
    }

    /// The only execution since the start, for triggers that do not save the request id.
    pub(super) async fn only_new_execution(&self) -> Option<Id> {
        if !self.keeps_no_request_id.load(Ordering::Relaxed) || self.after.is_none() {
            return None;
        }
        let mut new = Vec::new();
        for status in RUNNING_FIRST {
            let filter = ExecutionFilter::newest(Some(&self.workflow), status, 2);
            let page = self.api.executions::<Execution>(&filter).await.ok()?;
            let ids = page.data.into_iter().map(|row| row.id);
            new.extend(ids.filter(|id| self.is_after(id)));
        }
        new.dedup();
        let [only] = <[Id; 1]>::try_from(new).ok()?;
        self.store_id(&only);
        Some(only)
    }

    /// True if an execution that has just begun may be ours: a busy n8n saves its trigger's data late.
    pub(super) async fn may_come(&self) -> bool {
        let filter = ExecutionFilter {
            with_data: true,
            ..ExecutionFilter::newest(Some(&self.workflow), Some("running"), LIST_LIMITS[0].0)
        };
        let Ok(page) = self.api.executions::<Box<RawValue>>(&filter).await else {
            return true;
        };
        let is_unclear = |row: &RawValue| {
            let execution = serde_json::from_str::<Execution>(row.get());
            !row.get().contains(REQUEST_ID)
                && execution.is_ok_and(|execution| self.is_after(&execution.id))
        };
        page.data.iter().any(|row| is_unclear(row))
    }

    /// The only new execution that failed with this message before its trigger had saved the request,
    /// such as one of a workflow without the node that responds.
    pub(super) async fn find_refused(&self, message: &str) -> Option<Execution> {
        self.after?;
        let filter = ExecutionFilter {
            with_data: true,
            ..ExecutionFilter::newest(Some(&self.workflow), Some("error"), LIST_LIMITS[0].0)
        };
        let page = self.api.executions::<Box<RawValue>>(&filter).await.ok()?;
        let message = serde_json::to_string(message).ok()?;
        let is_it =
            |row: &RawValue| !row.get().contains(REQUEST_ID) && row.get().contains(&message);
        let rows = page.data.iter().filter(|row| is_it(row));
        let rows = rows.filter_map(|row| serde_json::from_str::<Execution>(row.get()).ok());
        let new: Vec<_> = rows.filter(|row| self.is_after(&row.id)).collect();
        let [only] = <[Execution; 1]>::try_from(new).ok()?;
        self.store_id(&only.id);
        Some(only)
    }

    async fn find_in_list(
        &self,
        status: Status,
        since: Instant,
    ) -> Result<Option<Execution>, SharedFailure> {
        let divisor = if self.after.is_some() { 1 } else { 10 };
        for (limit, pages) in LIST_LIMITS {
            match self
                .find_in_pages(status, limit, pages / divisor, since)
                .await
            {
                Err(failure) if failure.is_too_large => {}
                found => return found,
            }
        }
        Ok(None)
    }

    async fn find_in_pages(
        &self,
        status: Status,
        limit: u32,
        pages: usize,
        since: Instant,
    ) -> Result<Option<Execution>, SharedFailure> {
        let mut filter = ExecutionFilter {
            with_data: true,
            ..ExecutionFilter::newest(Some(&self.workflow), status, limit)
        };
        for _ in 0..pages {
            let page = self.api.shared_executions(&filter, since).await?;
            if let Some(row) = oldest_match(&page.data, &self.request_id) {
                return Ok(serde_json::from_str(row.get()).ok());
            }
            let mut ids = page.data.iter().map(|row| row_id(row));
            let all_new = ids.all(|id| id.is_some_and(|id| self.is_after(&id)));
            filter.cursor = match &page.next_cursor {
                Some(next) if all_new => Some(next.clone()),
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

/// The id of a row of a list.
fn row_id(row: &RawValue) -> Option<Id> {
    #[derive(Deserialize)]
    struct Row {
        id: Id,
    }
    serde_json::from_str::<Row>(row.get())
        .ok()
        .map(|row| row.id)
}

fn number(id: &Id) -> Option<u64> {
    id.as_str().parse().ok()
}

/// The oldest row that holds the id: a younger one was started by ours, or retries it.
fn oldest_match<'a>(newest_first: &'a [Box<RawValue>], request_id: &str) -> Option<&'a RawValue> {
    let mut rows = newest_first.iter().rev();
    let found = rows.find(|row| row.get().contains(request_id));
    found.map(|row| &**row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_execution_with_the_id_is_ours() {
        let row = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let rows = [r#"[4,"b"]"#, r#"[3,"a"]"#, r#"[2,"a"]"#, r#"[1,"c"]"#].map(row);
        assert_eq!(oldest_match(&rows, "a").unwrap().get(), r#"[2,"a"]"#);
        assert!(oldest_match(&rows, "d").is_none());
    }
}
