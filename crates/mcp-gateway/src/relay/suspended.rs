//! Suspended requests (2026-07-28, "Multi Round-Trip Requests"): the client's call has ended with a
//! question of the backend, and the request continues when the client repeats the call with the answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::call_handler::{ANSWER_TIMEOUT, CallHandler};
use crate::backend::RequestError;

/// Limit for all clients together, against attacks.
const MAX_SUSPENDED_REQUESTS: usize = 1_000;

/// The future of a request to a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RequestError>> + Send>>;

/// A request that was sent, and the handler of the backend's messages meanwhile.
pub(super) struct SentRequest {
    pub(super) pending: Pending,
    pub(super) handler: Arc<CallHandler>,
    /// True once the backend has answered. The client may still answer a question that came on this call.
    pub(super) is_answered: bool,
}

impl SentRequest {
    pub(super) fn new(pending: Pending, handler: Arc<CallHandler>) -> Self {
        Self {
            pending,
            handler,
            is_answered: false,
        }
    }

    /// Reads the response also before the client is back: a backend may end the call without an answer to its
    /// question, and the call is over then.
    fn run_in_background(&mut self) {
        let over = Box::pin(std::future::ready(Err(RequestError::Unavailable(
            "The call has ended.".to_owned(),
        ))));
        let pending = std::mem::replace(&mut self.pending, over);
        let running = AbortOnDropHandle::new(tokio::spawn(pending));
        self.pending = Box::pin(async move {
            running.await.unwrap_or_else(|error| {
                tracing::error!(%error, "a request to a backend has failed");
                Err(RequestError::Unavailable("The call has failed.".to_owned()))
            })
        });
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            self.handler.end();
        }
    }
}

/// A request whose backend waits for the answer to its question (2024-11-05 to 2025-11-25).
pub(super) struct SuspendedRequest {
    pub(super) request: SentRequest,
    pub(super) answer: oneshot::Sender<Value>,
}

struct Slot {
    suspended: SuspendedRequest,
    owner: Owner,
    _expiry: AbortOnDropHandle<()>,
}

/// The caller and the item of a call. Only the same caller and item can continue a suspended request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) caller: Option<Arc<str>>,
    pub(super) backend: Arc<str>,
    pub(super) method: String,
    pub(super) item: String,
}

/// The suspended requests, by name.
#[derive(Default)]
pub(crate) struct SuspendedRequests(Mutex<HashMap<String, Slot>>);

impl SuspendedRequests {
    /// Suspends a request and gives it a name. `None` if too many are suspended. Without an answer it is
    /// cancelled in time: other callers of its backend cannot be asked meanwhile.
    pub(super) fn add(
        self: &Arc<Self>,
        mut suspended: SuspendedRequest,
        owner: Owner,
    ) -> Option<String> {
        suspended.request.run_in_background();
        let name = Uuid::new_v4().simple().to_string();
        let (all, expired) = (Arc::downgrade(self), name.clone());
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(ANSWER_TIMEOUT).await;
            let slot = all.upgrade().and_then(|all| all.0.lock().remove(&expired));
            drop(slot);
        });
        let slot = Slot {
            suspended,
            owner,
            _expiry: AbortOnDropHandle::new(expiry),
        };
        let mut slots = self.0.lock();
        if slots.len() >= MAX_SUSPENDED_REQUESTS {
            return None;
        }
        slots.insert(name.clone(), slot);
        Some(name)
    }

    /// Removes and returns the request with this name, if it belongs to this owner.
    pub(super) fn take(&self, name: &str, owner: &Owner) -> Option<SuspendedRequest> {
        let mut slots = self.0.lock();
        slots.get(name).filter(|slot| slot.owner == *owner)?;
        slots.remove(name).map(|slot| slot.suspended)
    }
}

#[cfg(test)]
mod tests {
    use mcp_client::RpcError;
    use mcp_core::tool::Call;

    use super::*;

    struct NoHandler;

    impl mcp_client::Handler for NoHandler {}

    /// Otherwise it would count as in progress for ten minutes, and stop the questions of others.
    #[tokio::test]
    async fn response_to_a_suspended_request_is_read_and_kept() {
        let (sender, response) = oneshot::channel::<()>();
        let (read, is_read) = oneshot::channel();
        let handler = CallHandler::new(Call::default(), Arc::new(NoHandler));
        let pending = Box::pin(async move {
            response.await.unwrap();
            read.send(()).unwrap();
            Err(RequestError::Rpc(RpcError::new(-32000, "given up")))
        });
        let request = SentRequest::new(pending, handler);
        let owner = Owner {
            caller: None,
            backend: "b".into(),
            method: "tools/call".to_owned(),
            item: "b__work".to_owned(),
        };
        let (answer, _question) = oneshot::channel();
        let all = Arc::new(SuspendedRequests::default());
        let suspended = SuspendedRequest { request, answer };
        let name = all.add(suspended, owner.clone()).unwrap();
        sender.send(()).unwrap();
        is_read.await.unwrap();
        let mut taken = all.take(&name, &owner).unwrap();
        let result = (&mut taken.request.pending).await;
        assert!(matches!(result, Err(RequestError::Rpc(error)) if error.message == "given up"));
    }
}
