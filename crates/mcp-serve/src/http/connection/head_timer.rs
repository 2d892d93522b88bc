//! The timeout for the head of a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::task::coop::unconstrained;

/// The timer of one connection. hyper makes a new sleep for each request; to set and remove a timer of the
/// runtime each time took 800 instructions. Here one timer runs for the whole connection, and is set again
/// only when it has fired.
#[derive(Clone, Default)]
pub(in crate::http) struct HeadTimer(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

/// A sleep of hyper. Only the newest one of a connection is polled, always by the task of the connection.
struct HeadSleep {
    timer: HeadTimer,
    deadline: Instant,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let timer = self.clone();
        Box::pin(HeadSleep { timer, deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Sleep for HeadSleep {}

impl Future for HeadSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut running = self.timer.0.lock();
        if let Some(timer) = &*running {
            // It was set for an earlier head, so it fires before this deadline, and wakes this task.
            if !timer.is_elapsed() {
                return Poll::Pending;
            }
            if self.timer.now() >= self.deadline {
                return Poll::Ready(());
            }
        }
        let timer = running.insert(Box::pin(tokio::time::sleep_until(self.deadline.into())));
        // A timer that is refused for this turn of the task would not be registered, and nothing polls it again.
        std::pin::pin!(unconstrained(timer.as_mut())).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_kept_although_the_timer_was_set_for_an_earlier_one() {
        let timer = HeadTimer::default();
        let timeout = Duration::from_secs(10);
        let started = tokio::time::Instant::now();
        for _ in 0..5 {
            let head = timer.sleep(timeout);
            let arrived = tokio::time::sleep(Duration::from_secs(4));
            tokio::select! {
                () = head => panic!("after {:?}", started.elapsed()),
                () = arrived => {}
            }
        }
        timer.sleep(timeout).await;
        assert_eq!(started.elapsed().as_secs(), 30);
    }
}
