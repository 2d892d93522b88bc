//! One request to a backend: with a concurrency limit, a circuit breaker, a wait for a backend that is being started, and
//! repeats: once if the first try had no effect or the request is idempotent, once in the newest era if the backend asks
//! its client there only, and for a while at a backend that is alone behind the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gateway_approvals::pins::HoldReason;
use gateway_store::events::{EventStatus, kind};
use mcp_client::{Client, Error, Options, RpcError};
use mcp_core::era::Era;
use mcp_core::jsonrpc::{ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, Members, string};
use mcp_core::tool::{ToolError, ToolErrorKind};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use upstream::redact::redacted;

use super::instances::Lease;
use super::{Backend, BackendCaller, BackendState, BackendStatus};

/// Longest wait for a free place at a busy backend.
const CONCURRENCY_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a backend that is being started.
const START_WAIT: Duration = Duration::from_secs(10);

/// The time that a backend alone has to come back, such as after a restart, and the interval of the tries.
const RETURN_WAIT: Duration = Duration::from_secs(15);
const RETURN_INTERVAL: Duration = Duration::from_millis(250);

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The backend has answered with an error.
    Rpc(RpcError),
    /// Nothing was sent, or there was no usable answer.
    Failed(ToolError),
}

impl From<ToolError> for RequestError {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

impl From<RequestError> for ToolError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Rpc(error) => Self::from_backend(ErrorObject {
                code: i32::try_from(error.code).unwrap_or(INTERNAL_ERROR),
                message: error.message,
                data: error
                    .data
                    .and_then(|data| serde_json::from_str(data.get()).ok()),
            }),
            RequestError::Failed(error) => error,
        }
    }
}

/// The client for one request.
struct Route {
    client: Client,
    breaker: Arc<CircuitBreaker>,
    /// The generation of the shared process.
    generation: u64,
    /// A place at the shared process, or at the instance.
    permit: OwnedSemaphorePermit,
    /// The instance of its caller.
    lease: Option<Lease>,
    /// Set if this is the try of a half-open circuit.
    _attempt: Option<Attempt>,
}

