//! Resources of a backend that runs at one replica, which clients of the others watch. Each replica shows in its report
//! what its clients watch, and the one that runs the backend how often each of these was updated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcp_core::server::{ReplicaId, ServerChange, Subscription};
use parking_lot::Mutex;

use super::Backend;
/// Limit for the resources of one backend in a report.
const MAX_WATCHED: usize = 100;

/// The resources that other replicas watch here, and the updates that others have shown.
#[derive(Default)]
pub(super) struct WatchedForOthers {
    /// By URI: the subscription, and the number of updates since it began.
    here: Mutex<BTreeMap<String, (Subscription, u64)>>,
    /// The numbers that were read last.
    seen: Mutex<BTreeMap<(ReplicaId, String), u64>>,
}

/// Resources of a backend, as another replica has shown them.
pub(crate) struct WatchedAt<'a> {
    pub(crate) replica: ReplicaId,
    /// The resources that its clients watch elsewhere.
    pub(crate) watched: &'a BTreeSet<String>,
    /// The number of updates of those that others watch there.
    pub(crate) updates: &'a BTreeMap<String, u64>,
}

impl Backend {
    /// The resources that clients of this replica watch, if another one runs the backend.
    pub(crate) fn watched_elsewhere(&self) -> BTreeSet<String> {
        if !self.is_elsewhere() {
            return BTreeSet::new();
        }
        let watched = self.signals.changes.subscribed_uris();
        let watched = self.watched_resources(&watched.borrow());
        watched.into_iter().take(MAX_WATCHED).collect()
    }

    /// The number of updates of each resource that other replicas watch here.
    pub(crate) fn updates_for_others(&self) -> BTreeMap<String, u64> {
        let here = self.watched_for_others.here.lock();
        let updates = here.iter();
        updates
            .map(|(uri, (_, count))| (uri.clone(), *count))
            .collect()
    }

    /// Announces an update of a resource, also to the clients of other replicas.
    pub(super) fn updated(&self, uri: String) {
        let owners = Arc::clone(&self.signals.owners.lock());
        if !owners.may_announce(&self.key, &uri) {
            tracing::debug!(backend = %self.key, ?uri, "announced a change of a resource that is not its own");
            return;
        }
        let mut here = self.watched_for_others.here.lock();
        if let Some((_, count)) = here.get_mut(&uri) {
            *count += 1;
            if let Some(table) = &self.signals.replicas {
                table.show_now();
            }
        }
        drop(here);
        self.signals.changes.announce(ServerChange::Resource(uri));
    }

    /// Follows what the other replicas have shown about this backend, which runs at one of them or here.
    pub(crate) fn follow_others(&self, others: &[WatchedAt<'_>]) {
        let is_here = !self.is_elsewhere();
        let wanted = others.iter().flat_map(|other| other.watched);
        let wanted: BTreeSet<&String> = wanted.filter(|_| is_here).collect();
        let mut here = self.watched_for_others.here.lock();
        here.retain(|uri, _| wanted.contains(uri));
        for uri in wanted {
            let changes = &self.signals.changes;
            let begin = || (changes.subscribe(uri), 0);
            here.entry(uri.clone()).or_insert_with(begin);
        }
        drop(here);
        let updates = others.iter().flat_map(|other| {
            let updates = other.updates.iter();
            updates.map(|(uri, count)| ((other.replica, uri.clone()), *count))
        });
        let updates: BTreeMap<_, _> = updates.collect();
        let before = std::mem::replace(&mut *self.watched_for_others.seen.lock(), updates.clone());
        for (key, count) in updates {
            if count > 0 && before.get(&key) != Some(&count) {
                let change = ServerChange::Resource(key.1);
                self.signals.changes.announce(change);
            }
        }
    }
}
