//! The life of a backend: one task starts it, keeps it up and ends it, so that there is never more
//! than one of it.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_client::Client;
use mcp_core::era::Era;
use mcp_core::server::Watched;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::hears::Hears;
use super::pins::Change;
use super::snapshot::Snapshot;
use super::{Backend, State, dial};
use crate::events::{Event, Status as Went, TraceId, kind};

/// How long changes may gather before the lists are read again.
const GATHER: Duration = Duration::from_millis(100);
/// Between two tries to hear of changes from a backend that should tell of them.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);
/// How often a server over HTTP, which cannot be seen to fall, is asked for its lists again.
const LOOK: Duration = Duration::from_secs(300);

/// Why a backend that was up is not any more.
enum End {
    /// It is not wanted.
    Gone,
    /// It shall be started anew.
    Restart,
    /// Nobody has asked it for anything for a while.
    Unused,
    /// It fell.
    Fell(String),
}

impl Backend {
    /// Keeps the backend up until [`Backend::stop`], then ends it.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::default();
        let mut is_first = true;
        loop {
            if !is_first {
                self.figures.restarts.fetch_add(1, Ordering::Relaxed);
            }
            is_first = false;
            let end = tokio::select! {
                end = self.live(&mut backoff) => end,
                () = self.gone.cancelled() => End::Gone,
            };
            self.retire().await;
            let wait = match end {
                End::Gone => return self.tell(kind::BACKEND_STOPPED, Went::Success, None),
                End::Restart => {
                    backoff.reset();
                    continue;
                }
                End::Unused => {
                    tracing::info!(backend = %self.key, "ended until it is asked for something");
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = self.restart.notified() => {}
                        () = self.gone.cancelled() => {
                            return self.tell(kind::BACKEND_STOPPED, Went::Success, None);
                        }
                    }
                    is_first = true;
                    continue;
                }
                End::Fell(reason) => self.fell(reason, &mut backoff),
            };
            let again = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = again => {}
                () = self.restart.notified() => backoff.reset(),
                () = self.gone.cancelled() => {
                    return self.tell(kind::BACKEND_STOPPED, Went::Success, None);
                }
            }
        }
    }

    /// From the start to the end of one process, or of the time that one server can be reached.
    async fn live(self: &Arc<Self>, backoff: &mut Backoff) -> End {
        self.status.send_modify(|status| {
            status.state = State::Starting;
            status.next_try = None;
        });
        let client = match dial::connect(&self.config, Hears::of(self)).await {
            Ok(client) => client,
            Err(reason) => return End::Fell(reason),
        };
        self.status
            .send_modify(|status| status.server = client.server());
        hear_all(&client).await;
        match Box::pin(Snapshot::read(&client)).await {
            Ok(snapshot) => self.set_snapshot(snapshot),
            Err(error) => {
                client.close().await;
                return End::Fell(format!("its lists cannot be read: {error}"));
            }
        }
        backoff.up();
        self.breaker.succeeded();
        self.status.send_modify(|status| {
            status.state = State::Running;
            status.generation += 1;
            status.client = Some(client.clone());
        });
        tracing::info!(backend = %self.key, tools = self.snapshot().tools.len(), "running");
        self.tell(kind::BACKEND_STARTED, Went::Success, None);
        tokio::select! {
            reason = client.ended() => End::Fell(reason),
            () = self.restart.notified() => End::Restart,
            never = self.keep_fresh(&client) => never,
            never = self.listen(&client) => never,
            end = self.unused() => end,
        }
    }

    /// Completes when nobody has asked for anything for so long as the configuration says. Not while
    /// somebody waits for news of its resources, nor where it may work on tasks.
    async fn unused(&self) -> End {
        let Some(idle) = self.config.idle_timeout else {
            return std::future::pending().await;
        };
        loop {
            let before = self.asked.load(Ordering::Relaxed);
            tokio::time::sleep(idle).await;
            let is_used = self.asked.load(Ordering::Relaxed) != before
                || self.has_tasks()
                || !self
                    .wanted(&self.signals.changes.watched().borrow())
                    .is_empty();
            // Whoever asks from now on waits, until it is seen that it does not run.
            let places = self.permits.try_acquire_many(self.config.max_in_flight);
            if !is_used && places.is_ok() {
                self.status
                    .send_modify(|status| status.state = State::Stopped);
                return End::Unused;
            }
        }
    }

    /// Ends what is left of the last life.
    async fn retire(&self) {
        let mut client = None;
        self.status.send_modify(|status| {
            status.state = State::Stopped;
            client = status.client.take();
        });
        if let Some(client) = client {
            client.close().await;
            let counted = client.counters();
            let add = |count: &AtomicU64, more| count.fetch_add(more, Ordering::Relaxed);
            add(&self.figures.strays, counted.stray_answers);
            add(&self.figures.noise, counted.noise);
        }
    }

    /// Notes why it fell. Says when it is to be tried again, if at all.
    fn fell(&self, reason: String, backoff: &mut Backoff) -> Option<Duration> {
        let jitter = fastrand();
        let wait = if self.config.is_child() {
            backoff.down(jitter)
        } else {
            Some(backoff.down_elsewhere(jitter))
        };
        tracing::warn!(backend = %self.key, tries = backoff.tries(), retry = ?wait, "{reason}");
        self.tell(kind::BACKEND_FAILED, Went::Failure, Some(&reason));
        self.status.send_modify(|status| {
            status.state = match wait {
                Some(_) => State::Failed,
                None => State::CrashLoop,
            };
            status.last_error = Some(reason);
            status.next_try = wait.map(|wait| Instant::now() + wait);
        });
        if wait.is_none() {
            // Nobody should be offered what cannot be called.
            self.set_snapshot(Snapshot::default());
        }
        wait
    }

    /// Reads the lists again when they may have changed.
    async fn keep_fresh(&self, client: &Client) -> End {
        loop {
            tokio::select! {
                () = self.stale.notified() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(LOOK), if !self.config.is_child() => {}
            }
            match Box::pin(Snapshot::read(client)).await {
                Ok(snapshot) => self.set_snapshot(snapshot),
                // What was offered before is better than nothing.
                Err(error) => {
                    tracing::warn!(backend = %self.key, %error, "its lists cannot be read");
                }
            }
        }
    }

    /// Hears of changes as long as the backend tells of them, and of those resources that some
    /// client waits for.
    async fn listen(&self, client: &Client) -> End {
        let mut watched = self.signals.changes.watched();
        let mut subscribed = BTreeSet::new();
        loop {
            let wanted = self.wanted(&watched.borrow_and_update());
            if matches!(client.era(), Era::Handshake(_)) {
                self.subscribe(client, &mut subscribed, &wanted).await;
            }
            let filter = json!({
                "toolsListChanged": true,
                "promptsListChanged": true,
                "resourcesListChanged": true,
                "resourceSubscriptions": wanted,
            });
            let listening = async {
                let broke = match Box::pin(client.listen(&filter)).await {
                    Ok(listening) => listening.ended().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = broke {
                    tracing::debug!(backend = %self.key, %error, "tells of no changes");
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            };
            if client.era() == Era::Modern {
                tokio::select! {
                    () = listening => {}
                    _ = watched.changed() => {}
                }
                continue;
            }
            // The stream stays; only the subscriptions change.
            let subscriptions = async {
                while watched.changed().await.is_ok() {
                    let wanted = self.wanted(&watched.borrow_and_update());
                    self.subscribe(client, &mut subscribed, &wanted).await;
                }
            };
            tokio::select! {
                () = listening => {}
                () = subscriptions => {}
            }
        }
    }

    /// The resources of this backend that some client waits for.
    fn wanted(&self, watched: &Watched) -> BTreeSet<String> {
        let snapshot = self.snapshot();
        let own = watched.keys().filter(|uri| snapshot.has(uri));
        own.cloned().collect()
    }

    /// Subscribes to what is wanted now and was not, and the other way round.
    async fn subscribe(
        &self,
        client: &Client,
        subscribed: &mut BTreeSet<String>,
        wanted: &BTreeSet<String>,
    ) {
        let changes = wanted
            .difference(subscribed)
            .map(|uri| ("resources/subscribe", uri))
            .chain(
                subscribed
                    .difference(wanted)
                    .map(|uri| ("resources/unsubscribe", uri)),
            );
        for (method, uri) in changes {
            let params = json!({"uri": uri});
            if let Err(error) = Box::pin(client.request(method, &params)).await {
                tracing::debug!(backend = %self.key, method, %error, "refused");
            }
        }
        subscribed.clone_from(wanted);
    }

    /// Writes down that a tool is not what it was at the last look.
    pub(super) fn tell_of_change(&self, change: &Change) {
        let tool = &change.tool;
        tracing::warn!(backend = %self.key, tool, "its definition has changed");
        let mut facts = Map::from_iter([
            ("backend".to_owned(), json!(self.key.as_str())),
            ("tool_name".to_owned(), json!(tool)),
            ("old_hash".to_owned(), json!(change.old)),
            ("new_hash".to_owned(), json!(change.new)),
        ]);
        if let Some(before) = &change.renamed_from {
            facts.insert("renamed_from".to_owned(), json!(before));
        }
        let event = Event::new(TraceId::random(), kind::TOOL_CHANGED, Went::Success, facts);
        self.signals.log.record(event);
    }

    /// Writes down what has become of the backend.
    pub(crate) fn tell(&self, event: &'static str, went: Went, reason: Option<&str>) {
        let mut facts = Map::new();
        facts.insert("backend".to_owned(), json!(self.key.as_str()));
        facts.insert("namespace".to_owned(), json!(self.key.as_str()));
        if went == Went::Success && event == kind::BACKEND_STARTED {
            let tools = self.snapshot().tools.len();
            facts.insert("tool_count".to_owned(), json!(tools));
        }
        if let Some(reason) = reason {
            facts.insert("error".to_owned(), Value::from(reason));
        }
        self.signals
            .log
            .record(Event::new(TraceId::random(), event, went, facts));
    }
}

/// Has a server of the handshake era log everything: what of it each client wants is known here. The
/// modern era asks with each call.
async fn hear_all(client: &Client) {
    let logs = client
        .server()
        .is_some_and(|server| server.capabilities.get().contains("\"logging\""));
    if logs && matches!(client.era(), Era::Handshake(_)) {
        let params = json!({"level": "debug"});
        if let Err(error) = Box::pin(client.request("logging/setLevel", &params)).await {
            tracing::debug!(backend = client.peer(), %error, "does not set its log level");
        }
    }
}

/// Somewhere between 0 and 1; nobody gains by guessing it.
fn fastrand() -> f64 {
    let random = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(random).unwrap_or_default()) / f64::from(u32::MAX)
}
