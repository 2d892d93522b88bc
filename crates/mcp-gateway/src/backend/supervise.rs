//! The life of a backend: one task starts it, keeps it up and ends it, so that there is never more
//! than one of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::Either;
use mcp_client::Client;
use mcp_core::era::Era;
use mcp_core::server::SubscribedUris;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use upstream::redact::redacted;

use super::backoff::Backoff;
use super::fingerprints::ToolChange;
use super::snapshot::Snapshot;
use super::{Backend, State, connect};
use crate::events::{Event, Status, TraceId, kind};
use crate::random;

/// How long changes may gather before the lists are read again.
const REFRESH_DEBOUNCE: Duration = Duration::from_millis(100);
/// Between two tries to hear of changes from a backend that should tell of them.
const LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// How often a server over HTTP, which cannot be seen to fall, is asked for its lists again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);

/// Why a backend that was up is not any more.
enum ExitReason {
    /// It was removed.
    Removed,
    /// It is to be restarted.
    Restart,
    /// It was not used for a while.
    Idle,
    /// It failed.
    Failed(String),
}

impl Backend {
    /// Keeps the backend up until [`Backend::stop`], then ends it.
    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::default();
        let mut is_restart = false;
        loop {
            if is_restart {
                self.metrics.restarts.inc();
            }
            let reason = tokio::select! {
                reason = self.live(&mut backoff) => reason,
                () = self.gone.cancelled() => ExitReason::Removed,
            };
            self.retire().await;
            is_restart = !matches!(reason, ExitReason::Idle);
            tokio::select! {
                biased;
                () = self.gone.cancelled() => break,
                () = self.until_wanted(reason, &mut backoff) => {}
            }
        }
        self.record(kind::BACKEND_STOPPED, Status::Success, None);
    }

    /// Completes when it is to be started again.
    async fn until_wanted(&self, reason: ExitReason, backoff: &mut Backoff) {
        match reason {
            ExitReason::Removed => {}
            ExitReason::Restart => backoff.reset(),
            ExitReason::Idle => {
                tracing::info!(backend = %self.key, "ended until it is asked for something");
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = self.restart.notified() => {}
                }
            }
            ExitReason::Failed(reason) => {
                let retry = match self.on_failure(reason, backoff) {
                    Some(wait) => Either::Left(tokio::time::sleep(wait)),
                    None => Either::Right(std::future::pending()),
                };
                tokio::select! {
                    () = retry => {}
                    () = self.restart.notified() => backoff.reset(),
                }
            }
        }
    }

    /// From the start to the end of one process, or of the time that one server can be reached.
    async fn live(self: &Arc<Self>, backoff: &mut Backoff) -> ExitReason {
        self.status.send_modify(|status| {
            status.state = State::Starting;
            status.next_try = None;
        });
        let client = match connect::connect(&self.config, self.notifications()).await {
            Ok(client) => client,
            Err(reason) => return ExitReason::Failed(reason),
        };
        self.status
            .send_modify(|status| status.server = client.server());
        hear_all(&client).await;
        match Box::pin(Snapshot::read(&client)).await {
            Ok(snapshot) => self.set_snapshot(snapshot),
            Err(error) => {
                client.close().await;
                return ExitReason::Failed(format!("its lists cannot be read: {error}"));
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
        self.record(kind::BACKEND_STARTED, Status::Success, None);
        tokio::select! {
            reason = client.closed() => ExitReason::Failed(reason),
            () = self.restart.notified() => ExitReason::Restart,
            never = self.keep_fresh(&client) => never,
            never = self.listen(&client) => never,
            end = self.unused() => end,
        }
    }

    /// Completes when nobody has asked for anything for so long as the configuration says. Not while
    /// somebody waits for news of its resources, nor where it may work on tasks.
    async fn unused(&self) -> ExitReason {
        let Some(idle) = self.config.idle_timeout else {
            return std::future::pending().await;
        };
        loop {
            let before = self.asked.load(Ordering::Relaxed);
            tokio::time::sleep(idle).await;
            let is_used = self.asked.load(Ordering::Relaxed) != before
                || self.has_tasks()
                || !self
                    .wanted(&self.signals.changes.subscribed_uris().borrow())
                    .is_empty();
            // Whoever asks from now on waits, until it is seen that it does not run.
            let places = self.permits.try_acquire_many(self.config.max_in_flight);
            if !is_used && places.is_ok() {
                self.status
                    .send_modify(|status| status.state = State::Stopped);
                return ExitReason::Idle;
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
            self.metrics
                .stray_answers
                .inc_by(counted.unmatched_responses);
            self.metrics.noise.inc_by(counted.invalid_messages);
        }
    }

    /// Notes why it failed. Returns when it is to be tried again, if at all.
    fn on_failure(&self, reason: String, backoff: &mut Backoff) -> Option<Duration> {
        // It may quote what the backend wrote: to stderr, or in an error.
        let reason = redacted(&reason).into_owned();
        let jitter = random::share();
        let wait = if self.config.is_child() {
            backoff.down(jitter)
        } else {
            Some(backoff.down_elsewhere(jitter))
        };
        tracing::warn!(backend = %self.key, tries = backoff.tries(), retry = ?wait, "{reason}");
        self.record(kind::BACKEND_FAILED, Status::Failure, Some(&reason));
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
    async fn keep_fresh(&self, client: &Client) -> ExitReason {
        loop {
            tokio::select! {
                () = self.stale.notified() => tokio::time::sleep(REFRESH_DEBOUNCE).await,
                () = tokio::time::sleep(REFRESH_INTERVAL), if !self.config.is_child() => {}
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
    async fn listen(&self, client: &Client) -> ExitReason {
        let mut watched = self.signals.changes.subscribed_uris();
        let mut subscribed = BTreeSet::new();
        loop {
            let wanted = self.wanted(&watched.borrow_and_update());
            if matches!(client.era(), Era::Legacy(_)) {
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
                    Ok(listening) => listening.closed().await,
                    Err(error) => Err(error),
                };
                if let Err(error) = broke {
                    tracing::debug!(backend = %self.key, %error, "tells of no changes");
                }
                tokio::time::sleep(LISTEN_RETRY_INTERVAL).await;
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
    fn wanted(&self, watched: &SubscribedUris) -> BTreeSet<String> {
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

    /// Records that a tool is not what it was at the last look.
    pub(super) fn record_change(&self, change: &ToolChange) {
        let tool = &change.tool;
        tracing::warn!(backend = %self.key, tool, "its definition has changed");
        let mut facts = json!({
            "backend": self.key.as_str(),
            "tool_name": tool,
            "old_hash": change.old,
            "new_hash": change.new,
        });
        if let Some(before) = &change.renamed_from {
            facts["renamed_from"] = json!(before);
        }
        self.record_facts(kind::TOOL_CHANGED, Status::Success, facts);
    }

    /// Records what has become of the backend.
    pub(crate) fn record(&self, event: &'static str, status: Status, error: Option<&str>) {
        let mut facts = json!({"backend": self.key.as_str(), "namespace": self.key.as_str()});
        if event == kind::BACKEND_STARTED {
            facts["tool_count"] = json!(self.snapshot().tools.len());
        }
        if let Some(error) = error {
            facts["error"] = json!(error);
        }
        self.record_facts(event, status, facts);
    }

    fn record_facts(&self, event: &'static str, status: Status, facts: Value) {
        let facts = match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        };
        let event = Event::new(TraceId::random(), event, status, facts);
        self.signals.log.record(event);
    }
}

/// Has a server of the legacy era log everything: what of it each client wants is known here. The
/// modern era asks with each call.
async fn hear_all(client: &Client) {
    let logs = client
        .server()
        .is_some_and(|server| server.capabilities.get().contains("\"logging\""));
    if logs && matches!(client.era(), Era::Legacy(_)) {
        let params = json!({"level": "debug"});
        if let Err(error) = Box::pin(client.request("logging/setLevel", &params)).await {
            tracing::debug!(backend = client.peer(), %error, "does not set its log level");
        }
    }
}
