//! The requests that a child has not answered yet.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::Error;
use crate::response_routes::ResponseRoutes;

type Outcome = Result<Box<RawValue>, Error>;

/// All pending requests of a child.
pub(crate) struct Pending {
    peer: Arc<str>,
    /// The requests by id, or the reason why the child is gone.
    requests: Mutex<Result<HashMap<u64, Waiting>, String>>,
}

struct Waiting {
    outcome: oneshot::Sender<Outcome>,
    routes: Arc<ResponseRoutes>,
}

/// The receiver of one request's outcome. Dropping it removes the request.
pub(super) struct PendingRequest<'a> {
    pending: &'a Pending,
    id: u64,
    outcome: oneshot::Receiver<Outcome>,
}

impl Pending {
    pub(super) fn new(peer: Arc<str>) -> Self {
        Self {
            peer,
            requests: Mutex::new(Ok(HashMap::new())),
        }
    }

    /// Registers a request, before it is sent. An error if the child is gone.
    pub(super) fn register(
        &self,
        id: u64,
        routes: Arc<ResponseRoutes>,
    ) -> Result<PendingRequest<'_>, Error> {
        let (sender, outcome) = oneshot::channel();
        let waiting = Waiting {
            outcome: sender,
            routes,
        };
        match &mut *self.requests.lock() {
            Ok(requests) => drop(requests.insert(id, waiting)),
            Err(reason) => return Err(self.unreachable(reason)),
        }
        Ok(PendingRequest {
            pending: self,
            id,
            outcome,
        })
    }

    /// Passes an outcome to its request; returns false if no request has this id.
    pub(crate) fn resolve(&self, id: u64, outcome: Outcome) -> bool {
        let waiting = self.remove(id);
        waiting.is_some_and(|waiting| waiting.outcome.send(outcome).is_ok())
    }

    /// The routes of a request.
    pub(super) fn routes(&self, id: u64) -> Option<Arc<ResponseRoutes>> {
        let requests = self.requests.lock();
        let waiting = requests.as_ref().ok()?.get(&id)?;
        Some(waiting.routes.clone())
    }

    /// The reason why the child is gone.
    pub(super) fn end(&self) -> Option<String> {
        self.requests.lock().as_ref().err().cloned()
    }

    /// The error of requests that were in flight when the child ended.
    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::closed(&self.peer, reason)
    }

    /// Fails all pending and later requests. The first reason stays.
    pub(crate) fn close(&self, reason: String) {
        let requests = {
            let mut requests = self.requests.lock();
            if requests.is_err() {
                return;
            }
            std::mem::replace(&mut *requests, Err(reason.clone()))
        };
        for waiting in requests.into_iter().flat_map(HashMap::into_values) {
            // The receiver may be gone by now.
            let _ = waiting.outcome.send(Err(self.closed(&reason)));
        }
    }

    /// The error of requests that can no longer be sent.
    pub(super) fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable {
            peer: self.peer.clone(),
            source: reason.into(),
        }
    }

    fn remove(&self, id: u64) -> Option<Waiting> {
        self.requests.lock().as_mut().ok()?.remove(&id)
    }
}

impl PendingRequest<'_> {
    /// Waits until the child has answered or is gone.
    pub(super) async fn outcome(mut self) -> Outcome {
        let outcome = (&mut self.outcome).await;
        outcome.unwrap_or_else(|_| Err(self.pending.closed("the connection was dropped")))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.pending.remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(json: &str) -> Outcome {
        Ok(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn register(pending: &Pending, id: u64) -> Result<PendingRequest<'_>, Error> {
        pending.register(id, Arc::default())
    }

    fn is_empty(pending: &Pending) -> bool {
        pending.requests.lock().as_ref().unwrap().is_empty()
    }

    #[tokio::test]
    async fn dropped_requests_are_removed() {
        let pending = Pending::new("child".into());
        drop(register(&pending, 1).unwrap());
        assert!(is_empty(&pending));
        assert!(!pending.resolve(1, result("1")));
    }
}
