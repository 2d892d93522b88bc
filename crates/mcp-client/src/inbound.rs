//! The notifications and requests of a server: to which call each belongs, and who handles it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::jsonrpc::{INTERNAL_ERROR, Members, Notification, Request, ResponseIn};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::handler::{Handler, Reply, Unattributed};
use crate::handshake::empty_object;
use crate::message::{PROGRESS_TOKEN, with_token};
use crate::options::{CallerId, Options, Progress};
use crate::{Error, RpcError};

/// Limit of the server's requests in flight.
const MAX_SERVER_REQUESTS: usize = 64;

/// The receiving side of a client.
pub(crate) struct Inbound {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) calls: CallsInFlight,
    counters: Mutex<Counters>,
    /// The server's requests in flight, by id.
    in_flight: Mutex<HashMap<String, AbortHandle>>,
}

impl Inbound {
    /// A server works on a call for `longest_call` at most.
    pub(crate) fn new(handler: Arc<dyn Handler>, longest_call: Duration) -> Self {
        Self {
            handler,
            calls: CallsInFlight::new(longest_call),
            counters: Mutex::default(),
            in_flight: Mutex::default(),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.counters.lock()
    }

    /// Increments a counter and returns its new value.
    pub(crate) fn count(&self, counter: impl FnOnce(&mut Counters) -> &mut u64) -> u64 {
        let mut counters = self.counters.lock();
        let counter = counter(&mut counters);
        *counter += 1;
        *counter
    }

    /// Handles a notification; `routes` are those of the request that it belongs to.
    pub(crate) fn notification(
        &self,
        notification: &Notification<'_>,
        routes: Option<&ResponseRoutes>,
    ) {
        let (method, params) = (&*notification.method, notification.params);
        match (method, routes, params) {
            ("notifications/progress", Some(routes), Some(params)) => routes.report(params),
            ("notifications/subscriptions/acknowledged", Some(routes), _) => {
                routes.acknowledge();
            }
            ("notifications/cancelled", ..) => self.cancel(params),
            ("notifications/message", Some(routes), _) => {
                let handler = routes.handler.as_ref().unwrap_or(&self.handler);
                handler.notification(method, params);
            }
            _ => self.handler.notification(method, params),
        }
    }

    /// Handles a notification that came on the stream of no request.
    pub(crate) fn unrelated_notification(&self, notification: &Notification<'_>) {
        let routes = match &*notification.method {
            "notifications/progress" => {
                progress_token(notification.params).and_then(|id| self.calls.routes(id))
            }
            "notifications/subscriptions/acknowledged" => {
                subscription_id(notification.params).and_then(|id| self.calls.routes(id))
            }
            "notifications/message" => match self.calls.recipient() {
                Recipient::Call(routes) => Some(routes),
                Recipient::Client => None,
                Recipient::Unknown(_) => {
                    self.count(|all| &mut all.unattributed_logs);
                    None
                }
            },
            _ => None,
        };
        self.notification(notification, routes.as_deref());
    }

    /// Handles a request, and passes the response to `send`.
    pub(crate) fn request<F>(
        self: &Arc<Self>,
        request: &Request<'_>,
        recipient: Recipient,
        send: impl FnOnce(String) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = request.id.as_json().to_owned();
        let answer = match &*request.method {
            "ping" => Ok(empty_object()),
            _ if self.in_flight.lock().len() >= MAX_SERVER_REQUESTS => {
                Err(RpcError::new(INTERNAL_ERROR, "the client is busy"))
            }
            method => {
                let answer = self.answer(method, request.params, &recipient);
                // Weak, so that a late response does not keep the connection open.
                let (inbound, in_flight) = (Arc::downgrade(self), id.clone());
                let mut all = self.in_flight.lock();
                let task = tokio::spawn(async move {
                    let reply = reply(&in_flight, answer.await);
                    if let Some(inbound) = inbound.upgrade() {
                        inbound.in_flight.lock().remove(&in_flight);
                        send(reply).await;
                    }
                });
                all.insert(id, task.abort_handle());
                return;
            }
        };
        let reply = reply(&id, answer);
        tokio::spawn(send(reply));
    }

    fn answer(&self, method: &str, params: Option<&RawValue>, recipient: &Recipient) -> Reply {
        let handler = match recipient {
            Recipient::Call(routes) => routes.handler.as_ref().unwrap_or(&self.handler),
            Recipient::Client => &self.handler,
            Recipient::Unknown(reason) => {
                self.count(|all| &mut all.refused_requests);
                let refusal = self.handler.unattributed(method, *reason);
                return Box::pin(std::future::ready(Err(refusal)));
            }
        };
        handler.request(method, params)
    }

    /// Cancels a request of the server.
    fn cancel(&self, params: Option<&RawValue>) {
        let id = cancelled_id(params);
        if let Some(task) = id.and_then(|id| self.in_flight.lock().remove(&id)) {
            task.abort();
        }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.in_flight.lock().values().for_each(AbortHandle::abort);
    }
}

/// The outcome of a request of ours.
pub(crate) type Outcome = Result<Box<RawValue>, Error>;

/// Reads it from the response.
pub(crate) fn outcome(response: &ResponseIn<'_>, peer: &Arc<str>) -> Outcome {
    match response.outcome {
        Ok(result) => Ok(result.to_owned()),
        Err(error) => Err(match serde_json::from_str::<RpcError>(error.get()) {
            Ok(error) => Error::Rpc(error),
            Err(_) => Error::protocol(peer, "its error object is invalid"),
        }),
    }
}

fn reply(id: &str, answer: Result<Box<RawValue>, RpcError>) -> String {
    let (member, body) = match answer {
        Ok(result) => ("result", String::from(Box::<str>::from(result))),
        // Numbers, strings and raw values always serialise.
        Err(error) => ("error", serde_json::to_string(&error).unwrap_or_default()),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{body}}}"#)
}

