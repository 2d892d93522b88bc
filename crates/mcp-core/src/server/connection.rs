//! What a server remembers about a peer that stays: the requests that it may still cancel.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::jsonrpc::Id;
use crate::revision::Revision;

/// One stdio connection or one session: the negotiated revision and the requests in flight.
#[derive(Default)]
pub struct Connection {
    negotiated: Mutex<Option<Revision>>,
    in_flight: Mutex<HashMap<String, CancellationToken>>,
}

impl Connection {
    /// What `initialize` agreed on, once it did.
    pub fn negotiated(&self) -> Option<Revision> {
        *self
            .negotiated
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn negotiate(&self, revision: Revision) {
        *self
            .negotiated
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(revision);
    }

    /// Notes that `id` can be cancelled through `token` until the guard is dropped.
    pub(super) fn enter(&self, id: Id<'_>, token: CancellationToken) -> InFlight<'_> {
        let id = id.as_json().to_owned();
        self.with_in_flight(|in_flight| in_flight.insert(id.clone(), token));
        InFlight {
            connection: self,
            id,
        }
    }

    /// Handles `notifications/cancelled`. An unknown id belongs to a request that was just
    /// answered, which the specification says to ignore.
    pub(super) fn cancel(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "requestId")]
            request_id: &'a RawValue,
        }
        let Some(params) =
            params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok())
        else {
            return;
        };
        if let Some(token) =
            self.with_in_flight(|in_flight| in_flight.remove(params.request_id.get()))
        {
            token.cancel();
        }
    }

    fn with_in_flight<T>(
        &self,
        change: impl FnOnce(&mut HashMap<String, CancellationToken>) -> T,
    ) -> T {
        change(
            &mut self
                .in_flight
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// A request that can be cancelled.
pub(super) struct InFlight<'a> {
    connection: &'a Connection,
    id: String,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.connection
            .with_in_flight(|in_flight| in_flight.remove(&self.id));
    }
}
