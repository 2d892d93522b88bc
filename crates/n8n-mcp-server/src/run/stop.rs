//! Stops a run whose call was cancelled.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use n8n_workflow::Id;
use tokio::time::{sleep, timeout};

use super::outcome::Run;
use super::search::{RUNNING_FIRST, Search};

/// The limit of stopping while the client waits …
const STOP_TIMEOUT: Duration = Duration::from_millis(1_800);
/// … and after that: n8n may be busy, and the cancelled run must not continue.
const LATE_STOP_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Stops the run. Polls `running` until then: n8n may be about to return the execution's id.
pub(super) async fn stop(
    search: &Arc<Search>,
    mut running: Pin<Box<impl Future<Output = Result<Run, ToolError>>>>,
) -> ToolError {
    let search = Arc::clone(search);
    let stopping = async move { timeout(LATE_STOP_TIMEOUT, search.stop()).await };
    let mut stopping = tokio::spawn(stopping);
    let stopped = async {
        tokio::select! {
            stopped = &mut stopping => return stopped,
            _ = &mut running => {}
        }
        stopping.await
    };
    let text = match timeout(STOP_TIMEOUT, stopped).await {
        Ok(Ok(Ok(Some(id)))) => format!("Cancelled; execution {id} was stopped."),
        Ok(_) => "Cancelled; if the run had started, it continues in n8n.".to_owned(),
        Err(_) => "Cancelled; if the run had started, it is stopped as soon as n8n answers.".into(),
    };
    ToolError::new(ToolErrorKind::Cancelled, text)
}

impl Search {
    /// Stops the execution and returns its id; `None` if this n8n cannot stop executions.
    async fn stop(&self) -> Option<Id> {
        let id = tokio::select! {
            id = self.execution.wait() => id.clone(),
            id = self.poll_for_id() => id,
        };
        loop {
            match self.api.stop(&id).await {
                Ok(()) => return Some(id),
                // n8n 1 cannot.
                Err(error) if error.kind() == ToolErrorKind::Conflict => return None,
                Err(_) => sleep(STOP_RETRY_INTERVAL).await,
            }
        }
    }

    async fn poll_for_id(&self) -> Id {
        loop {
            if let Ok(Some(execution)) = self.find(&RUNNING_FIRST).await {
                return execution.id;
            }
            if let Some(id) = self.only_new_execution().await {
                return id;
            }
            sleep(STOP_RETRY_INTERVAL).await;
        }
    }
}