impl Backend {
    /// Sends one request for a caller, if it is known. `may_repeat`: it is idempotent.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: &Members,
        options: Options,
        may_repeat: bool,
        caller: Option<&BackendCaller>,
    ) -> Result<Box<RawValue>, RequestError> {
        let options = options.caller(caller.and_then(|caller| caller.attributed.clone()));
        let mut caller = caller.cloned();
        let mut route = self.route(caller.as_ref(), None).await?;
        // A backend that this request has started, or waited for, may list other tools than when it was made.
        if method == "tools/call"
            && let Some(name) = params.get("name").and_then(string)
            && let Some(reason) = self.held(&name)
        {
            return Err(ToolError::forbidden(self.held_back(&name, &reason)).into());
        }
        let mut sent = self
            .send(&route.client, &route.breaker, method, params, &options)
            .await;
        if self.asks_in_newest_era(caller.as_ref(), &sent) {
            // In the newest era the answer to a question comes with the same call again, so that this one is repeated there.
            drop(route);
            caller = caller.map(BackendCaller::in_newest_era);
            route = self.route(caller.as_ref(), None).await?;
            let again = self.send(&route.client, &route.breaker, method, params, &options);
            sent = again.await;
        }
        let caller = caller.as_ref();
        let error = match sent {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let is_closed = matches!(error, Error::Closed { .. });
        if !(error.was_not_sent() || may_repeat && is_closed) {
            return Err(self.failure(error));
        }
        // The client of a child that has exited stays closed; the restarted child has another one.
        let route = match self.config.is_child() {
            true => self.route(caller, Some(route)).await?,
            false => {
                // Its place, which the second try takes again.
                drop(route);
                self.route(caller, None).await?
            }
        };
        let until = Instant::now() + RETURN_WAIT;
        loop {
            let sent = self.send(&route.client, &route.breaker, method, params, &options);
            match sent.await {
                Err(Error::Unreachable { .. })
                    if self.config.is_alone && Instant::now() < until =>
                {
                    sleep(RETURN_INTERVAL).await;
                }
                Err(error) if error.was_not_sent() => {
                    let cause = match &error {
                        Error::Unreachable { source, .. } => mcp_client::cause(source.as_ref()),
                        error => error.to_string(),
                    };
                    let text = format!("cannot be reached: {cause}");
                    return Err(self.unavailable(&text).into());
                }
                sent => return sent.map_err(|error| self.failure(error)),
            }
        }
    }

    /// Returns the client for a request: of the instance of its caller if it has one, else of the
    /// shared process; not that of `exited`, which has ended.
    async fn route(
        self: &Arc<Self>,
        caller: Option<&BackendCaller>,
        exited: Option<Route>,
    ) -> Result<Route, ToolError> {
        while let Some((caller, key)) = caller.zip(self.instance_key(caller)) {
            let exited = exited.as_ref().and_then(|route| route.lease.as_ref());
            let (lease, client) = match self.lease(caller, &key, exited).await {
                Ok(leased) => leased,
                Err(Some(reason)) => return Err(self.unavailable(&reason)),
                // Its key is another one now.
                Err(None) => continue,
            };
            let permit = self.enter_queue(&lease.0.permits).await?;
            let attempt = self.enter(&lease.0.breaker)?;
            return Ok(Route {
                client,
                breaker: Arc::clone(&lease.0.breaker),
                generation: 0,
                permit,
                lease: Some(lease),
                _attempt: attempt,
            });
        }
        let exited = exited.filter(|route| route.lease.is_none());
        let generation = exited.as_ref().map(|route| route.generation);
        // Before the shared process is looked for, which is stopped only while no request has a permit.
        let permit = match exited {
            Some(route) => route.permit,
            None => self.enter_queue(&self.permits).await?,
        };
        let attempt = self.enter(&self.breaker)?;
        if generation.is_none() {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        let (client, generation) = self.client(generation).await?;
        Ok(Route {
            client,
            breaker: Arc::clone(&self.breaker),
            generation,
            permit,
            lease: None,
            _attempt: attempt,
        })
    }

    /// True if a server that speaks both eras wants to ask a question, and can do so on a connection of the newest era
    /// only: SDKs name the type of the specification then.
    fn asks_in_newest_era(
        &self,
        caller: Option<&BackendCaller>,
        sent: &Result<Box<RawValue>, Error>,
    ) -> bool {
        let says_so = |error: &RpcError| {
            error.code == i64::from(INVALID_REQUEST)
                && error.message.contains("InputRequiredResult")
        };
        matches!(sent, Err(Error::Rpc(error)) if says_so(error))
            && self.instance_key(caller).is_some_and(|key| key.is_legacy)
    }

    /// Waits for a free place at a busy process or session.
    async fn enter_queue(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit, ToolError> {
        if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = Waiting::new(&self.metrics.waiting);
        let permit = Arc::clone(permits).acquire_owned();
        let permit = tokio::time::timeout(CONCURRENCY_WAIT, permit).await;
        let permit = permit.ok().and_then(Result::ok);
        permit
            .ok_or_else(|| self.unavailable("is busy with other calls; try again in a few seconds"))
    }

    /// Lets a request pass the circuit breaker. That of a backend alone is always closed: there is nothing to protect from
    /// it.
    fn enter(&self, breaker: &Arc<CircuitBreaker>) -> Result<Option<Attempt>, ToolError> {
        if self.config.is_alone {
            return Ok(None);
        }
        breaker.enter().map_err(|wait| {
            let wait = wait.as_secs() + 1;
            let text = format!("does not answer; the next try is in {wait} s at the earliest");
            self.unavailable(&text)
        })
    }

    pub(super) async fn send(
        &self,
        client: &Client,
        breaker: &CircuitBreaker,
        method: &str,
        params: &Members,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let answer = client.request_members(method, params, options).await;
        if !self.config.is_child() {
            // The probe shows whether it is a fault of the server, or of this session alone.
            if answer.as_ref().is_err_and(is_fault) && self.fault.lock().is_none() {
                self.failed.notify_one();
            }
            if std::ptr::eq(breaker, &*self.breaker) {
                self.note_fault(&answer);
            }
        }
        match &answer {
            // Not counted for a child: its supervisor restarts it with a backoff.
            Err(Error::Closed { .. } | Error::Unreachable { .. }) if self.config.is_child() => {}
            Err(error) if is_silence(error) => {
                if breaker.failed() {
                    tracing::warn!(backend = %self.key, %error, "does not answer; circuit breaker open");
                }
            }
            _ => breaker.succeeded(),
        }
        answer
    }

    /// Returns the client of the running backend and its generation, but not the one of the
    /// generation `exited`. Waits for a backend that is being started.
    async fn client(&self, exited: Option<u64>) -> Result<(Client, u64), ToolError> {
        // The only client of a backend alone waits as well.
        let is_awaited = self.config.is_child() || self.config.is_alone;
        let is_final = |status: &BackendStatus| match status.state {
            BackendState::Running => exited != Some(status.generation),
            BackendState::Stopped | BackendState::Starting => false,
            // Waits for one that will be started soon.
            BackendState::Failed => {
                !is_awaited || status.next_try > Some(Instant::now() + START_WAIT / 2)
            }
            BackendState::CrashLoop | BackendState::Disabled => true,
        };
        let mut status = self.status.borrow().clone();
        if !is_final(&status) {
            if status.state == BackendState::Stopped {
                self.wake.notify_one();
            }
            let mut changing = self.status.subscribe();
            let found = tokio::time::timeout(START_WAIT, changing.wait_for(is_final)).await;
            status = match found {
                Ok(Ok(status)) => status.clone(),
                Ok(Err(_)) | Err(_) => self.status(),
            };
        }
        match status.client.clone() {
            Some(client) if exited != Some(status.generation) => Ok((client, status.generation)),
            _ => Err(self.down(&status)),
        }
    }

    /// The text for a call of a tool that is held back; `tool` is its name for the caller.
    pub(crate) fn held_back(&self, tool: &str, reason: &HoldReason) -> String {
        format!(
            "{tool} is held back: {reason}. Nothing was called. The operator of the gateway sees it with \
             `mcp-gateway pins diff {}`, and approves it with `mcp-gateway pins approve`.",
            self.key
        )
    }

    /// The error of a call while it is down: the reason, and the next step.
    pub(crate) fn down(&self, status: &BackendStatus) -> ToolError {
        let reason = status.last_error.as_deref().unwrap_or("it does not start");
        let next = match (status.state, status.next_try_s()) {
            (BackendState::CrashLoop, _) => {
                "it is not started again automatically; gateway_restart starts it".to_owned()
            }
            (_, Some(wait)) => format!("the next try is in {wait} s"),
            (_, None) => "it is being started".to_owned(),
        };
        self.unavailable(&format!("is down ({reason}); {next}"))
    }

    fn unavailable(&self, text: &str) -> ToolError {
        ToolError::unavailable(format!("The backend {} {text}.", self.key))
    }

    /// The error of a request that has ended with this one.
    fn failure(&self, error: Error) -> RequestError {
        let key = &self.key;
        let overloaded = "it is overloaded; try again in a few seconds.";
        let refused = "it rejects the gateway's credentials";
        RequestError::Failed(match error {
            // Whatever else its body says, the client's own token is not meant.
            Error::Http { status: 401, .. } => {
                let text = format!("{error}: {refused}, not those of this client.");
                ToolError::unavailable(text)
            }
            Error::Rpc(error)
            | Error::Http {
                error: Some(error), ..
            } => return RequestError::Rpc(error),
            Error::Http { status: 429, .. } | Error::Busy { .. } => {
                ToolError::unavailable(format!("{error}: {overloaded}"))
            }
            Error::Http { status: 403, .. } => {
                ToolError::unavailable(format!("{error}: {refused}."))
            }
            Error::Timeout { .. } => {
                let text = format!(
                    "The backend {key} did not answer in time; the call may still take effect. \
                     gateway_status shows its status."
                );
                ToolError::new(ToolErrorKind::Timeout, text).caused_by(error)
            }
            error => {
                let what = match &error {
                    Error::Closed { reason, .. } => {
                        // The reason may quote the stderr of a child.
                        let reason = redacted(reason);
                        format!(
                            "The connection to the backend {key} broke before its answer ({reason})"
                        )
                    }
                    // Names the server and the fault, and quotes neither.
                    error => format!("The backend {key} gave no usable answer: {error}"),
                };
                ToolError::upstream(format!(
                    "{what}; check whether the call took effect before you repeat it."
                ))
                .caused_by(error)
            }
        })
    }
}

/// True if there was no answer at all, or that of a proxy in the place of the server. A wrong answer is one, too: it says
/// nothing about the requests of others.
fn is_silence(error: &Error) -> bool {
    match error {
        Error::Protocol { .. } => false,
        Error::Http { status, .. } => (502..=504).contains(status) && error.is_transport_failure(),
        error => error.is_transport_failure(),
    }
}

/// True if the whole server may be gone, or refuse the gateway.
fn is_fault(error: &Error) -> bool {
    match error {
        Error::Closed { .. } | Error::Unreachable { .. } | Error::Unauthorized { .. } => true,
        Error::Http { status, .. } => matches!(status, 401 | 502..=504),
        _ => false,
    }
}

/// A request in the queue, which is counted until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Transport failures in a row that open the circuit.
const MAX_FAILURES: u32 = 5;
/// The time until an open circuit lets one call try.
const OPEN_TIME: Duration = Duration::from_secs(30);

/// Closed while calls succeed, open while they fail, and half open while one call tries.
///
/// Only transport failures count: an error that the backend has answered with is an answer.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker {
    state: Mutex<BreakerState>,
    /// Locked while a probe runs after a timeout.
    probe: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    /// The time of the next try; `None` while closed.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    /// Lets a call pass, or returns the time until the next try. Then one call passes, and the others
    /// are rejected until it has ended.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Option<Attempt>, Duration> {
        let mut state = self.state.lock();
        let Some(until) = state.open_until else {
            return Ok(None);
        };
        let now = Instant::now();
        if now < until {
            return Err(until - now);
        }
        let until = now + OPEN_TIME;
        state.open_until = Some(until);
        let breaker = Arc::clone(self);
        Ok(Some(Attempt { breaker, until }))
    }

    /// Closes the circuit: the backend has answered.
    pub(crate) fn succeeded(&self) {
        *self.state.lock() = BreakerState::default();
    }

    /// Counts a transport failure. Returns true if that has opened the circuit.
    pub(crate) fn failed(&self) -> bool {
        let mut state = self.state.lock();
        state.failures += 1;
        if state.failures < MAX_FAILURES {
            return false;
        }
        let was_closed = state.open_until.is_none();
        state.open_until = Some(Instant::now() + OPEN_TIME);
        was_closed
    }

    /// Begins a probe, which ends when the guard is dropped; `None` if one runs.
    pub(crate) fn begin_probe(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.probe).try_lock_owned().ok()
    }

    /// The time until the next try; `None` while closed.
    pub(crate) fn open_for(&self) -> Option<Duration> {
        let until = self.state.lock().open_until?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

/// The one call that a half-open circuit lets pass. Dropped without an outcome, as when its client cancels it, it lets
/// another one try.
#[derive(Debug)]
pub(crate) struct Attempt {
    breaker: Arc<CircuitBreaker>,
    /// The circuit is open until then, unless the call has an outcome.
    until: Instant,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut state = self.breaker.state.lock();
        if state.open_until == Some(self.until) {
            state.open_until = Some(Instant::now());
        }
    }
}

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

