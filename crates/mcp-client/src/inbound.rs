//! Dispatches the notifications and requests of a server to handlers.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::jsonrpc::{INTERNAL_ERROR, Notification, Request, ResponseIn};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;

use crate::calls_in_flight::{CallsInFlight, Recipient};
use crate::info::empty_object;
use crate::response_routes::{self, ResponseRoutes};
use crate::{Error, Handler, Reply, RpcError};

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
    /// `call_timeout`: the time that a server has for a request.
    pub(crate) fn new(handler: Arc<dyn Handler>, call_timeout: Duration) -> Self {
        Self {
            handler,
            calls: CallsInFlight::new(call_timeout),
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
                routes.acknowledge(params)
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
            "notifications/progress" => response_routes::progress_token(notification.params)
                .and_then(|id| self.calls.routes(id)),
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
        let id = response_routes::cancelled_id(params);
        if let Some(task) = id.and_then(|id| self.in_flight.lock().remove(id)) {
            task.abort();
        }
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.in_flight.lock().values().for_each(AbortHandle::abort);
    }
}

/// The outcome of our own request.
pub(crate) fn outcome(response: &ResponseIn<'_>, peer: &Arc<str>) -> Result<Box<RawValue>, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallerId, Options};
    use mcp_core::jsonrpc::{Message, decode};
    use tokio::sync::oneshot;

    struct NoRoots;

    impl Handler for NoRoots {
        fn request(&self, _: &str, _: Option<&RawValue>) -> Reply {
            Box::pin(async { Ok(RawValue::from_string(r#"{"roots":[]}"#.to_owned()).unwrap()) })
        }
    }

    /// An empty list would be a statement about callers that were not asked.
    #[tokio::test]
    async fn roots_are_refused_while_several_callers_could_be_meant() {
        for (callers, is_refused) in [(&[][..], false), (&[1, 1], false), (&[1, 2], true)] {
            let inbound = Arc::new(Inbound::new(Arc::new(NoRoots), Duration::ZERO));
            let routes = |caller: &u64| {
                let options = Options::default()
                    .handler(Arc::new(NoRoots))
                    .caller(CallerId::Number(*caller));
                Arc::new(ResponseRoutes::new(&options, None))
            };
            let calls = (1..).zip(callers);
            let calls: Vec<_> = calls
                .map(|(id, caller)| inbound.calls.enter(id, &routes(caller)))
                .collect();
            let message = decode(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
            let Ok(Message::Request(request)) = message else {
                panic!("no request");
            };
            let (sender, reply) = oneshot::channel();
            let send = async move |reply| drop(sender.send(reply));
            inbound.request(&request, inbound.calls.recipient(), send);
            let reply = reply.await.unwrap();
            assert_eq!(reply.contains("error"), is_refused, "{callers:?}: {reply}");
            assert_eq!(reply.contains("roots\":[]"), !is_refused, "{reply}");
            drop(calls);
        }
    }
}
