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

use super::during::During;
use crate::backend::Failure;

/// How long a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// More than that at once is no conversation but an attack.
const MAX_PARKED: usize = 1_000;

/// A request under way at a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, Failure>> + Send>>;

/// A request that the backend works on while it waits for an answer (2024-11-05 to 2025-11-25).
pub(super) struct Parked {
    pub(super) pending: Pending,
    pub(super) during: Arc<During>,
    pub(super) answer: oneshot::Sender<Value>,
}

struct Place {
    parked: Parked,
    /// Whose call it is, and of what.
    owner: Owner,
    until: Instant,
}

/// What a call must be to go on with a parked exchange.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) caller: Option<Arc<str>>,
    pub(super) backend: Arc<str>,
    pub(super) method: String,
    pub(super) item: String,
}

/// The exchanges that wait, by the name of their question.
#[derive(Default)]
pub(crate) struct Parking(Mutex<HashMap<String, Place>>);

impl Parking {
    /// Parks an exchange and gives it a name. `None` if too many are parked.
    pub(super) fn park(&self, parked: Parked, owner: Owner) -> Option<String> {
        let now = Instant::now();
        let mut places = self.0.lock();
        places.retain(|_, place| place.until > now);
        if places.len() >= MAX_PARKED {
            return None;
        }
        let name = Uuid::new_v4().simple().to_string();
        let until = now + PATIENCE;
        let place = Place {
            parked,
            owner,
            until,
        };
        places.insert(name.clone(), place);
        Some(name)
    }

    /// Takes the exchange with this name, if it is of this call.
    pub(super) fn take(&self, name: &str, owner: &Owner) -> Option<Parked> {
        let mut places = self.0.lock();
        let fits = |place: &Place| place.owner == *owner && place.until > Instant::now();
        places.get(name).filter(|place| fits(place))?;
        places.remove(name).map(|place| place.parked)
    }
}
