//! The context of the code that runs now.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;

use super::TraceContext;

thread_local! {
    static CURRENT: Cell<Option<TraceContext>> = const { Cell::new(None) };
}

/// The context of the request for which this code runs; `None` outside of requests, and in requests without one.
pub fn current() -> Option<TraceContext> {
    CURRENT.with(|current| {
        let context = current.take();
        current.set(context.clone());
        context
    })
}

/// Runs `future` in this context, if there is one, and else in that around it. Other tasks that it spawns
/// do not inherit it.
pub fn within<'a, F: Future>(
    context: &'a mut Option<TraceContext>,
    mut future: Pin<&'a mut F>,
) -> impl Future<Output = F::Output> + use<'a, F> {
    poll_fn(move |cx| {
        if context.is_none() {
            return future.as_mut().poll(cx);
        }
        let _entered = Entered::new(context);
        future.as_mut().poll(cx)
    })
}

/// Exchanges the current context until it is dropped, by a panic too.
struct Entered<'a>(&'a mut Option<TraceContext>);

impl<'a> Entered<'a> {
    fn new(context: &'a mut Option<TraceContext>) -> Self {
        let mut entered = Self(context);
        entered.exchange();
        entered
    }

    fn exchange(&mut self) {
        let entering = self.0.take();
        *self.0 = CURRENT.replace(entering);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.exchange();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::join;

    use super::*;

    #[tokio::test]
    async fn each_future_has_its_own_context() {
        let work = async |context: &mut Option<TraceContext>| {
            let expected = context.clone();
            let body = pin!(async {
                let seen = current();
                tokio::task::yield_now().await;
                (seen, current())
            });
            let seen = within(context, body).await;
            assert_eq!(seen, (expected.clone(), expected.clone()));
            assert_eq!(*context, expected);
        };
        let mut some = [(); 2].map(|()| Some(TraceContext::for_request(None)));
        let [one, other] = &mut some;
        join(work(one), work(other)).await;
        work(&mut None).await;
        assert_eq!(current(), None);
    }

    #[tokio::test]
    async fn panic_leaves_no_context_behind() {
        let mut context = Some(TraceContext::for_request(None));
        let body = pin!(async { panic!("expected") });
        let body = std::panic::AssertUnwindSafe(within(&mut context, body));
        let ended = futures_util::FutureExt::catch_unwind(body).await;
        assert!(ended.is_err() && current().is_none());
    }
}
