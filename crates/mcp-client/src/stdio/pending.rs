//! Who waits for which answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::Error;
use crate::sink::Sink;

type Answer = Result<Box<RawValue>, Error>;

/// The requests that a child has not answered yet.
pub(super) struct Pending {
    peer: Arc<str>,
    state: Mutex<State>,
}

enum State {
    Open(HashMap<u64, Waiter>),
    /// The child is gone, and why.
    Closed(String),
}

struct Waiter {
    answer: oneshot::Sender<Answer>,
    sink: Arc<Sink>,
}

/// A place among the waiters, given up when it is dropped.
pub(super) struct Place<'a> {
    pending: &'a Pending,
    id: u64,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    pub(super) fn new(peer: Arc<str>) -> Self {
        Self {
            peer,
            state: Mutex::new(State::Open(HashMap::new())),
        }
    }

    /// Takes a place for the answer to `id`. After the child is gone there is none: nothing can be
    /// sent any more.
    pub(super) fn wait_for(&self, id: u64, sink: Sink) -> Result<Place<'_>, Error> {
        let mut state = self.lock();
        let State::Open(waiters) = &mut *state else {
            drop(state);
            return Err(self.unreachable());
        };
        let (sender, answer) = oneshot::channel();
        waiters.insert(
            id,
            Waiter {
                answer: sender,
                sink: Arc::new(sink),
            },
        );
        Ok(Place {
            pending: self,
            id,
            answer,
        })
    }

    /// Hands an answer to whom it belongs; false if nobody waits for it (any more).
    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        let Some(waiter) = self.remove(id) else {
            return false;
        };
        waiter.answer.send(answer).is_ok()
    }

    /// Who takes what belongs to a request.
    pub(super) fn sink(&self, id: u64) -> Option<Arc<Sink>> {
        match &*self.lock() {
            State::Open(waiters) => waiters.get(&id).map(|waiter| waiter.sink.clone()),
            State::Closed(_) => None,
        }
    }

    /// The same where nothing tells the request, but only one is under way for which somebody takes
    /// such things: who asks for a list, say, does not.
    pub(super) fn only_sink(&self) -> Option<Arc<Sink>> {
        let State::Open(waiters) = &*self.lock() else {
            return None;
        };
        let takes = |waiter: &&Waiter| waiter.sink.handler.is_some();
        let mut calls = waiters.values().filter(takes);
        let only = calls.next()?;
        calls.next().is_none().then(|| only.sink.clone())
    }

    /// How the child ended, if it has.
    pub(super) fn end(&self) -> Option<String> {
        match &*self.lock() {
            State::Open(_) => None,
            State::Closed(reason) => Some(reason.clone()),
        }
    }

    /// The error for what was going on when it ended.
    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::Closed {
            peer: self.peer.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Fails all who wait and all who come later. The first reason stays.
    pub(super) fn close(&self, reason: String) {
        let waiters = match &mut *self.lock() {
            State::Closed(_) => return,
            state @ State::Open(_) => match std::mem::replace(state, State::Closed(reason.clone()))
            {
                State::Open(waiters) => waiters,
                State::Closed(_) => return,
            },
        };
        for waiter in waiters.into_values() {
            // One who has gone meanwhile needs no error.
            let _ = waiter.answer.send(Err(self.closed(&reason)));
        }
    }

    /// The error for what can no longer be sent.
    pub(super) fn unreachable(&self) -> Error {
        let reason = self.end().unwrap_or_else(|| "it is ending".to_owned());
        Error::Unreachable {
            peer: self.peer.clone(),
            source: reason.into(),
        }
    }

    fn remove(&self, id: u64) -> Option<Waiter> {
        match &mut *self.lock() {
            State::Open(waiters) => waiters.remove(&id),
            State::Closed(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Waits until the child has answered or is gone.
    pub(super) async fn answer(mut self) -> Answer {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.pending.closed("the connection was dropped")),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pending.remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(json: &str) -> Answer {
        Ok(RawValue::from_string(json.to_owned()).unwrap())
    }

    fn count(pending: &Pending) -> usize {
        match &*pending.lock() {
            State::Open(waiters) => waiters.len(),
            State::Closed(_) => 0,
        }
    }

    #[tokio::test]
    async fn an_answer_finds_its_waiter_once() {
        let pending = Pending::new("child".into());
        let one = pending.wait_for(1, Sink::default()).unwrap();
        let two = pending.wait_for(2, Sink::default()).unwrap();
        assert!(pending.answer(2, result("22")));
        assert!(!pending.answer(2, result("23")));
        assert!(!pending.answer(3, result("33")));
        assert!(pending.answer(1, result("11")));
        assert_eq!(one.answer().await.unwrap().get(), "11");
        assert_eq!(two.answer().await.unwrap().get(), "22");
        assert_eq!(count(&pending), 0);
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind() {
        let pending = Pending::new("child".into());
        drop(pending.wait_for(1, Sink::default()).unwrap());
        assert_eq!(count(&pending), 0);
        assert!(!pending.answer(1, result("1")));
    }

    #[tokio::test]
    async fn the_end_reaches_everybody() {
        let pending = Pending::new("child".into());
        let waiting = pending.wait_for(1, Sink::default()).unwrap();
        pending.close("exit status: 3".to_owned());
        pending.close("later".to_owned());
        let error = waiting.answer().await.unwrap_err();
        assert_eq!(error.to_string(), "child is gone: exit status: 3");
        assert!(!error.was_not_sent());
        let error = pending
            .wait_for(2, Sink::default())
            .map(|_| ())
            .unwrap_err();
        assert!(error.was_not_sent(), "{error}");
        let source = std::error::Error::source(&error).unwrap();
        assert_eq!(source.to_string(), "exit status: 3");
    }
}
