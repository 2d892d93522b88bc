//! Lets one call at a time change a workflow: a change is read, checked and written, and another one in
//! between would be lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use n8n_workflow::Id;
use tokio::sync::OwnedMutexGuard;

use super::Api;

/// The locks of workflows that are being changed; the others have none.
#[derive(Default)]
pub(super) struct WorkflowLocks {
    locks: Mutex<HashMap<Id, Weak<tokio::sync::Mutex<()>>>>,
}

/// The right to change a workflow, for as long as it lives.
pub(crate) struct WorkflowLock {
    pub(super) id: Id,
    _guard: OwnedMutexGuard<()>,
}

impl Api {
    /// Waits until no other call of this server changes the workflow.
    pub(crate) async fn lock(&self, id: &Id) -> WorkflowLock {
        let lock = self.locks.get(id);
        WorkflowLock {
            id: id.clone(),
            _guard: lock.lock_owned().await,
        }
    }
}

impl WorkflowLocks {
    fn get(&self, id: &Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(id).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        locks.insert(id.clone(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_workflow_has_one_lock_while_it_is_held() {
        let locks = WorkflowLocks::default();
        let id = |id: &str| Id::try_from(id.to_owned()).unwrap();
        let first = locks.get(&id("a")).lock_owned().await;
        assert!(locks.get(&id("a")).try_lock_owned().is_err());
        let second = locks.get(&id("b")).try_lock_owned().unwrap();
        drop(first);
        assert!(locks.get(&id("a")).try_lock_owned().is_ok());
        drop(second);
        locks.get(&id("c"));
        assert_eq!(locks.locks.lock().unwrap().len(), 1, "none is kept");
    }
}
