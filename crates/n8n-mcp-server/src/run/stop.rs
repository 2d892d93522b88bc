//! Stopping a run whose caller has given up.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind};
use tokio::sync::SetOnce;
use tokio::time::{sleep, timeout};

use super::find::Search;
use super::outcome::Run;
use super::watch::Watch;
use crate::api::{Api, Listing};
use crate::id::Id;

/// What it may take while the caller waits …
const STOP_WITHIN: Duration = Duration::from_millis(1_800);
/// … and after that: n8n may be busy, and must not be left with what nobody wants.
const STOP_LATER: Duration = Duration::from_secs(60);
/// Between two looks for the execution.
const PAUSE: Duration = Duration::from_millis(200);

/// All that is needed to find one run and stop it, whoever else is still there.
pub(super) struct Stopper {
    pub(super) api: Arc<Api>,
    pub(super) workflow: Id,
    pub(super) request_id: String,
    pub(super) after: Option<u64>,
    /// Set as soon as n8n names the execution.
    pub(super) execution: Arc<SetOnce<Id>>,
    /// The trigger keeps nothing of ours, and n8n was asked to start it.
    pub(super) is_anonymous: Arc<AtomicBool>,
}

impl Stopper {
    /// The execution, once n8n has stopped it; `None` if it cannot stop any.
    async fn stop(self) -> Option<Id> {
        let id = tokio::select! {
            id = self.execution.wait() => id.clone(),
            id = self.find() => id,
        };
        loop {
            match self.api.stop(&id).await {
                Ok(()) => return Some(id),
                // n8n 1 cannot.
                Err(error) if error.kind() == ToolErrorKind::Conflict => return None,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    async fn find(&self) -> Id {
        let search = Search {
            api: &self.api,
            workflow: &self.workflow,
            request_id: &self.request_id,
            after: self.after,
        };
        loop {
            let found = search.find([Listing::Running, Listing::EndedOrWaiting]);
            if let Ok(Some(execution)) = found.await {
                return execution.id;
            }
            if self.is_anonymous.load(Ordering::Relaxed)
                && let Some(id) = search.only_new().await
            {
                return id;
            }
            sleep(PAUSE).await;
        }
    }
}

/// Stops the run. What was `running` goes on until then: n8n may be about to name the execution.
pub(super) async fn stop(
    watch: &Watch<'_>,
    mut running: Pin<&mut impl Future<Output = Result<Run, ToolError>>>,
) -> ToolError {
    let stopping = timeout(STOP_LATER, watch.stopper().stop());
    let mut stopping = tokio::spawn(stopping);
    let waiting = async {
        tokio::select! {
            stopped = &mut stopping => return stopped,
            _ = &mut running => {}
        }
        (&mut stopping).await
    };
    let text = match timeout(STOP_WITHIN, waiting).await {
        Ok(Ok(Ok(Some(id)))) => format!("Cancelled; execution {id} was stopped."),
        Ok(_) => "Cancelled; if the run had started, it goes on in n8n.".to_owned(),
        Err(_) => "Cancelled; if the run had started, it is stopped as soon as n8n answers.".into(),
    };
    ToolError::new(ToolErrorKind::Cancelled, text)
}
