//! Exchanges that wait for a client to come back (2026-07-28, "Multi Round-Trip Requests"): its call
//! has ended with a question of the backend, and goes on when it is repeated with the answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use uuid::Uuid;

use super::during::{During, Question};
use crate::backend::Failure;

/// How long a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// More than that at once is no conversation but an attack.
const MAX_PARKED: usize = 1_000;
/// What the names of questions begin with.
const PREFIX: &str = "gateway-";

/// A request under way at a backend.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Box<RawValue>, Failure>> + Send>>;

/// What goes on when the client comes back.
pub(super) enum Parked {
    /// The backend waits for the answer while it works on the request (2024-11-05 to 2025-11-25).
    Working {
        pending: Pending,
        during: Arc<During>,
        questions: mpsc::Receiver<Question>,
        answer: oneshot::Sender<Value>,
    },
    /// The backend wants to be asked again with the answers and what it has sent (2026-07-28).
    Returning { state: Option<Box<RawValue>> },
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
    /// Parks an exchange; the names of its questions begin with what is returned. `None` if too many
    /// are parked.
    pub(super) fn park(&self, parked: Parked, owner: Owner) -> Option<String> {
        let now = Instant::now();
        let mut places = self.places();
        places.retain(|_, place| place.until > now);
        if places.len() >= MAX_PARKED {
            return None;
        }
        let name = format!("{PREFIX}{}", Uuid::new_v4().simple());
        let until = now + PATIENCE;
        let place = Place {
            parked,
            owner,
            until,
        };
        places.insert(name.clone(), place);
        Some(name)
    }

    /// Takes the exchange that one of `answers` is for.
    ///
    /// # Errors
    /// When there are answers to questions of the gateway, but nothing waits for them: starting
    /// anew could do twice what was asked for once.
    pub(super) fn take(
        &self,
        answers: &serde_json::Map<String, Value>,
        owner: &Owner,
    ) -> Result<Option<(String, Parked)>, ()> {
        let names = answers
            .keys()
            .filter(|key| key.starts_with(PREFIX))
            .filter_map(|key| key.split('.').next());
        let mut is_ours = false;
        let mut places = self.places();
        for name in names {
            is_ours = true;
            let fits = |place: &Place| place.owner == *owner && place.until > Instant::now();
            if places.get(name).is_some_and(fits)
                && let Some(place) = places.remove(name)
            {
                return Ok(Some((name.to_owned(), place.parked)));
            }
        }
        if is_ours { Err(()) } else { Ok(None) }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