impl Backend {
    /// Probes the process or session of a caller after the timeout of a call, which a slow tool or a hanging
    /// backend can cause: sends pings until one is answered or its circuit breaker is open.
    pub(crate) fn probe_after_timeout(self: &Arc<Self>, caller: Option<&BackendCaller>) {
        let instance = self.keep_instance(caller);
        let breaker = match &instance {
            Some(lease) => Arc::clone(&lease.0.breaker),
            // Its instance has ended.
            None if self.instance_key(caller).is_some() => return,
            None => Arc::clone(&self.breaker),
        };
        let Some(probe) = breaker.begin_probe() else {
            return;
        };
        let backend = Arc::clone(self);
        tokio::spawn(async move {
            let _probe = probe;
            loop {
                let client = match &instance {
                    Some(lease) => lease.0.client(),
                    None => backend.status().client,
                };
                let Some(client) = client else { break };
                let (params, options) = (Members::default(), Options::default());
                let options = options.timeout(PROBE_TIMEOUT);
                let method = probe_method(&client);
                let sent = backend.send(&client, &breaker, method, &params, &options);
                match sent.await {
                    Err(error) if error.is_transport_failure() && breaker.open_for().is_none() => {}
                    // An error of the backend is an answer as well.
                    _ => break,
                }
                tokio::time::sleep(PROBE_TIMEOUT / 10).await;
            }
        });
    }

