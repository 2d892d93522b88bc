//! The supervisor of a backend: one task starts, restarts and stops it, so that there is never more
//! than one shared process of it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use gateway_approvals::pins::ToolChange;
use gateway_store::events::{Event, EventStatus, kind};
use mcp_client::{Client, Error, Handler, Reply, RpcError, ServerInfo, Unattributed};
use mcp_core::era::Era;
use mcp_core::jsonrpc::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND};
use mcp_core::server::SubscribedUris;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use upstream::random;
use upstream::redact::redacted;

use super::snapshot::Snapshot;
use super::{Backend, BackendState, connect};
use crate::config::Isolation;

/// Changes are collected for this time before the lists are read again.
const REFRESH_DEBOUNCE: Duration = Duration::from_millis(100);
/// Interval between two tries to open the stream of notifications.
const STREAM_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for this stream before calls are forwarded.
pub(super) const STREAM_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval for reading the lists of an HTTP server again, since its restart cannot be seen.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);

/// Characters of the last line of a child in the reason of its end.
const MAX_REASON_CHARS: usize = 200;

/// The reason why a backend does not run any more.
pub(super) enum ExitReason {
    Removed,
    /// `gateway_restart` was called.
    Restart,
    /// It was not used for `idle_timeout`.
    Idle,
    Failed(String),
}

