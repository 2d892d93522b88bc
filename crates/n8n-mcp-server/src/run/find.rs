//! Finds the execution that one request has started, and stops it if the call was cancelled.
//!
//! The reply of a trigger does not hold the execution's id. But the trigger node saves what it
//! received, and with it our unique request id, from its first moment on: the execution that holds
//! this id is ours.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcp_core::tool::{ToolError, ToolErrorKind};
use n8n_workflow::{Execution, Id};
use parking_lot::Mutex;
use tokio::sync::SetOnce;
use tokio::time::{Instant, sleep, timeout};

use crate::api::{Api, ExecutionFilter};
use crate::production_url::REQUEST_ID;
use crate::service::N8n;

/// Rows of a list, which have no data: only the executions that may be ours are read with it.
const PAGE_ROWS: u32 = 100;
/// Pages of a list that are read; one if the newest execution before the run is unknown.
const MAX_PAGES: usize = 10;
/// Executions that are read at the same time: each may have 16 MiB, and n8n has other work, too.
const CONCURRENT_READS: usize = 4;
/// Executions without a request id that are read when a run was refused.
const MAX_REFUSED: usize = 20;

/// Running executions of one workflow that are listed to see whether one of them still runs.
const MAX_RUNNING: u32 = 100;

/// The limit of stopping while the client waits …
const STOP_TIMEOUT: Duration = Duration::from_millis(1_800);
/// … and after that: n8n may be busy, and the cancelled run must not continue.
const LATE_STOP_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_RETRY_INTERVAL: Duration = Duration::from_millis(200);

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
    /// Set as soon as the execution is found, or n8n returns its id.
    pub(super) execution: Arc<SetOnce<Id>>,
    /// The executions that were read and are not ours.
    pub(super) others: Mutex<HashSet<Id>>,
}

pub(crate) async fn newest(api: &Api, workflow: &Id) -> Result<u64, ToolError> {
    let filter = ExecutionFilter::newest(Some(workflow), None, 1);
    let page = api.shared_executions(&filter, Instant::now()).await?;
    let newest = page.data.first().and_then(|newest| newest.id.number());
    Ok(newest.unwrap_or(0))
}

impl Search {
    /// For a run of the workflow of which nothing else is known.
    pub(super) fn new(n8n: &N8n, workflow: Id) -> Self {
        Self {
            api: Arc::clone(&n8n.api),
            workflow,
            request_id: String::new(),
            after: None,
            execution: Arc::default(),
            others: Mutex::default(),
        }
    }

    /// The execution that holds the request id, with its data.
    pub(super) async fn find(&self, statuses: &[Status]) -> Result<Option<Execution>, ToolError> {
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
    }

    /// True if n8n lists the execution among the running ones; false if it has ended, waits, or has
    /// more than a page of younger ones.
    pub(super) async fn is_running(&self, id: &Id) -> bool {
        let filter = ExecutionFilter::newest(Some(&self.workflow), Some("running"), MAX_RUNNING);
        let page = self.api.shared_executions(&filter, Instant::now()).await;
        page.is_ok_and(|page| page.data.iter().any(|one| one.id == *id))
    }

    /// True if an execution that has just begun may be ours: a busy n8n saves its trigger's data late.
    pub(super) async fn may_come(&self) -> bool {
        let since = Instant::now();
        let Ok(ids) = self.candidates(Some("running"), since).await else {
            return true;
        };
        for id in ids {
            let read = self.read(&id, since).await;
            if !matches!(read, Ok(None)) || self.may_be_ours(&id) {
                return true;
            }
        }
        false
    }

    /// The only new execution that failed with this message before its trigger had saved the request,
    /// such as one of a workflow without the node that responds.
    pub(super) async fn find_refused(&self, message: &str) -> Option<Execution> {
        self.after?;
        let message = serde_json::to_string(message).ok()?;
        let since = Instant::now();
        let mut ids = self.new_ids(Some("error"), since).await.ok()?;
        ids.retain(|id| !self.is_of_another(id));
        let mut new = Vec::new();
        for id in ids.iter().rev().take(MAX_REFUSED) {
            let read = self.api.shared_execution(id, since).await.ok()?;
            let text = read.as_ref().as_ref().map_or("", |raw| raw.get());
            if !text.contains(REQUEST_ID) && text.contains(&message) {
                new.extend(serde_json::from_str::<Execution>(text).ok());
            }
        }
        let [only] = <[Execution; 1]>::try_from(new).ok()?;
        self.store_id(&only.id);
        Some(only)
    }

