//! The calls in flight, to attribute messages of a server that name no request: questions and log
//! messages on stdio, and on the GET stream of the legacy era.
//!
//! Such a message belongs to a call only if that is certain: all calls in flight are for one caller.
//! A call that was abandoned (cancelled, timed out, broken off) counts as well, until the server has
//! answered it, or for a minute, or for the timeout of calls if that is longer, since servers may go on with
//! a cancelled call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::response_routes::ResponseRoutes;
use crate::{CallerId, Unattributed};

/// Shortest time for which an abandoned call counts as in flight. Most servers do not answer a cancelled call,
/// so its end cannot be seen: twice the usual timeout of a call (30 s) is left for it. Longer would let one
/// client that keeps leaving calls stop the questions of all others for long.
const MIN_ABANDONED_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit of abandoned calls that are remembered one by one.
const MAX_ABANDONED_CALLS: usize = 1024;

/// The receiver of a message.
pub(crate) enum Recipient {
    Call(Arc<ResponseRoutes>),
    /// No call is in flight: the handler of the client.
    Client,
    Unknown(Unattributed),
}

/// The calls in flight of one connection.
pub(crate) struct CallsInFlight {
    table: Mutex<CallTable>,
    abandoned_timeout: Duration,
}

#[derive(Default)]
struct CallTable {
    /// The calls by request id, oldest first.
    waiting: BTreeMap<u64, Arc<ResponseRoutes>>,
    /// Oldest first.
    abandoned: VecDeque<AbandonedCall>,
    /// The end of the last abandoned call that `abandoned` has no room for.
    crowded_until: Option<Instant>,
}

struct AbandonedCall {
    id: u64,
    caller: Option<CallerId>,
    until: Instant,
}

/// A call in flight. Dropped before [`CallGuard::answered`], the call is abandoned.
pub(crate) struct CallGuard<'a> {
    calls: &'a CallsInFlight,
    id: u64,
}

impl CallsInFlight {
    /// Creates an empty table; a server may work on a call for `call_timeout`.
    pub(crate) fn new(call_timeout: Duration) -> Self {
        Self {
            table: Mutex::default(),
            abandoned_timeout: call_timeout.max(MIN_ABANDONED_TIMEOUT),
        }
    }

    /// Adds a request, before it is sent. One that has no use for messages does not count.
    pub(crate) fn enter(&self, id: u64, routes: &Arc<ResponseRoutes>) -> CallGuard<'_> {
        if routes.receives_messages() {
            self.table.lock().waiting.insert(id, routes.clone());
        }
        CallGuard { calls: self, id }
    }

    /// The routes of a request, while it waits for its response.
    pub(crate) fn routes(&self, id: u64) -> Option<Arc<ResponseRoutes>> {
        self.table.lock().waiting.get(&id).cloned()
    }

    /// Removes a call that the server has answered.
    pub(crate) fn answered(&self, id: u64) {
        let table = &mut *self.table.lock();
        if table.waiting.remove(&id).is_none() {
            table.abandoned.retain(|call| call.id != id);
        }
    }

    /// The receiver of a message that names no request: the newest call of the only caller.
    pub(crate) fn recipient(&self) -> Recipient {
        let table = &mut *self.table.lock();
        table.expire(Instant::now());
        let waiting = table.waiting.values();
        let mut calls = waiting.filter(|routes| routes.handler.is_some());
        let is_crowded = table.crowded_until.is_some();
        let Some(newest) = calls.next_back() else {
            return match table.abandoned.is_empty() && !is_crowded {
                true => Recipient::Client,
                false => Recipient::Unknown(Unattributed::CallersLeft),
            };
        };
        let is_same =
            |caller: &Option<CallerId>| newest.caller.is_some() && *caller == newest.caller;
        let is_only = !is_crowded
            && calls.all(|routes| is_same(&routes.caller))
            && table.abandoned.iter().all(|call| is_same(&call.caller));
        match is_only {
            true => Recipient::Call(newest.clone()),
            false => Recipient::Unknown(Unattributed::SeveralCallers),
        }
    }

    fn abandon(&self, id: u64) {
        let table = &mut *self.table.lock();
        let Some(routes) = table.waiting.remove(&id) else {
            return;
        };
        if routes.handler.is_none() {
            return;
        }
        let now = Instant::now();
        table.expire(now);
        if table.abandoned.len() == MAX_ABANDONED_CALLS
            && let Some(oldest) = table.abandoned.pop_front()
        {
            table.crowded_until = Some(oldest.until);
        }
        table.abandoned.push_back(AbandonedCall {
            id,
            caller: routes.caller.clone(),
            until: now + self.abandoned_timeout,
        });
    }
}