impl Backend {
    /// Keeps the backend running until [`Backend::stop`].
    pub(crate) async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::default();
        let mut is_restart = false;
        loop {
            if is_restart {
                self.metrics.restarts.inc();
            }
            let reason = tokio::select! {
                reason = self.run_once(&mut backoff) => reason,
                () = self.removed.cancelled() => ExitReason::Removed,
            };
            self.close_client().await;
            is_restart = !matches!(reason, ExitReason::Idle);
            tokio::select! {
                biased;
                () = self.removed.cancelled() => break,
                () = self.wait_for_start(reason, &mut backoff) => {}
            }
        }
        self.instances.closed().await;
        self.record(kind::BACKEND_STOPPED, EventStatus::Success, None);
    }

    /// Waits until it is time to start it again.
    async fn wait_for_start(&self, reason: ExitReason, backoff: &mut Backoff) {
        match reason {
            ExitReason::Removed => {}
            ExitReason::Restart => backoff.reset(),
            ExitReason::Idle => {
                tracing::info!(backend = %self.key, "stopped: idle; the next call starts it");
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = self.restart.notified() => {}
                }
            }
            ExitReason::Failed(reason) => {
                let wait = self.on_failure(reason, backoff);
                tokio::select! {
                    () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
                    () = self.restart.notified() => backoff.reset(),
                }
            }
        }
    }

    /// Starts or connects to the backend once, and returns when that process or connection has ended.
    async fn run_once(self: &Arc<Self>, backoff: &mut Backoff) -> ExitReason {
        self.status.send_modify(|status| {
            status.state = BackendState::Starting;
            status.next_try = None;
        });
        self.set_starting(true);
        let (config, handler) = (&self.config, Arc::clone(&self.notifications));
        let connecting = connect::connect(config, config.era, &self.tokens, handler);
        let client = match connecting.await {
            Ok(client) => client,
            Err(reason) => return ExitReason::Failed(reason),
        };
        self.status
            .send_modify(|status| status.server = client.server());
        enable_all_log_levels(&client).await;
        match Box::pin(Snapshot::read(&client)).await {
            Ok(snapshot) => self.set_snapshot(snapshot),
            Err(error) => {
                client.close().await;
                return ExitReason::Failed(format!("its lists cannot be read: {error}"));
            }
        }
        backoff.on_running();
        self.breaker.succeeded();
        self.fault.lock().take();
        self.lacks_legacy.store(false, Ordering::Relaxed);
        let opened = Notify::new();
        let mut listening = pin!(self.listen(&client, &opened));
        // Some servers ask only on this stream: a question before it is open would be lost.
        tokio::select! {
            () = opened.notified() => {}
            () = tokio::time::sleep(STREAM_TIMEOUT) => {}
            never = &mut listening => return never,
        }
        self.status.send_modify(|status| {
            status.state = BackendState::Running;
            status.generation += 1;
            status.client = Some(client.clone());
        });
        self.set_starting(false);
        tracing::info!(backend = %self.key, tools = self.snapshot().tools.len(), "running");
        self.record(kind::BACKEND_STARTED, EventStatus::Success, None);
        tokio::select! {
            reason = client.closed() => ExitReason::Failed(reason),
            () = self.restart.notified() => ExitReason::Restart,
            () = self.probe(&client), if !self.config.is_child() => {
                // They have read the secrets that are refused.
                self.instances.end_all();
                ExitReason::Restart
            }
            never = self.refresh_lists(&client) => never,
            never = listening => never,
            idle = self.wait_until_idle() => idle,
        }
    }

    /// Completes when there was no request for `idle_timeout`. Never completes while a client is
    /// subscribed to one of its resources, or if it may work on tasks.
    async fn wait_until_idle(&self) -> ExitReason {
        let idle_timeout = self.config.idle_timeout;
        let Some(idle) = idle_timeout.filter(|_| self.config.is_child()) else {
            return std::future::pending().await;
        };
        loop {
            let before = self.requests.load(Ordering::Relaxed);
            tokio::time::sleep(idle).await;
            let watched = self.context.changes.subscribed_uris();
            let watched = self.watched_resources(&watched.borrow());
            let is_used = self.requests.load(Ordering::Relaxed) != before
                || self.has_tasks()
                || !watched.is_empty();
            // Holds all permits, so that new requests wait until the state is `Stopped`.
            let permits = self.permits.try_acquire_many(self.config.max_in_flight);
            if !is_used && permits.is_ok() {
                self.status
                    .send_modify(|status| status.state = BackendState::Stopped);
                return ExitReason::Idle;
            }
        }
    }

    /// Closes the client of the last run, and keeps its counters.
    async fn close_client(&self) {
        let mut client = None;
        self.status.send_modify(|status| {
            status.state = BackendState::Stopped;
            client = status.client.take();
        });
        let Some(client) = client else {
            return;
        };
        client.close().await;
        *self.metrics.earlier.lock() += client.counters();
    }

    /// Records a failure. Returns the delay before the next start, or `None` after the last try.
    fn on_failure(&self, reason: String, backoff: &mut Backoff) -> Option<Duration> {
        // The reason may quote the backend's stderr or an error message.
        let mut reason = redacted(&reason).into_owned();
        if let Some(line) = self.last_line() {
            let line: String = line.chars().take(MAX_REASON_CHARS).collect();
            reason.push_str(&format!("; its last line: {line:?}"));
        }
        let longest = (!self.config.is_child()).then_some(MAX_REMOTE_DELAY);
        let wait = backoff.next_delay(random::fraction()).or(longest);
        let next = wait.map_or("no more tries until gateway_restart".to_owned(), |wait| {
            format!("next try in {:.1} s", wait.as_secs_f64())
        });
        tracing::warn!(backend = %self.key, tries = backoff.tries, "failed: {reason}; {next}");
        self.record(kind::BACKEND_FAILED, EventStatus::Failure, Some(&reason));
        self.status.send_modify(|status| {
            status.state = match wait {
                Some(_) => BackendState::Failed,
                None => BackendState::CrashLoop,
            };
            status.last_error = Some(reason);
            status.next_try = wait.map(|wait| Instant::now() + wait);
        });
        if wait.is_none() {
            // Withdraws its tools, since they cannot be called.
            self.set_snapshot(Snapshot::default());
        }
        wait
    }

    /// Reads the lists again when they may have changed.
    async fn refresh_lists(&self, client: &Client) -> ExitReason {
        loop {
            tokio::select! {
                () = self.lists_changed.notified() => tokio::time::sleep(REFRESH_DEBOUNCE).await,
                () = tokio::time::sleep(REFRESH_INTERVAL), if !self.config.is_child() => {}
            }
            match Box::pin(Snapshot::read(client)).await {
                Ok(snapshot) => self.set_snapshot(snapshot),
                // Keeps the old lists.
                Err(error) => {
                    tracing::warn!(backend = %self.key, %error, "its changed lists cannot be read");
                }
            }
        }
    }

    /// Receives the backend's notifications of changed lists and of the resources that clients are
    /// subscribed to. Notifies `opened` after the first try to open the stream.
    pub(super) async fn listen(&self, client: &Client, opened: &Notify) -> ExitReason {
        let mut watched = self.context.changes.subscribed_uris();
        let mut subscribed = BTreeSet::new();
        let mut missing = BTreeSet::new();
        loop {
            let mut wanted = self.watched_resources(&watched.borrow_and_update());
            wanted.retain(|uri| !missing.contains(uri));
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
                let ended = self.follow_stream(client, &filter, opened).await;
                // A resource that has been removed must not stop the other notifications.
                let uri = ended.err().as_ref().and_then(missing_resource);
                if let Some(uri) = uri.filter(|uri| wanted.contains(uri)) {
                    return Some(uri);
                }
                tokio::time::sleep(STREAM_RETRY_INTERVAL).await;
                None
            };
            if client.era() == Era::Modern {
                tokio::select! {
                    uri = listening => missing.extend(uri),
                    _ = watched.changed() => missing.clear(),
                }
                continue;
            }
            // The stream stays open; subscriptions are separate requests.
            let subscriptions = async {
                while watched.changed().await.is_ok() {
                    let wanted = self.watched_resources(&watched.borrow_and_update());
                    self.subscribe(client, &mut subscribed, &wanted).await;
                }
            };
            tokio::select! {
                _ = listening => {}
                () = subscriptions => {}
            }
        }
    }

    /// Follows the stream of notifications until its end. Notifies `opened` after the try to open it.
    async fn follow_stream(
        &self,
        client: &Client,
        filter: &Value,
        opened: &Notify,
    ) -> Result<(), Error> {
        let stream = Box::pin(client.listen(filter)).await;
        opened.notify_one();
        let ended = match stream {
            Ok(stream) => stream.closed().await,
            Err(error) => Err(error),
        };
        if let Err(error) = &ended {
            tracing::debug!(backend = %self.key, %error, "the stream of notifications ended");
        }
        ended
    }

    /// The resources of this backend that clients are subscribed to.
    pub(super) fn watched_resources(&self, watched: &SubscribedUris) -> BTreeSet<String> {
        let snapshot = self.snapshot();
        let own = watched.keys().filter(|uri| snapshot.has(uri));
        own.cloned().collect()
    }

    /// Subscribes to new resources and unsubscribes from those that are not wanted any more.
    async fn subscribe(
        &self,
        client: &Client,
        subscribed: &mut BTreeSet<String>,
        wanted: &BTreeSet<String>,
    ) {
        let added = wanted.difference(subscribed);
        let added = added.map(|uri| ("resources/subscribe", uri));
        let removed = subscribed.difference(wanted);
        let removed = removed.map(|uri| ("resources/unsubscribe", uri));
        for (method, uri) in added.chain(removed) {
            let params = json!({"uri": uri});
            if let Err(error) = Box::pin(client.request(method, &params)).await {
                tracing::debug!(backend = %self.key, method, %error, "refused a subscription");
            }
        }
        subscribed.clone_from(wanted);
    }

    /// Records a changed tool definition.
    pub(super) fn record_change(&self, change: &ToolChange) {
        let (tool, held) = (&change.tool, change.is_held);
        tracing::warn!(backend = %self.key, tool, held, "the definition of a tool is new or has changed");
        let mut facts = json!({
            "backend": self.key.as_str(),
            "tool_name": tool,
            "new_hash": change.new,
            "held": held,
        });
        if let Some(old) = &change.old {
            facts["old_hash"] = json!(old);
        }
        if let Some(before) = &change.renamed_from {
            facts["renamed_from"] = json!(before);
        }
        let event = Event::new(kind::TOOL_CHANGED, EventStatus::Success, facts);
        self.context.log.record(event);
    }

    /// Records an event of the backend itself.
    pub(crate) fn record(&self, event: &'static str, status: EventStatus, error: Option<&str>) {
        let mut facts = json!({"backend": self.key.as_str(), "namespace": self.key.as_str()});
        if event == kind::BACKEND_STARTED {
            facts["tool_count"] = json!(self.snapshot().tools.len());
        }
        if let Some(error) = error {
            facts["error"] = json!(error);
        }
        self.context.log.record(Event::new(event, status, facts));
    }
}