    /// Reads the executions in this list that may be ours, the oldest first: a younger one was started by
    /// ours, or retries it.
    async fn find_in_list(
        &self,
        status: Status,
        since: Instant,
    ) -> Result<Option<Execution>, ToolError> {
        let ids = self.candidates(status, since).await?;
        let mut failed = None;
        for some in ids.chunks(CONCURRENT_READS) {
            let read = some.iter().map(|id| self.read(id, since));
            for one in join_all(read).await {
                match one {
                    Ok(None) => {}
                    Ok(found) => return Ok(found),
                    Err(failure) => failed = Some(failure),
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    async fn read(&self, id: &Id, since: Instant) -> Result<Option<Execution>, ToolError> {
        let read = self.api.shared_execution(id, since).await?;
        let Some(raw) = &*read else {
            return Ok(None);
        };
        let execution: Option<Execution> = serde_json::from_str(raw.get()).ok();
        if raw.get().contains(&self.request_id) {
            return Ok(execution);
        }
        let has_another = id
            .number()
            .is_some_and(|number| self.api.request_ids.read(number, raw.get()));
        if has_another || execution.is_none_or(|execution| execution.status.has_ended()) {
            self.others.lock().insert(id.clone());
        }
        Ok(None)
    }

    /// The executions in this list that may be ours, the oldest first.
    async fn candidates(&self, status: Status, since: Instant) -> Result<Vec<Id>, ToolError> {
        let mut ids = self.new_ids(status, since).await?;
        ids.retain(|id| self.may_be_ours(id));
        Ok(ids)
    }

    /// The executions in this list that have begun since ours, the oldest first.
    async fn new_ids(&self, status: Status, since: Instant) -> Result<Vec<Id>, ToolError> {
        let mut filter = ExecutionFilter::newest(Some(&self.workflow), status, PAGE_ROWS);
        let mut new = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.api.shared_executions(&filter, since).await?;
            let listed = new.len() + page.data.len();
            let ids = page.data.iter().map(|one| &one.id);
            new.extend(ids.filter(|id| self.is_after(id)).cloned());
            filter.cursor = match &page.rest.next_cursor {
                Some(next) if self.after.is_some() && new.len() == listed => Some(next.clone()),
                _ => break,
            };
        }
        new.reverse();
        Ok(new)
    }

    async fn stop(&self) -> Id {
        let id = tokio::select! {
            id = self.execution.wait() => id.clone(),
            id = self.poll_for_id() => id,
        };
        while self.api.stop(&id).await.is_err() {
            sleep(STOP_RETRY_INTERVAL).await;
        }
        id
    }

    async fn poll_for_id(&self) -> Id {
        loop {
            if let Ok(Some(execution)) = self.find(&RUNNING_FIRST).await {
                return execution.id;
            }
            sleep(STOP_RETRY_INTERVAL).await;
        }
    }

    fn may_be_ours(&self, id: &Id) -> bool {
        !self.is_of_another(id) && !self.others.lock().contains(id)
    }

    /// True if the execution holds the request id of another run.
    fn is_of_another(&self, id: &Id) -> bool {
        let ids = &self.api.request_ids;
        id.number()
            .is_some_and(|number| ids.is_of_another(number, &self.request_id))
    }

    fn is_after(&self, id: &Id) -> bool {
        match (id.number(), self.after) {
            (Some(number), Some(after)) => number > after,
            _ => true,
        }
    }
}

/// Stops the run, also after the answer to the call. An answer of n8n's MCP server with the execution's id is stored even if
/// nobody waits for it.
pub(super) async fn stop(search: &Arc<Search>) -> ToolError {
    let search = Arc::clone(search);
    let stopping = async move { timeout(LATE_STOP_TIMEOUT, search.stop()).await };
    let stopped = tokio::spawn(stopping);
    let text = match timeout(STOP_TIMEOUT, stopped).await {
        Ok(Ok(Ok(id))) => format!("Cancelled; execution {id} was stopped."),
        Ok(_) => "Cancelled; if the run had started, it continues in n8n.".to_owned(),
        Err(_) => "Cancelled; a started run is stopped if n8n answers within a minute.".into(),
    };
    ToolError::new(ToolErrorKind::Cancelled, text)
}
