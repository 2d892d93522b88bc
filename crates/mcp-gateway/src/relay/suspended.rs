//! Suspended requests (2026-07-28, "Multi Round-Trip Requests"): the client's call has ended with a
//! question of the backend, and the request continues when the client repeats the call with the answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::call_handler::CallHandler;
use crate::backend::RequestError;

/// The time that a person has for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// Limit for all clients together, against attacks.
const MAX_SUSPENDED_REQUESTS: usize = 1_000;

/// The future of a request to a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RequestError>> + Send>>;

/// A request that was sent, and the handler of the backend's messages meanwhile.
pub(super) struct SentRequest {
    pub(super) pending: Pending,
    pub(super) handler: Arc<CallHandler>,
}

/// A request whose backend waits for the answer to its question (2024-11-05 to 2025-11-25).
pub(super) struct SuspendedRequest {
    pub(super) request: SentRequest,
    pub(super) answer: oneshot::Sender<Value>,
}

struct Slot {
    suspended: SuspendedRequest,
    owner: Owner,
    expires: Instant,
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
    /// Suspends a request and gives it a name. `None` if too many are suspended.
    pub(super) fn add(&self, suspended: SuspendedRequest, owner: Owner) -> Option<String> {
        let now = Instant::now();
        let mut slots = self.0.lock();
        slots.retain(|_, slot| slot.expires > now);
        if slots.len() >= MAX_SUSPENDED_REQUESTS {
            return None;
        }
        let name = Uuid::new_v4().simple().to_string();
        let slot = Slot {
            suspended,
            owner,
            expires: now + ANSWER_TIMEOUT,
        };
        slots.insert(name.clone(), slot);
        Some(name)
    }

    /// Removes and returns the request with this name, if it belongs to this owner.
    pub(super) fn take(&self, name: &str, owner: &Owner) -> Option<SuspendedRequest> {
        let mut slots = self.0.lock();
        let fits = |slot: &&Slot| slot.owner == *owner && slot.expires > Instant::now();
        slots.get(name).filter(fits)?;
        slots.remove(name).map(|slot| slot.suspended)
    }
}
