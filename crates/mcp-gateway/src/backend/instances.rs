//! Instances of a backend with `isolation`: each caller has its own child process or upstream session,
//! which its first call starts. One task owns each instance, from its start to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{CallerId, Client, Counters, EraChoice};
use mcp_core::era::Era;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use upstream::redact::redacted;

use super::request::CircuitBreaker;
use super::supervise::{STREAM_TIMEOUT, enable_all_log_levels};
use super::{Backend, BackendCaller, connect};
use crate::config::Isolation;

/// Default of `idle_timeout` for instances.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Interval until an instance that did not start is tried again.
const START_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The instances of one backend.
#[derive(Default)]
pub(super) struct Instances {
    by_caller: Mutex<BTreeMap<InstanceKey, Arc<Instance>>>,
    tasks: TaskTracker,
}

/// The callers of one instance.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InstanceKey {
    /// The only caller; `None` for all that share it.
    caller: Option<CallerId>,
    /// Its connection is of the era before 2026-07-28, whatever else the server speaks.
    pub(super) is_legacy: bool,
}

/// The instance of one caller.
pub(super) struct Instance {
    /// The client once it is started, or the reason why it did not start.
    client: watch::Sender<Option<Result<Client, String>>>,
    pub(super) breaker: Arc<CircuitBreaker>,
    /// One permit for each request in flight: an instance that hangs must not keep others waiting.
    pub(super) permits: Arc<Semaphore>,
    /// Number of requests that use it.
    users: AtomicUsize,
    last_used: Mutex<Instant>,
    /// Cancelled to end it.
    end: CancellationToken,
}

/// The use of an instance by one request, which keeps it from being ended as idle.
pub(crate) struct Lease(pub(super) Arc<Instance>);

impl Instances {
    /// The number of instances.
    pub(super) fn len(&self) -> usize {
        self.by_caller.lock().len()
    }

    /// The number of requests in flight to all of them, which have so many `places` each.
    pub(super) fn in_flight(&self, places: usize) -> usize {
        let by_caller = self.by_caller.lock();
        let in_flight = by_caller
            .values()
            .map(|instance| places.saturating_sub(instance.permits.available_permits()));
        in_flight.sum()
    }

    /// Ends all of them; the next call of a caller starts a new one.
    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.by_caller.lock());
        ended.values().for_each(|instance| instance.end.cancel());
    }

    /// Waits until all of them have ended.
    pub(super) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// The sum of the counters of all of them.
    pub(super) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for instance in self.by_caller.lock().values() {
            sum += instance.counters();
        }
        sum
    }

    /// Returns the instance of a caller, and whether it is new. At `limit` it ends the one that was not
    /// used for the longest time; `None` if all are in use.
    fn lease(
        &self,
        caller: &InstanceKey,
        limit: usize,
        max_in_flight: usize,
    ) -> Option<(Lease, bool)> {
        let mut all = self.by_caller.lock();
        if let Some(instance) = all.get(caller) {
            return Some((Lease::new(instance), false));
        }
        if all.len() >= limit {
            let unused = all.iter().filter(|(_, instance)| instance.is_unused());
            let oldest = unused.min_by_key(|(_, instance)| *instance.last_used.lock());
            let oldest = oldest.map(|(caller, _)| caller.clone())?;
            if let Some(instance) = all.remove(&oldest) {
                instance.end.cancel();
            }
        }
        let instance = Arc::new(Instance {
            client: watch::Sender::default(),
            breaker: Arc::default(),
            permits: Arc::new(Semaphore::new(max_in_flight)),
            users: AtomicUsize::default(),
            last_used: Mutex::new(Instant::now()),
            end: CancellationToken::new(),
        });
        all.insert(caller.clone(), Arc::clone(&instance));
        Some((Lease::new(&instance), true))
    }

    /// Removes an instance, so that the next call starts another one; with `if_unused` not while a request uses it.
    /// Returns false if it stays.
    fn remove(&self, caller: &InstanceKey, instance: &Arc<Instance>, if_unused: bool) -> bool {
        // Under the lock, so that no request begins to use it.
        let mut all = self.by_caller.lock();
        let is_removed = !if_unused || instance.is_unused();
        let found = all.get(caller).filter(|_| is_removed);
        if found.is_some_and(|found| Arc::ptr_eq(found, instance)) {
            all.remove(caller);
        }
        is_removed
    }
}