/// Returns the resource that does not exist, if the server names one in its error.
fn missing_resource(error: &Error) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorData {
        uri: String,
    }
    let data: ErrorData = serde_json::from_str(error.rpc()?.data.as_ref()?.get()).ok()?;
    Some(data.uri)
}

/// Makes a server of the legacy era send all log messages; the gateway filters them for each
/// client. In the modern era each call has its own log level.
pub(super) async fn enable_all_log_levels(client: &Client) {
    let logs = client
        .server()
        .is_some_and(|server| server.capabilities.get().contains("\"logging\""));
    if logs && matches!(client.era(), Era::Legacy(_)) {
        let params = json!({"level": "debug"});
        if let Err(error) = Box::pin(client.request("logging/setLevel", &params)).await {
            tracing::debug!(backend = client.peer(), %error, "did not accept a log level");
        }
    }
}

/// Tries before the operator has to start it.
const MAX_START_TRIES: u32 = 5;
/// A backend that ran for this time starts again with the shortest delay.
const RESET_AFTER: Duration = Duration::from_secs(300);
/// The longest delay for a remote server, which the gateway cannot start. Its tries have no limit.
const MAX_REMOTE_DELAY: Duration = Duration::from_secs(16);

/// Counts the tries of one backend. The delays are 1, 2, 4, 8 and 16 s, each with 20 % jitter, so
/// that backends which failed together are not started together.
#[derive(Default)]
struct Backoff {
    tries: u32,
    up_since: Option<Instant>,
}

