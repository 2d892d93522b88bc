//! Limits the open streams of each client, and ends them when its token is revoked.

use std::collections::HashMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Counts the open streams of each client.
pub(super) struct StreamSlots {
    max_per_client: usize,
    open: Mutex<HashMap<String, usize>>,
}

/// The slot of one stream, released when dropped.
pub(super) struct StreamSlot {
    slots: Arc<StreamSlots>,
    client: String,
}

/// Ends a stream when the token of its client is removed.
pub(super) struct Revocation(Option<Pin<Box<WaitForCancellationFutureOwned>>>);

impl StreamSlots {
    pub(super) fn new(max_per_client: usize) -> Self {
        Self {
            max_per_client,
            open: Mutex::default(),
        }
    }

    /// The number of open streams.
    pub(super) fn len(&self) -> usize {
        self.open.lock().values().sum()
    }

    /// Takes a slot for a stream of `client`; `None` if the client has no slot left.
    pub(super) fn acquire(self: &Arc<Self>, client: String) -> Option<StreamSlot> {
        let mut open = self.open.lock();
        let count = open.get(&client).copied().unwrap_or_default();
        if count >= self.max_per_client {
            return None;
        }
        open.insert(client.clone(), count + 1);
        drop(open);
        Some(StreamSlot {
            slots: Arc::clone(self),
            client,
        })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock();
        if let Some(count) = open.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.client);
            }
        }
    }
}

impl Revocation {
    /// `revoked` is cancelled with the token; `None` where no token is required.
    pub(super) fn new(revoked: Option<CancellationToken>) -> Self {
        Self(revoked.map(|revoked| Box::pin(revoked.cancelled_owned())))
    }

    /// Returns true once the token is removed. Wakes the task when that happens.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let revoked = self.0.as_mut();
        revoked.is_some_and(|revoked| revoked.as_mut().poll(cx).is_ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_client_are_limited() {
        let slots = Arc::new(StreamSlots::new(2));
        let first = slots.acquire("a".into()).unwrap();
        let second = slots.acquire("a".into()).unwrap();
        assert!(slots.acquire("a".into()).is_none());
        let other = slots.acquire("b".into()).unwrap();
        drop(first);
        let third = slots.acquire("a".into()).unwrap();
        drop((second, third, other));
        assert!(slots.open.lock().is_empty());
    }

    #[test]
    fn stream_ends_when_its_token_is_revoked() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let token = CancellationToken::new();
        let mut revocation = Revocation::new(Some(token.clone()));
        assert!(!revocation.poll(&mut cx));
        token.cancel();
        assert!(revocation.poll(&mut cx));
        // Where no token is required, none is revoked.
        assert!(!Revocation::new(None).poll(&mut cx));
    }
}
