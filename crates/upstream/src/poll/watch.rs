//! Looking after the resources that somebody has subscribed to.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::select_all;
use futures_util::stream;
use mcp_core::server::{ChangeNotifier, SubscribedUris};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use super::announce;
use super::backoff::{Backoff, Delays};

/// Subjects that are looked at at the same time.
const MAX_LOOKS: usize = 4;

/// Something that resources show, and that is looked at while somebody has subscribed to one of
/// them. Remembers what it has seen.
pub trait PollTarget: Send {
    /// The least time between two looks: services may say many times within a second that
    /// something happens.
    const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);

    /// Looks at it. Returns those of the `watched` resources, in their URIs, that have changed since
    /// the last look.
    fn poll(&mut self, watched: &BTreeSet<String>) -> impl Future<Output = Vec<String>> + Send;

    /// The delays between two looks while nothing changes, from now on.
    fn backoff(&self) -> Backoff;

    /// Resolves when the service says that something happens, if it ever does. Dropped and called
    /// anew at any time.
    fn wait_for_event(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }
}

struct Entry<S> {
    subject: S,
    watched: BTreeSet<String>,
    delays: Delays,
    looked: Instant,
    due: Instant,
}

impl<S: PollTarget> Entry<S> {
    fn new(subject: S) -> Self {
        let now = Instant::now();
        Self {
            watched: BTreeSet::new(),
            delays: subject.backoff().delays(),
            subject,
            looked: now,
            due: now,
        }
    }

    async fn poll(&mut self) -> Vec<String> {
        let changed = self.subject.poll(&self.watched).await;
        self.delays.set_backoff(self.subject.backoff());
        if !changed.is_empty() {
            self.delays.reset();
        }
        self.looked = Instant::now();
        self.due = self.looked + self.delays.next_delay();
        changed
    }

    async fn wait_for_event(&mut self) {
        self.subject.wait_for_event().await;
        // What is said may not be stored yet, so another look follows soon.
        self.delays.reset();
        self.due = self.due.min(self.looked + S::MIN_POLL_INTERVAL);
    }
}

/// Announces changes of watched resources, for as long as this is polled. `key` tells what a URI is
/// about, if about anything that changes: resources with the same key share one subject, which
/// `open` makes.
pub async fn watch<K: Ord + Send, S: PollTarget>(
    changes: &ChangeNotifier,
    key: impl Fn(&str) -> Option<K> + Send,
    open: impl Fn(&K) -> S + Send,
) {
    let tell = |changed| announce(changes, changed);
    look_after(changes.subscribed_uris(), key, open, tell).await;
}

async fn look_after<K: Ord, S: PollTarget, F: Future<Output = ()>>(
    mut watched: Receiver<SubscribedUris>,
    key: impl Fn(&str) -> Option<K>,
    open: impl Fn(&K) -> S,
    tell: impl Fn(Vec<String>) -> F,
) {
    let mut entries: BTreeMap<K, Entry<S>> = BTreeMap::new();
    loop {
        renew(&mut entries, &watched.borrow_and_update(), &key, &open);
        look_at_due(&mut entries, &tell).await;
        let next = entries.values().map(|entry| entry.due).min();
        let next = async {
            match next {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = next => {}
            () = any_heard(&mut entries) => {}
            changed = watched.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Keeps what is still watched and adds what is new, to be looked at now.
fn renew<K: Ord, S: PollTarget>(
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
                let subject = open(new.key());
                new.insert(Entry::new(subject))
            }
        };
        if entry.watched.insert(uri.clone()) {
            entry.delays.reset();
            entry.due = Instant::now();
        }
    }
    entries.retain(|_, entry| !entry.watched.is_empty());
}

async fn look_at_due<K, S: PollTarget, F: Future<Output = ()>>(
    entries: &mut BTreeMap<K, Entry<S>>,
    tell: impl Fn(Vec<String>) -> F,
) {
    let now = Instant::now();
    let due = entries.values_mut().filter(|entry| entry.due <= now);
    let looks = due.map(|entry| async { tell(entry.poll().await).await });
    stream::iter(looks)
        .for_each_concurrent(MAX_LOOKS, |look| look)
        .await;
}

/// Waits until something is heard of one of them, which is then due.
async fn any_heard<K, S: PollTarget>(entries: &mut BTreeMap<K, Entry<S>>) {
    if entries.is_empty() {
        return pending().await;
    }
    select_all(
        entries
            .values_mut()
            .map(|entry| Box::pin(entry.wait_for_event())),
    )
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    use tokio::sync::{Notify, watch};
    use tokio::time::sleep;

    use super::*;

    /// A number that several resources show.
    #[derive(Clone, Default)]
    struct Number {
        now: Arc<AtomicU32>,
        looks: Arc<AtomicU32>,
        said: Arc<Notify>,
        seen: Option<u32>,
    }

    impl PollTarget for Number {
        async fn poll(&mut self, watched: &BTreeSet<String>) -> Vec<String> {
            self.looks.fetch_add(1, SeqCst);
            let now = self.now.load(SeqCst);
            match self.seen.replace(now).is_some_and(|seen| seen != now) {
                true => watched.iter().cloned().collect(),
                false => Vec::new(),
            }
        }

        fn backoff(&self) -> Backoff {
            Backoff::new(Duration::from_secs(1), Duration::from_secs(64))
        }

        async fn wait_for_event(&mut self) {
            self.said.notified().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_watched_is_looked_at_and_told() {
        let number = Number::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let (sender, watched) = watch::channel(SubscribedUris::new());
        let (one, all) = (number.clone(), Arc::clone(&told));
        let running = tokio::spawn(async move {
            let tell = |uris| {
                all.lock().unwrap().extend::<Vec<String>>(uris);
                std::future::ready(())
            };
            let key = |uri: &str| uri.strip_prefix("n://").map(|_| ());
            look_after(watched, key, |()| one.clone(), tell).await;
        });
        let watch = |uris: &[&str]| {
            let uris = uris.iter().map(|uri| ((*uri).to_owned(), 1));
            sender.send_replace(uris.collect());
        };
        let seconds = |seconds| sleep(Duration::from_secs(seconds));
        let looks = || number.looks.swap(0, SeqCst);
        let told = || std::mem::take(&mut *told.lock().unwrap());

        seconds(1000).await;
        assert_eq!(looks(), 0, "nobody is interested");

        watch(&["n://a", "n://b", "other://c"]);
        seconds(100).await;
        // At 0, 1, 3, 7, 15, 31 and 63 s.
        assert_eq!((looks(), told().len()), (7, 0));

        number.now.store(1, SeqCst);
        number.said.notify_one();
        seconds(1).await;
        assert_eq!(told(), ["n://a", "n://b"], "it was heard");
        assert_eq!(looks(), 2, "and looked at once more soon after");

        watch(&["n://b"]);
        number.now.store(2, SeqCst);
        seconds(4).await;
        assert_eq!(told(), ["n://b"]);

        watch(&[]);
        looks();
        seconds(1000).await;
        assert_eq!(looks(), 0, "nobody is interested any more");

        drop(sender);
        running.await.unwrap();
    }
}
