//! Polls services for changes of subscribed resources: with backoff while nothing changes, and not at
//! all without subscribers.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use mcp_core::server::{ChangeNotifier, ServerChange, SubscribedUris};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

use crate::random;

const MAX_CONCURRENT_POLLS: usize = 4;

/// A part of a service that resources show, polled while one of them has subscribers. Remembers what it
/// has seen.
pub trait PollTarget: Send {
    /// Polls the service. Returns the URIs of the `watched` resources that have changed since the last
    /// poll.
    fn poll(&mut self, watched: &BTreeSet<String>) -> impl Future<Output = Vec<String>> + Send;

    /// The delays between polls while nothing changes, from now on.
    fn backoff(&self) -> Backoff;
}

struct Entry<S> {
    target: S,
    watched: BTreeSet<String>,
    delays: Delays,
    due: Instant,
}

impl<S: PollTarget> Entry<S> {
    fn new(target: S) -> Self {
        let now = Instant::now();
        Self {
            watched: BTreeSet::new(),
            delays: target.backoff().delays(),
            target,
            due: now,
        }
    }

    async fn poll(&mut self) -> Vec<String> {
        let changed = self.target.poll(&self.watched).await;
        self.delays.backoff = self.target.backoff();
        if !changed.is_empty() {
            self.delays.reset();
        }
        self.due = Instant::now() + self.delays.next_delay();
        changed
    }
}

/// Announces changes of watched resources until the future is dropped. Resources with the same `key`
/// share one target, which `open` makes; those without a key never change.
pub async fn watch<K: Ord + Send, S: PollTarget>(
    changes: &ChangeNotifier,
    key: impl Fn(&str) -> Option<K> + Send,
    open: impl Fn(&K) -> S + Send,
) {
    let announce_all = |changed| announce(changes, changed);
    poll_subscribed(changes.subscribed_uris(), key, open, announce_all).await;
}

async fn poll_subscribed<K: Ord, S: PollTarget, F: Future<Output = ()>>(
    mut watched: Receiver<SubscribedUris>,
    key: impl Fn(&str) -> Option<K>,
    open: impl Fn(&K) -> S,
    announce_all: impl Fn(Vec<String>) -> F,
) {
    let mut entries: BTreeMap<K, Entry<S>> = BTreeMap::new();
    loop {
        update_entries(&mut entries, &watched.borrow_and_update(), &key, &open);
        let now = Instant::now();
        let due = entries.values_mut().filter(|entry| entry.due <= now);
        let polls = due.map(|entry| async { announce_all(entry.poll().await).await });
        stream::iter(polls)
            .for_each_concurrent(MAX_CONCURRENT_POLLS, |poll| poll)
            .await;
        let next = entries.values().map(|entry| entry.due).min();
        tokio::select! {
            () = sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            changed = watched.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Removes targets that are no longer watched and adds new ones, which are due now.
fn update_entries<K: Ord, S: PollTarget>(
    entries: &mut BTreeMap<K, Entry<S>>,
    watched: &SubscribedUris,
    key: impl Fn(&str) -> Option<K>,
    open: impl Fn(&K) -> S,
) {
    for entry in entries.values_mut() {
        entry.watched.retain(|uri| watched.contains_key(uri));
    }
    for uri in watched.keys() {
        let Some(key) = key(uri) else { continue };
        let entry = match entries.entry(key) {
            MapEntry::Occupied(known) => known.into_mut(),
            MapEntry::Vacant(new) => {
                let target = open(new.key());
                new.insert(Entry::new(target))
            }
        };
        if entry.watched.insert(uri.clone()) {
            entry.delays.reset();
            entry.due = Instant::now();
        }
    }
    entries.retain(|_, entry| !entry.watched.is_empty());
}

/// The number of announcements after which a pause lets subscribers catch up: one that lags behind is
/// only notified that everything may have changed.
const BURST: usize = 32;
const BURST_DELAY: Duration = Duration::from_millis(2);

/// Announces changes of the resources that have subscribers. Others are skipped, so that they cannot
/// make a slow subscriber lag behind.
pub async fn announce(changes: &ChangeNotifier, uris: impl IntoIterator<Item = String>) {
    let watched = changes.subscribed_uris();
    let uris = uris.into_iter();
    let uris: Vec<String> = uris
        .filter(|uri| watched.borrow().contains_key(uri))
        .collect();
    for (number, uri) in uris.into_iter().enumerate() {
        if number % BURST == BURST - 1 {
            sleep(BURST_DELAY).await;
        }
        changes.announce(ServerChange::Resource(uri));
    }
}

/// The bounds and the growth of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    factor: f64,
}

impl Backoff {
    /// Delays that double, from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            factor: 2.0,
        }
    }

    /// Sets the factor from one delay to the next.
    pub const fn with_factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Returns the delays, from the first one on.
    pub const fn delays(self) -> Delays {
        Delays {
            backoff: self,
            last: None,
        }
    }
}

