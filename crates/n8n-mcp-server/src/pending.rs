//! A request that runs in the background while its caller also waits for other events.

use std::future::Future;
use std::time::Duration;

use mcp_core::tool::ToolError;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A request in flight. Dropping it does not cancel the request, which ends at its timeout: closing
/// the connection would not stop the run that it has started.
pub(crate) struct Pending<T> {
    task: JoinHandle<Result<T, ToolError>>,
    answer: Option<T>,
}

impl<T: Send + 'static> Pending<T> {
    pub(crate) fn spawn(
        request: impl Future<Output = Result<T, ToolError>> + Send + 'static,
    ) -> Self {
        Self {
            task: tokio::spawn(request),
            answer: None,
        }
    }

    /// Waits for the answer or for `other`, or only for `other` if the answer has arrived before.
    ///
    /// # Errors
    /// When the request has certainly started nothing.
    pub(crate) async fn wait_or(
        &mut self,
        other: impl Future<Output = ()>,
    ) -> Result<(), ToolError> {
        if self.answer.is_some() {
            other.await;
            return Ok(());
        }
        tokio::select! {
            biased;
            answer = &mut self.task => {
                let answer = answer.map_err(|error| {
                    ToolError::upstream("The request to n8n was stopped before its \
                        end.").caused_by(error)
                })?;
                self.answer = Some(answer?);
            }
            () = other => {}
        }
        Ok(())
    }

    /// Waits for the answer, at most for `timeout`; no time if it has arrived before.
    ///
    /// # Errors
    /// When the request has certainly started nothing.
    pub(crate) async fn wait_at_most(&mut self, timeout: Duration) -> Result<(), ToolError> {
        if self.answer.is_some() {
            return Ok(());
        }
        self.wait_or(sleep(timeout)).await
    }

    pub(crate) fn answer(&self) -> Option<&T> {
        self.answer.as_ref()
    }
}