    /// Probes a server over HTTP without end, since nothing else shows that it has gone. The answer to a probe counts for
    /// no circuit breaker: a server may not know its method. Ends if the server refuses credentials that the next
    /// connection reads again.
    pub(super) async fn probe(self: &Arc<Self>, client: &Client) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.context.probe_interval) => {}
                () = self.failed.notified() => {}
            }
            let options = Options::default().timeout(PROBE_TIMEOUT);
            let params = Members::default();
            let method = probe_method(client);
            let answer = Box::pin(client.request_members(method, &params, &options)).await;
            self.note_fault(&answer);
            match answer {
                Err(Error::Timeout { .. }) => self.probe_after_timeout(None),
                Err(Error::Http { status: 401, .. } | Error::Unauthorized { .. })
                    if self.config.reads_secrets() =>
                {
                    return;
                }
                _ => {}
            }
        }
    }

    /// Notes whether an answer shows that a server over HTTP cannot be used at all, or that it can again.
    pub(super) fn note_fault(&self, answer: &Result<Box<RawValue>, Error>) {
        let fault = match answer {
            Err(error @ (Error::Unreachable { .. } | Error::Unauthorized { .. })) => {
                Some(redacted(&error.to_string()).into_owned())
            }
            Err(error @ Error::Http { status: 401, .. }) => {
                Some(format!("{error}: it rejects the gateway's credentials"))
            }
            Err(error) if error.is_transport_failure() => return,
            _ => None,
        };
        let mut known = self.fault.lock();
        if *known == fault {
            return;
        }
        let before = std::mem::replace(&mut *known, fault.clone());
        drop(known);
        match (before, fault) {
            (None, Some(reason)) => {
                tracing::warn!(backend = %self.key, "failed: {reason}");
                self.record(kind::BACKEND_FAILED, EventStatus::Failure, Some(&reason));
            }
            (Some(_), None) => {
                self.breaker.succeeded();
                tracing::info!(backend = %self.key, "answers again");
                self.record(kind::BACKEND_STARTED, EventStatus::Success, None);
            }
            _ => {}
        }
    }
}

