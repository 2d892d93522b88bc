//! Stopping a run whose caller has given up.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::time::{sleep, timeout};

use super::outcome::Run;
use super::search::{RUNNING_FIRST, Search};
use crate::id::Id;

/// The limit of stopping while the caller waits …
const STOP_TIMEOUT: Duration = Duration::from_millis(1_800);
/// … and after that: n8n may be busy, and must not be left with what nobody wants.
const LATE_STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks for the execution.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Stops the run. What was `running` goes on until then: n8n may be about to name the execution.
pub(super) async fn stop(
    search: &Arc<Search>,
    mut running: Pin<Box<impl Future<Output = Result<Run, ToolError>>>>,
) -> ToolError {
    let search = Arc::clone(search);
    let stopping = async move { timeout(LATE_STOP_TIMEOUT, search.stop()).await };
    let mut stopping = tokio::spawn(stopping);
    let waiting = async {
        tokio::select! {
            stopped = &mut stopping => return stopped,
            _ = &mut running => {}
        }
        (&mut stopping).await
    };
    let text = match timeout(STOP_TIMEOUT, waiting).await {
        Ok(Ok(Ok(Some(id)))) => format!("Cancelled; execution {id} was stopped."),
        Ok(_) => "Cancelled; if the run had started, it goes on in n8n.".to_owned(),
        Err(_) => "Cancelled; if the run had started, it is stopped as soon as n8n answers.".into(),
    };
    ToolError::new(ToolErrorKind::Cancelled, text)
}

impl Search {
    /// The execution, once n8n has stopped it; `None` if it cannot stop any.
    async fn stop(&self) -> Option<Id> {
        let id = tokio::select! {
            id = self.execution.wait() => id.clone(),
            id = self.find_in_the_end() => id,
        };
        loop {
            match self.api.stop(&id).await {
                Ok(()) => return Some(id),
                // n8n 1 cannot.
                Err(error) if error.kind() == ToolErrorKind::Conflict => return None,
                Err(_) => sleep(LOOK_INTERVAL).await,
            }
        }
    }

    async fn find_in_the_end(&self) -> Id {
        loop {
            if let Ok(Some(execution)) = self.find(RUNNING_FIRST).await {
                return execution.id;
            }
            if let Some(id) = self.only_new().await {
                return id;
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}