/// Numbers of skipped and refused messages since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Responses without a waiting request: the id is unknown, of the wrong type, already answered, or
    /// that of a cancelled request.
    pub unmatched_responses: u64,
    /// Lines on stdout, or events of a stream, that are not JSON-RPC messages: banners, for example.
    pub invalid_messages: u64,
    /// Requests of the server that were refused because their caller is not certain.
    pub refused_requests: u64,
    /// Log messages that reached no caller because theirs is not certain.
    pub unattributed_logs: u64,
    /// Lines on stderr that were dropped by the rate limit.
    pub stderr_dropped: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.unmatched_responses += other.unmatched_responses;
        self.invalid_messages += other.invalid_messages;
        self.refused_requests += other.refused_requests;
        self.unattributed_logs += other.unattributed_logs;
        self.stderr_dropped += other.stderr_dropped;
    }
}

/// The receivers of one request.
#[derive(Default)]
pub(crate) struct ResponseRoutes {
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) caller: Option<CallerId>,
    progress: Option<mpsc::Sender<Progress>>,
    /// The JSON of the caller's progress token.
    token: Option<String>,
    /// Set for a subscription: receives the server's acknowledgement.
    acknowledged: Option<mpsc::Sender<()>>,
}

impl ResponseRoutes {
    pub(crate) fn new(options: &Options, token: Option<String>) -> Self {
        Self {
            handler: options.handler.clone(),
            caller: options.caller.clone(),
            progress: options.progress.clone(),
            token,
            acknowledged: None,
        }
    }

    /// The routes of a subscription, whose response is its end.
    pub(crate) fn subscription(acknowledged: mpsc::Sender<()>) -> Self {
        Self {
            acknowledged: Some(acknowledged),
            ..Self::default()
        }
    }

    /// Returns true if progress, log messages, questions or an acknowledgement have a receiver.
    pub(crate) fn receives_messages(&self) -> bool {
        self.handler.is_some() || self.progress.is_some() || self.is_subscription()
    }

    pub(crate) fn is_subscription(&self) -> bool {
        self.acknowledged.is_some()
    }

    /// Handles the acknowledgement of a subscription.
    pub(crate) fn acknowledge(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            // Only the first one counts.
            let _ = acknowledged.try_send(());
        }
    }

    /// Forwards a progress report. Dropped if the channel is full: the response matters more.
    pub(crate) fn report(&self, params: &RawValue) {
        if let Some(reports) = &self.progress
            && let Ok(report) = serde_json::from_str::<Progress>(params.get())
        {
            let _ = reports.try_send(Progress {
                raw: params.to_owned(),
                ..report
            });
        }
        if let (Some(handler), Some(token)) = (&self.handler, &self.token)
            && let Some(params) = with_token(params, token)
        {
            handler.notification("notifications/progress", Some(&params));
        }
    }
}