impl CallTable {
    fn expire(&mut self, now: Instant) {
        while self.abandoned.front().is_some_and(|call| call.until <= now) {
            self.abandoned.pop_front();
        }
        self.crowded_until = self.crowded_until.filter(|until| *until > now);
    }
}

impl CallGuard<'_> {
    /// Notes that the server has answered the call, or has never got it.
    pub(crate) fn answered(self) {
        self.calls.answered(self.id);
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.calls.abandon(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::handler::DefaultHandler;

    /// Routes of a call for the caller with this number; 0 stands for an unknown caller.
    fn routes(caller: u64) -> Arc<ResponseRoutes> {
        let caller = (caller != 0).then_some(CallerId::Number(caller));
        let options = Options::default()
            .handler(Arc::new(DefaultHandler))
            .caller(caller);
        Arc::new(ResponseRoutes::new(&options, None))
    }

    /// The recipient: a caller, `client`, `several` or `left`.
    fn recipient(calls: &CallsInFlight) -> String {
        match calls.recipient() {
            Recipient::Call(routes) => match &routes.caller {
                Some(CallerId::Number(caller)) => caller.to_string(),
                _ => "0".to_owned(),
            },
            Recipient::Client => "client".to_owned(),
            Recipient::Unknown(Unattributed::SeveralCallers) => "several".to_owned(),
            Recipient::Unknown(Unattributed::CallersLeft) => "left".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn message_belongs_to_the_only_caller() {
        // Callers whose calls wait, callers who have left, and the recipient.
        for (waiting, left, expected) in [
            (&[][..], &[][..], "client"),
            (&[0], &[], "0"),
            (&[0, 0], &[], "several"),
            (&[1], &[], "1"),
            (&[1, 1], &[], "1"),
            (&[1, 2], &[], "several"),
            (&[1, 0], &[], "several"),
            (&[], &[1], "left"),
            (&[2], &[1], "several"),
            (&[0], &[0], "several"),
            (&[1], &[1], "1"),
            (&[1, 1], &[1, 2], "several"),
        ] {
            let calls = CallsInFlight::new(Duration::from_secs(30));
            let ids = 1_u64..;
            let all = left.iter().chain(waiting).zip(ids);
            let mut guards: Vec<_> = all
                .map(|(caller, id)| calls.enter(id, &routes(*caller)))
                .collect();
            let waiting: Vec<_> = guards.split_off(left.len());
            drop(guards);
            assert_eq!(recipient(&calls), expected, "{left:?} {expected}");
            waiting.into_iter().for_each(CallGuard::answered);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_call_counts_until_its_answer_or_for_a_minute() {
        let calls = CallsInFlight::new(Duration::from_secs(30));
        let waiting = calls.enter(9, &routes(2));
        for id in 1..=2 {
            drop(calls.enter(id, &routes(1)));
        }
        assert_eq!(recipient(&calls), "several");
        calls.answered(1);
        tokio::time::advance(Duration::from_secs(60) - Duration::from_millis(1)).await;
        assert_eq!(recipient(&calls), "several");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(recipient(&calls), "2");
        drop(calls.enter(3, &routes(1)));
        assert_eq!(recipient(&calls), "several");
        calls.answered(3);
        assert_eq!(recipient(&calls), "2");
        waiting.answered();
        assert_eq!(recipient(&calls), "client");
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_call_counts_for_the_timeout_of_calls_if_that_is_longer() {
        let calls = CallsInFlight::new(Duration::from_secs(600));
        drop(calls.enter(1, &routes(1)));
        tokio::time::advance(Duration::from_secs(599)).await;
        assert_eq!(recipient(&calls), "left");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(recipient(&calls), "client");
    }

    #[tokio::test(start_paused = true)]
    async fn many_abandoned_calls_take_little_memory_and_still_count() {
        let calls = CallsInFlight::new(Duration::from_secs(30));
        for id in 0..2 * MAX_ABANDONED_CALLS as u64 {
            drop(calls.enter(id, &routes(1)));
        }
        assert_eq!(calls.table.lock().abandoned.len(), MAX_ABANDONED_CALLS);
        let waiting = calls.enter(u64::MAX, &routes(1));
        assert_eq!(recipient(&calls), "several");
        tokio::time::advance(MIN_ABANDONED_TIMEOUT).await;
        assert_eq!(recipient(&calls), "1");
        waiting.answered();
    }
}