impl Instance {
    fn is_unused(&self) -> bool {
        self.users.load(Ordering::Relaxed) == 0
    }

    /// Its client, if it is started.
    pub(super) fn client(&self) -> Option<Client> {
        self.client.borrow().clone()?.ok()
    }

    fn counters(&self) -> Counters {
        let client = self.client();
        client.as_ref().map(Client::counters).unwrap_or_default()
    }

    /// Completes when no request has used it for this time.
    async fn unused(&self, time: Duration) {
        loop {
            let until = *self.last_used.lock() + time;
            match until > Instant::now() {
                true => tokio::time::sleep_until(until).await,
                false if self.is_unused() => return,
                false => tokio::time::sleep(time).await,
            }
        }
    }
}

impl Lease {
    fn new(instance: &Arc<Instance>) -> Self {
        instance.users.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(instance))
    }

    /// Waits until the instance is started.
    async fn client(&self) -> Result<Client, String> {
        let mut started = self.0.client.subscribe();
        // The sender lives as long as `self`.
        let client = started.wait_for(Option::is_some).await;
        let client = client.ok().and_then(|client| client.clone());
        client.unwrap_or_else(|| Err("it was ended".to_owned()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.last_used.lock() = Instant::now();
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backend {
    /// The instance that a caller uses; `None` for the shared process.
    pub(super) fn instance_key(&self, caller: Option<&BackendCaller>) -> Option<InstanceKey> {
        let caller = caller?;
        let is_isolated = caller.isolation != Isolation::Shared;
        let is_legacy = caller.asks_as_before && self.speaks_both_eras();
        (is_isolated || is_legacy).then(|| InstanceKey {
            caller: is_isolated.then(|| caller.id.clone()),
            is_legacy,
        })
    }

    /// True if its connection is of the newest era, and one of an earlier era may be possible. A server that speaks both
    /// often has questions for clients of the earlier one that it does not ask on a connection of the newer one.
    fn speaks_both_eras(&self) -> bool {
        let is_chosen = self.config.era == EraChoice::Newest && !self.config.is_alone;
        let lacks_legacy = self.lacks_legacy.load(Ordering::Relaxed);
        is_chosen && !lacks_legacy && self.era() == Some(Era::Modern)
    }

    /// Returns the instance of a caller and its client; not the instance `exited`, which has ended.
    ///
    /// # Errors
    /// The reason, to follow the name of the backend. `None` if it does not speak the era of the instance.
    pub(super) async fn lease(
        self: &Arc<Self>,
        caller: &BackendCaller,
        key: &InstanceKey,
        exited: Option<&Lease>,
    ) -> Result<(Lease, Client), Option<String>> {
        if let Some(Lease(instance)) = exited {
            self.instances.remove(key, instance, false);
        }
        let limit = self.config.max_instances as usize;
        let max_in_flight = self.config.max_in_flight as usize;
        let leased = self.instances.lease(key, limit, max_in_flight);
        let Some((lease, is_new)) = leased else {
            return Err(Some(format!(
                "serves {limit} callers at the moment, the limit of `max_instances`; try again later"
            )));
        };
        if is_new {
            let (backend, caller) = (Arc::clone(self), caller.clone());
            let (key, instance) = (key.clone(), Arc::clone(&lease.0));
            self.instances
                .tasks
                .spawn(async move { backend.run_instance(&caller, &key, &instance).await });
        }
        let client = lease.client().await.map_err(|reason| {
            let is_spoken = !key.is_legacy || !self.lacks_legacy.load(Ordering::Relaxed);
            is_spoken.then(|| format!("does not start for this caller ({reason}); try again later"))
        })?;
        Ok((lease, client))
    }

    /// Keeps the instance of a caller, if there is one, from being ended as idle.
    pub(crate) fn keep_instance(&self, caller: Option<&BackendCaller>) -> Option<Lease> {
        let key = self.instance_key(caller)?;
        let all = self.instances.by_caller.lock();
        all.get(&key).map(Lease::new)
    }

    /// Starts an instance, and ends it when it is not needed any more.
    async fn run_instance(
        self: &Arc<Self>,
        caller: &BackendCaller,
        key: &InstanceKey,
        instance: &Arc<Instance>,
    ) {
        let reason = tokio::select! {
            reason = self.serve_instance(key, instance) => reason,
            () = caller.left(), if key.caller.is_some() => "its caller has left".to_owned(),
            () = instance.end.cancelled() => "it was ended for a restart or for others".to_owned(),
            () = self.removed.cancelled() => "the backend is stopped".to_owned(),
        };
        tracing::debug!(backend = %self.key, reason, "an instance has ended");
        self.instances.remove(key, instance, false);
        // Requests that still wait for its start get an error.
        let client = instance.client.send_replace(Some(Err(reason)));
        if let Some(Ok(client)) = client {
            client.close().await;
            *self.metrics.earlier.lock() += client.counters();
        }
    }

    /// Starts an instance and waits until it has ended by itself or is idle. Returns the reason.
    async fn serve_instance(
        self: &Arc<Self>,
        key: &InstanceKey,
        instance: &Arc<Instance>,
    ) -> String {
        let era = match key.is_legacy {
            true => EraChoice::Legacy,
            false => self.config.era,
        };
        let connecting = connect::connect(
            &self.config,
            era,
            &self.tokens,
            Arc::clone(&self.notifications),
        );
        let client = match connecting.await {
            Ok(client) => client,
            Err(reason) => {
                let reason = redacted(&reason).into_owned();
                if key.is_legacy {
                    tracing::debug!(backend = %self.key, "speaks the newest era only: {reason}");
                    self.lacks_legacy.store(true, Ordering::Relaxed);
                } else {
                    tracing::warn!(backend = %self.key, "an instance does not start: {reason}");
                    self.failed.notify_one();
                }
                let failed = Some(Err(reason.clone()));
                instance.client.send_replace(failed);
                if !key.is_legacy {
                    tokio::time::sleep(START_RETRY_INTERVAL).await;
                }
                return reason;
            }
        };
        enable_all_log_levels(&client).await;
        let opened = Notify::new();
        // A resource changes in the instance whose caller has changed it.
        let listening = async {
            match client.era() {
                Era::Unversioned => opened.notify_one(),
                _ => _ = self.listen(&client, &opened).await,
            }
            std::future::pending().await
        };
        let serving = async {
            let _ = tokio::time::timeout(STREAM_TIMEOUT, opened.notified()).await;
            instance.client.send_replace(Some(Ok(client.clone())));
            let idle_timeout = self.config.idle_timeout.unwrap_or(IDLE_TIMEOUT);
            loop {
                instance.unused(idle_timeout).await;
                if self.instances.remove(key, instance, true) {
                    return "it was idle".to_owned();
                }
            }
        };
        tokio::select! {
            reason = client.closed() => {
                // The next call of its caller starts it again.
                self.metrics.restarts.inc();
                reason
            }
            reason = serving => reason,
            never = listening => never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_instance_does_not_cut_off_the_others() {
        let instances = Instances::default();
        let lease = |caller: &str| {
            let key = InstanceKey {
                caller: Some(CallerId::Name(caller.into())),
                is_legacy: false,
            };
            let (lease, _) = instances.lease(&key, 9, 1).unwrap();
            lease
        };
        let (alice, bob) = (lease("alice"), lease("bob"));
        while !alice.0.breaker.failed() {}
        assert!(lease("alice").0.breaker.enter().is_err());
        assert!(bob.0.breaker.enter().is_ok());
        let _busy = alice.0.permits.try_acquire().unwrap();
        assert!(lease("alice").0.permits.try_acquire().is_err());
        assert!(bob.0.permits.try_acquire().is_ok());
        let probe = alice.0.breaker.begin_probe();
        assert!(probe.is_some() && lease("alice").0.breaker.begin_probe().is_none());
        assert!(bob.0.breaker.begin_probe().is_some());
        drop(probe);
        assert!(alice.0.breaker.begin_probe().is_some());
    }
}
