//! The bounds of the work on a request: its timeout and its caller's patience.

use std::future::Future;
use std::time::Duration;

use super::Server;
use super::context::Context;
use super::outcome::CallEnd;
use super::tool_result::log_failure;
use crate::tool::{Call, ToolError, ToolErrorKind};

/// How often a call that asks a person is given its time again.
const MAX_EXTENSIONS: usize = 20;

/// How long a tool may work on after its caller has given up.
pub(super) const CLEAN_UP: Duration = Duration::from_secs(2);

impl Server {
    /// Runs `work` to its end, its timeout or the caller's patience.
    pub(super) async fn within_limits<T>(
        &self,
        name: &str,
        context: &Context<'_>,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> CallEnd<T> {
        let call = &context.call;
        let result = tokio::select! {
            biased;
            result = work => result,
            () = self.out_of_time(call) => Err(ToolError::new(
                ToolErrorKind::Timeout,
                format!(
                    "{name} did not finish within {} s; it may still take effect.",
                    self.settings.call_timeout.as_secs()
                ),
            )),
            () = self.given_up(call) => Err(ToolError::new(
                ToolErrorKind::Cancelled,
                format!("{name} was cancelled; it may still take effect."),
            )),
        };
        if let Err(error) = &result {
            log_failure(name, error);
        }
        context.end(result)
    }

    /// Completes when the call has used up its time. A person who is asked has more of it.
    pub(super) async fn out_of_time(&self, call: &Call) {
        self.clock.sleep(self.settings.call_timeout).await;
        for _ in 0..MAX_EXTENSIONS {
            if !call.is_asking() {
                return;
            }
            self.clock.sleep(self.settings.call_timeout).await;
        }
    }

    /// Completes when the caller has given up and the tool had its time to clean up.
    async fn given_up(&self, call: &Call) {
        call.cancelled().await;
        self.clock.sleep(CLEAN_UP).await;
    }
}
