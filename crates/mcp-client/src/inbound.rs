//! What a server sends on its own: sorted, handed over, answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_core::jsonrpc::{INTERNAL_ERROR, Notification, Request, ResponseIn};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;

use crate::counters::Counting;
use crate::info::empty_object;
use crate::sink::Sink;
use crate::{Error, Handler, RpcError};

/// Requests of the server that may wait for us at the same time.
const MAX_ASKED: usize = 64;

/// The receiver of a client, and what it is doing.
pub(crate) struct Inbound {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) counting: Counting,
    /// The requests that the server waits for, by their ids.
    asked: Mutex<HashMap<String, AbortHandle>>,
}

impl Inbound {
    pub(crate) fn new(handler: Arc<dyn Handler>) -> Self {
        Self {
            handler,
            counting: Counting::default(),
            asked: Mutex::default(),
        }
    }

    /// Hands a notification over; `sink` takes what belongs to its request.
    pub(crate) fn notification(&self, notification: &Notification<'_>, sink: Option<&Sink>) {
        let (method, params) = (&*notification.method, notification.params);
        match (method, sink, params) {
            ("notifications/progress", Some(sink), Some(params)) => sink.report(params),
            ("notifications/subscriptions/acknowledged", Some(sink), _) => sink.opened(params),
            ("notifications/cancelled", ..) => self.withdraw(params),
            ("notifications/message", Some(sink), _) => {
                let handler = sink.handler.as_ref().unwrap_or(&self.handler);
                handler.notification(method, params);
            }
            _ => self.handler.notification(method, params),
        }
    }

    /// Has a request answered, and the answer sent by `send`.
    pub(crate) fn request<F>(
        self: &Arc<Self>,
        request: &Request<'_>,
        sink: Option<&Sink>,
        send: impl FnOnce(String) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = request.id.as_json().to_owned();
        let handler = sink.and_then(|sink| sink.handler.as_ref());
        let handler = handler.unwrap_or(&self.handler);
        let answer = match &*request.method {
            "ping" => Ok(empty_object()),
            _ if self.lock().len() >= MAX_ASKED => {
                Err(RpcError::new(INTERNAL_ERROR, "the client is busy"))
            }
            method => {
                let answer = handler.request(method, request.params);
                // Weak: an answer that comes too late must not keep the connection.
                let (inbound, asked) = (Arc::downgrade(self), id.clone());
                let mut all = self.lock();
                let task = tokio::spawn(async move {
                    let reply = reply(&asked, answer.await);
                    if let Some(inbound) = inbound.upgrade() {
                        inbound.lock().remove(&asked);
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

    /// The server does not want its answer any more.
    fn withdraw(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        let cancelled = params.and_then(|params| serde_json::from_str(params.get()).ok());
        if let Some(Cancelled { id }) = cancelled
            && let Some(task) = self.lock().remove(id.get())
        {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, AbortHandle>> {
        // Nothing that panics runs under this lock.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.lock().values().for_each(AbortHandle::abort);
    }
}

/// The outcome of a request of ours.
pub(crate) fn outcome(response: &ResponseIn<'_>, peer: &Arc<str>) -> Result<Box<RawValue>, Error> {
    match response.outcome {
        Ok(result) => Ok(result.to_owned()),
        Err(error) => Err(match serde_json::from_str::<RpcError>(error.get()) {
            Ok(error) => Error::Rpc(error),
            Err(_) => Error::Protocol {
                peer: peer.clone(),
                fault: "its error object is not one".to_owned(),
            },
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
