//! The context of the code that runs now.

use std::future::Future;
use std::pin::Pin;

use super::TraceContext;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// The context of the request for which this code runs; `None` outside of requests, and in requests without one.
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(TraceContext::clone).ok()
}

/// Runs `future` in this context, if there is one, and else in that around it. Other tasks that it spawns
/// do not inherit it.
pub async fn within<F: Future>(context: Option<TraceContext>, future: Pin<&mut F>) -> F::Output {
    match context {
        Some(context) => CURRENT.scope(context, future).await,
        None => future.await,
    }
}
