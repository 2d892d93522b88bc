//! The time that a caller gives to long work.

use std::time::Duration;

use mcp_core::tool::{Bounded, Call, ToolError, ToolErrorKind};
use tokio::time::Instant;

/// The limit that a caller can set.
pub(crate) type Seconds = Bounded<1, 3600>;
const DEFAULT_SECONDS: u32 = 600;

/// The time after which work is ended.
pub(crate) struct Deadline {
    seconds: u32,
    until: Instant,
}

impl Deadline {
    /// One from now on, to which the timeout of the call is raised.
    pub(crate) fn new(call: &Call, seconds: Option<Seconds>) -> Self {
        let seconds = seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        let limit = Duration::from_secs(seconds.into());
        call.extend_timeout(limit);
        Self {
            seconds,
            until: Instant::now() + limit,
        }
    }

    /// The result of `work`, mostly the next line.
    /// Errors when the call is cancelled and, with the text that `ended` makes of the limit in seconds,
    /// after the deadline.
    pub(crate) async fn run<T>(
        &self,
        call: &Call,
        work: impl Future<Output = T>,
        ended: impl FnOnce(u32) -> String,
    ) -> Result<T, ToolError> {
        tokio::select! {
            biased;
            () = call.cancelled() => Err(cancelled()),
            () = tokio::time::sleep_until(self.until) => {
                Err(ToolError::new(ToolErrorKind::Timeout, ended(self.seconds)))
            }
            done = work => Ok(done),
        }
    }
}

/// The error of a cancelled call; the caller does not receive it.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new(ToolErrorKind::Cancelled, "Cancelled by the caller.")
}
