//! A request whose answer is waited for beside other things.

use std::future::Future;

use mcp_core::tool::ToolError;
use tokio::task::JoinHandle;

/// A request under way. It goes on if this is dropped, for as long as its timeout allows: cutting
/// the connection would not stop the run that it has started.
pub(crate) struct Pending<T> {
    task: JoinHandle<Result<T, ToolError>>,
    answer: Option<T>,
}

impl<T: Send + 'static> Pending<T> {
    /// Sends the request.
    pub(crate) fn spawn(
        request: impl Future<Output = Result<T, ToolError>> + Send + 'static,
    ) -> Self {
        Self {
            task: tokio::spawn(request),
            answer: None,
        }
    }

    /// Waits for the answer or for `other`; only for `other` if there is an answer.
    ///
    /// # Errors
    /// When it is certain that nothing was started.
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
                    ToolError::upstream("The request to n8n was abandoned.").caused_by(error)
                })?;
                self.answer = Some(answer?);
            }
            () = other => {}
        }
        Ok(())
    }

    /// The answer, if it is there.
    pub(crate) fn answer(&self) -> Option<&T> {
        self.answer.as_ref()
    }
}