/// The state of one retry loop.
#[derive(Clone, Debug)]
pub struct Delays {
    backoff: Backoff,
    last: Option<Duration>,
}

impl Delays {
    /// Returns the next delay: longer than the last one, with a jitter of up to a tenth, so that many
    /// clients do not retry at the same time.
    pub fn next_delay(&mut self) -> Duration {
        let Backoff {
            first,
            longest,
            factor,
        } = self.backoff;
        let delay = self.last.map_or(first, |last| last.mul_f64(factor));
        let delay = delay.min(longest);
        self.last = Some(delay);
        delay.mul_f64(1.0 - random::fraction() / 10.0)
    }

    /// Waits for the next delay.
    pub async fn sleep(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::sleep;

    use super::*;

    /// A number that several resources show.
    #[derive(Clone, Default)]
    struct Number {
        now: Arc<AtomicU32>,
        polls: Arc<AtomicU32>,
        seen: Option<u32>,
    }

    impl PollTarget for Number {
        async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
            self.polls.fetch_add(1, SeqCst);
            let now = self.now.load(SeqCst);
            match self.seen.replace(now).is_some_and(|seen| seen != now) {
                true => watched.iter().cloned().collect(),
                false => Vec::new(),
            }
        }

        fn backoff(&self) -> Backoff {
            Backoff::new(Duration::from_secs(1), Duration::from_secs(64))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watched_resources_are_polled_and_announced() {
        let number = Number::default();
        let announced = Arc::new(Mutex::new(Vec::new()));
        let (sender, watched) = watch::channel(SubscribedUris::new());
        let (one, all) = (number.clone(), Arc::clone(&announced));
        let running = tokio::spawn(async move {
            let announce_all = |uris| {
                all.lock().unwrap().extend::<Vec<String>>(uris);
                std::future::ready(())
            };
            let key = |uri: &str| uri.strip_prefix("n://").map(|_| ());
            poll_subscribed(watched, key, |()| one.clone(), announce_all).await;
        });
        let watch = |uris: &[&str]| {
            let uris = uris.iter().map(|uri| ((*uri).to_owned(), 1));
            sender.send_replace(uris.collect());
        };
        let seconds = |seconds| sleep(Duration::from_secs(seconds));
        let polls = || number.polls.swap(0, SeqCst);
        let announced = || std::mem::take(&mut *announced.lock().unwrap());

        seconds(1000).await;
        assert_eq!(polls(), 0, "no subscribers");

        watch(&["n://a", "n://b", "other://c"]);
        seconds(100).await;
        // At 0, 1, 3, 7, 15, 31 and 63 s.
        assert_eq!((polls(), announced().len()), (7, 0));

        number.now.store(1, SeqCst);
        // The next poll is at 127 s, or up to a tenth of each delay earlier.
        let mut first = Vec::new();
        while first.is_empty() {
            seconds(1).await;
            first = announced();
        }
        assert_eq!(first, ["n://a", "n://b"]);
        assert!((1..=2).contains(&polls()));

        // After a change the delays are short again.
        watch(&["n://b"]);
        number.now.store(2, SeqCst);
        seconds(4).await;
        assert_eq!(announced(), ["n://b"]);

        watch(&[]);
        polls();
        seconds(1000).await;
        assert_eq!(polls(), 0, "no subscribers any more");

        drop(sender);
        running.await.unwrap();
    }

    #[test]
    fn delays_grow_to_the_longest_until_reset() {
        let seconds = Duration::from_secs;
        let mut delays = Backoff::new(seconds(1), seconds(5)).delays();
        for expected in [1, 2, 4, 5, 5] {
            let delay = delays.next_delay();
            let shortest = seconds(expected) - Duration::from_millis(100 * expected);
            assert!((shortest..=seconds(expected)).contains(&delay), "{delay:?}");
        }
        delays.reset();
        assert!(delays.next_delay() <= seconds(1));
        delays.backoff = Backoff::new(seconds(1), seconds(60)).with_factor(20.0);
        assert!(delays.next_delay() >= seconds(18));
    }
}