impl Backoff {
    /// Notes that the backend runs.
    fn on_running(&mut self) {
        self.up_since = Some(Instant::now());
    }

    /// Returns the delay before the next try, or `None` after the last one. `jitter` is between 0 and 1.
    fn next_delay(&mut self, jitter: f64) -> Option<Duration> {
        let is_long = |since: Instant| since.elapsed() >= RESET_AFTER;
        if self.up_since.take().is_some_and(is_long) {
            self.tries = 0;
        }
        if self.tries >= MAX_START_TRIES {
            return None;
        }
        let delay = Duration::from_secs(1 << self.tries);
        self.tries += 1;
        Some(delay.mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0)))
    }

    /// Starts again with the shortest delay.
    fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Handles the notifications of a backend. The reference is weak, since the backend owns the client
/// that owns this handler.
pub(super) struct Notifications(pub(super) Weak<Backend>);

impl Handler for Notifications {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let Some(backend) = self.0.upgrade() else {
            return;
        };
        match method {
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => backend.lists_changed.notify_one(),
            "notifications/resources/updated" => {
                if let Some(uri) = uri(params) {
                    backend.updated(uri);
                }
            }
            "notifications/message" => {
                let params = redacted(params.map_or("", RawValue::get));
                tracing::debug!(backend = %backend.key, ?params, "log message");
            }
            _ => {}
        }
    }

    /// Outside of a call there is no client to ask; the gateway itself has no roots. During calls of several
    /// clients, `roots/list` is refused like any question: an empty list would be a statement about clients
    /// that were not asked, and a server may take it for "no limits".
    fn request(&self, method: &str, _: Option<&RawValue>) -> Reply {
        let answer = if method == "roots/list" {
            RawValue::from_string(r#"{"roots":[]}"#.to_owned())
                .map_err(|_| RpcError::new(INTERNAL_ERROR, "Internal error"))
        } else {
            let text = "Only during a call is there a client that can be asked";
            Err(RpcError::new(METHOD_NOT_FOUND, text))
        };
        Box::pin(std::future::ready(answer))
    }

    fn unattributed(&self, method: &str, reason: Unattributed) -> RpcError {
        let Some(backend) = self.0.upgrade() else {
            return RpcError::new(INTERNAL_ERROR, "Internal error");
        };
        backend.question_refused.notify_waiters();
        let text = match reason {
            Unattributed::CallersLeft => "The client that could answer has left.".to_owned(),
            Unattributed::SeveralCallers => backend.refusal_advice(),
        };
        if backend.warned_of_refusal.swap(true, Ordering::Relaxed) {
            tracing::debug!(backend = %backend.key, method, "refused a question: {text}");
        } else {
            tracing::warn!(backend = %backend.key, method, "refused a question: {text}");
        }
        RpcError::new(INVALID_REQUEST, text)
    }

    fn stderr(&self, _: &str, line: &str) {
        if let Some(backend) = self.0.upgrade() {
            let line = backend.keep_line(line);
            tracing::info!(target: "mcp_gateway::stderr", backend = %backend.key, ?line);
        }
    }

    fn session_renewed(&self, _: &ServerInfo) {
        if let Some(backend) = self.0.upgrade() {
            tracing::info!(backend = %backend.key, "started a new session; the server did not know the old one");
            backend.lists_changed.notify_one();
        }
    }
}