/// The id of the request that a progress report belongs to.
pub(crate) fn progress_token(params: Option<&RawValue>) -> Option<u64> {
    let members = Members::read(params?.get())?;
    members.get(PROGRESS_TOKEN)?.parse().ok()
}

/// The id of the request that opened a subscription.
fn subscription_id(params: Option<&RawValue>) -> Option<u64> {
    let meta = Members::read(Members::read(params?.get())?.get("_meta")?)?;
    meta.get("io.modelcontextprotocol/subscriptionId")?
        .parse()
        .ok()
}

/// The JSON of the id in a cancellation.
pub(crate) fn cancelled_id(params: Option<&RawValue>) -> Option<String> {
    let members = Members::read(params?.get())?;
    members.get("requestId").map(str::to_owned)
}

/// Limit of abandoned calls that are remembered one by one.
const MAX_ABANDONED_CALLS: usize = 1024;

/// The receiver of a message.
pub(crate) enum Recipient {
    Call(Arc<ResponseRoutes>),
    /// No call is in flight: the handler of the client.
    Client,
    Unknown(Unattributed),
}

pub(crate) struct CallsInFlight {
    table: Mutex<CallTable>,
    /// The time for which an abandoned call counts as in flight. Longer than the call may take would let one client that
    /// keeps leaving calls stop the questions of all others.
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

impl CallsInFlight {
    /// Creates an empty table; a server may work on a call for `longest_call`.
    pub(crate) fn new(longest_call: Duration) -> Self {
        Self {
            table: Mutex::default(),
            abandoned_timeout: longest_call,
        }
    }

    /// Adds a request, before it is sent. One that has no use for messages does not count.
    pub(crate) fn enter(&self, id: u64, routes: &Arc<ResponseRoutes>) {
        if routes.receives_messages() {
            self.table.lock().waiting.insert(id, routes.clone());
        }
    }

    /// The routes of a request, while it waits for its response.
    pub(crate) fn routes(&self, id: u64) -> Option<Arc<ResponseRoutes>> {
        self.table.lock().waiting.get(&id).cloned()
    }

    /// Removes a call that the server has answered, or has never got.
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

    /// Notes that nobody waits for a call any more, unless it was answered.
    pub(crate) fn abandon(&self, id: u64) {
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

#[cfg(test)]
mod tests {
    use super::*;
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

    /// Starts a call of the caller 1, who leaves it.
    fn leave(calls: &CallsInFlight, id: u64) {
        calls.enter(id, &routes(1));
        calls.abandon(id);
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
            for (caller, id) in left.iter().chain(waiting).zip(1..) {
                calls.enter(id, &routes(*caller));
            }
            (1..=left.len() as u64).for_each(|id| calls.abandon(id));
            assert_eq!(recipient(&calls), expected, "{left:?} {expected}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_call_counts_until_its_answer_or_its_longest_time() {
        let calls = CallsInFlight::new(Duration::from_secs(60));
        calls.enter(9, &routes(2));
        (1..=2).for_each(|id| leave(&calls, id));
        assert_eq!(recipient(&calls), "several");
        calls.answered(1);
        tokio::time::advance(Duration::from_secs(60) - Duration::from_millis(1)).await;
        assert_eq!(recipient(&calls), "several");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(recipient(&calls), "2");
        leave(&calls, 3);
        assert_eq!(recipient(&calls), "several");
        calls.answered(3);
        assert_eq!(recipient(&calls), "2");
        calls.answered(9);
        assert_eq!(recipient(&calls), "client");
    }

    #[tokio::test(start_paused = true)]
    async fn many_abandoned_calls_take_little_memory_and_still_count() {
        let calls = CallsInFlight::new(Duration::from_secs(30));
        (0..2 * MAX_ABANDONED_CALLS as u64).for_each(|id| leave(&calls, id));
        assert_eq!(calls.table.lock().abandoned.len(), MAX_ABANDONED_CALLS);
        calls.enter(u64::MAX, &routes(1));
        assert_eq!(recipient(&calls), "several");
        tokio::time::advance(calls.abandoned_timeout).await;
        assert_eq!(recipient(&calls), "1");
    }
}
