//! Timeout and cancellation of requests.

use std::future::Future;
use std::time::Duration;

use super::Server;
use super::context::Context;
use super::outcome::CallEnd;
use crate::tool::{Call, ToolError, ToolErrorKind};

/// The number of extra timeouts of a call that waits for a person.
const MAX_EXTENSIONS: usize = 20;

/// The time that a cancelled tool has to clean up.
pub(super) const CLEANUP_GRACE: Duration = Duration::from_secs(2);

impl Server {
    /// Runs `work` until it ends, times out or is cancelled.
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
            () = self.timed_out(call) => Err(ToolError::new(
                ToolErrorKind::Timeout,
                format!(
                    "{name} did not finish within {} s; it may still take effect.",
                    (self.settings.call_timeout + call.extra_time()).as_secs()
                ),
            )),
            () = self.cancelled(call) => Err(ToolError::new(
                ToolErrorKind::Cancelled,
                format!("{name} was cancelled; it may still take effect."),
            )),
        };
        if let Err(error) = &result {
            self.failures.log(name, error);
            if error.concerns_operator() {
                self.service_failed.notify_one();
            }
        }
        context.end(result)
    }

    /// Completes at the timeout of the call, which is longer while it waits for a person, and by the time
    /// that the tool asks for.
    pub(super) async fn timed_out(&self, call: &Call) {
        self.clock.sleep(self.settings.call_timeout).await;
        let (mut extra, mut extensions) = (Duration::ZERO, 0);
        loop {
            let asked = call.extra_time();
            if asked > extra {
                self.clock.sleep(asked - extra).await;
                extra = asked;
            } else if call.is_asking() && extensions < MAX_EXTENSIONS {
                self.clock.sleep(self.settings.call_timeout).await;
                extensions += 1;
            } else {
                return;
            }
        }
    }

    /// Completes after the cancellation of the call and the grace period of the tool.
    async fn cancelled(&self, call: &Call) {
        call.cancelled().await;
        self.clock.sleep(CLEANUP_GRACE).await;
    }
}