impl Backend {
    /// Returns what helps when it cannot be called.
    pub(crate) fn failure_advice(&self, state: BackendState) -> String {
        let key = &self.key;
        let check = match self.config.is_child() {
            true => format!("check `command`, `env` and `cwd` in [backends.{key}]"),
            false => format!("check `url` and its token in [backends.{key}], and start its server"),
        };
        match state {
            BackendState::CrashLoop => {
                format!(
                    "It is not tried again by itself: {check}; then restart it (`gateway_restart`)."
                )
            }
            _ => format!("It is tried again by itself. If the reason stays, {check}."),
        }
    }

    /// Returns the reason why a question is refused while several clients could be meant, and the setting
    /// that helps.
    pub(crate) fn refusal_advice(&self) -> String {
        let key = &self.key;
        let advice = match self.config.isolation {
            Isolation::Unset | Isolation::Shared => format!(
                "`isolation = \"session\"` or `isolation = \"principal\"` in [backends.{key}] gives \
                 each client its own process or session; clients of 2026-07-28 need a token for that \
                 (`--token-file`)"
            ),
            Isolation::Session => format!(
                "clients of 2026-07-28 have no session, so those with the same token share a process or \
                 session; give each its own token (`--token-file`) and set `isolation = \"principal\"` in \
                 [backends.{key}]"
            ),
            Isolation::Principal => {
                "these clients have neither a token nor a session, so they share a process \
                                     or session; set up tokens (`--token-file`)"
                    .to_owned()
            }
        };
        format!(
            "Several calls of the backend {key} are in progress, or were left in the last minute, so the \
             client to ask is not certain: {advice}. `gateway_restart` ends calls that were left."
        )
    }
}

fn uri(params: Option<&RawValue>) -> Option<String> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    Some(params["uri"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(backoff: &mut Backoff) -> Option<u64> {
        backoff.next_delay(0.5).map(|delay| delay.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn delays_double_and_end_and_are_short_again_after_5_minutes() {
        let mut backoff = Backoff::default();
        for expected in [1, 2, 4, 8, 16] {
            assert_eq!(seconds(&mut backoff), Some(expected));
            backoff.on_running();
            tokio::time::advance(Duration::from_secs(299)).await;
        }
        assert_eq!(seconds(&mut backoff), None);
        backoff.on_running();
        tokio::time::advance(Duration::from_secs(300)).await;
        assert_eq!(seconds(&mut backoff), Some(1));
        backoff.reset();
        // The jitter is 20 %.
        assert_eq!(backoff.next_delay(0.0), Some(Duration::from_millis(800)));
        assert_eq!(backoff.next_delay(1.0), Some(Duration::from_millis(2400)));
    }
}
