//! Requests that wait at a backend for a client to come back (2026-07-28, "Multi Round-Trip
//! Requests"): its call has ended with a question of the backend, and goes on when it is repeated
//! with the answer.

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
use crate::backend::Failure;

/// How long a person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// More than that at once is no conversation but an attack.
const MAX_SUSPENDED: usize = 1_000;

/// A request under way at a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, Failure>> + Send>>;

/// A request that was sent, and the handler of what the backend says meanwhile.
pub(super) struct SentRequest {
    pub(super) pending: Pending,
    pub(super) handler: Arc<CallHandler>,
}

/// A request that the backend works on while it waits for an answer (2024-11-05 to 2025-11-25).
pub(super) struct SuspendedRequest {
    pub(super) request: SentRequest,
    pub(super) answer: oneshot::Sender<Value>,
}

struct Slot {
    suspended: SuspendedRequest,
    /// The caller, and the item that is called.
    owner: Owner,
    until: Instant,
}

/// The identity of a call that may go on with a suspended request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) caller: Option<Arc<str>>,
    pub(super) backend: Arc<str>,
    pub(super) method: String,
    pub(super) item: String,
}

/// The requests that wait, by the name of their question.
#[derive(Default)]
pub(crate) struct SuspendedRequests(Mutex<HashMap<String, Slot>>);

impl SuspendedRequests {
    /// Suspends a request and gives it a name. `None` if too many are suspended.
    pub(super) fn add(&self, suspended: SuspendedRequest, owner: Owner) -> Option<String> {
        let now = Instant::now();
        let mut slots = self.0.lock();
        slots.retain(|_, slot| slot.until > now);
        if slots.len() >= MAX_SUSPENDED {
            return None;
        }
        let name = Uuid::new_v4().simple().to_string();
        let slot = Slot {
            suspended,
            owner,
            until: now + ANSWER_TIMEOUT,
        };
        slots.insert(name.clone(), slot);
        Some(name)
    }

    /// Takes the request with this name, if it is of this call.
    pub(super) fn take(&self, name: &str, owner: &Owner) -> Option<SuspendedRequest> {
        let mut slots = self.0.lock();
        let fits = |slot: &&Slot| slot.owner == *owner && slot.until > Instant::now();
        slots.get(name).filter(fits)?;
        slots.remove(name).map(|slot| slot.suspended)
    }
}