/// A request that every server answers.
fn probe_method(client: &Client) -> &'static str {
    match client.era() {
        Era::Modern => "server/discover",
        Era::Legacy(_) | Era::Unversioned => "ping",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn circuit_opens_after_five_failures_and_lets_one_call_try_later() {
        let breaker = Arc::new(CircuitBreaker::default());
        for _ in 0..2 {
            breaker.succeeded();
            for _ in 0..4 {
                assert!(!breaker.failed());
            }
        }
        assert!(breaker.enter().is_ok());
        assert!(breaker.failed());
        assert_eq!(breaker.enter().unwrap_err(), OPEN_TIME);
        tokio::time::advance(OPEN_TIME).await;
        let cancelled = breaker.enter().unwrap();
        assert!(breaker.enter().is_err(), "one at a time");
        drop(cancelled);
        let attempt = breaker.enter().unwrap();
        assert!(breaker.enter().is_err(), "one at a time");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!breaker.failed(), "it was open already");
        drop(attempt);
        assert_eq!(breaker.enter().unwrap_err(), OPEN_TIME);
        tokio::time::advance(OPEN_TIME).await;
        let attempt = breaker.enter().unwrap();
        breaker.succeeded();
        drop(attempt);
        assert!(breaker.enter().is_ok() && breaker.open_for().is_none());
    }
}
