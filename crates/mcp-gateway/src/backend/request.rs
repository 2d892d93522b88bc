//! One request to a backend: with a concurrency limit, a circuit breaker, a wait for a backend that is
//! being started, and one retry if the first try certainly had no effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::{Client, Error, Options, RpcError};
use mcp_core::jsonrpc::{ErrorObject, INTERNAL_ERROR, Members};
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use upstream::redact::redacted;

use super::circuit_breaker::CircuitBreaker;
use super::instances::Lease;
use super::{Backend, BackendState, BackendStatus, Caller};
use crate::config::Isolation;

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
    /// Nothing was sent. The text is for the model.
    Unavailable(String),
    /// The backend did not answer in time.
    TimedOut(Error),
    /// There was no usable answer: whether the request took effect is not known.
    Broken(Error),
}

impl RequestError {
    /// Converts it to the error of the client's call; `key` names the backend.
    pub(crate) fn into_tool_error(self, key: &str) -> ToolError {
        match self {
            Self::Rpc(error) => ToolError::from_backend(ErrorObject {
                code: i32::try_from(error.code).unwrap_or(INTERNAL_ERROR),
                message: error.message,
                data: error
                    .data
                    .and_then(|data| serde_json::from_str(data.get()).ok()),
            }),
            Self::Unavailable(text) => ToolError::unavailable(text),
            Self::TimedOut(error) => {
                let text = format!(
                    "The backend {key} did not answer in time; the call may still take effect. \
                     gateway_status shows its status."
                );
                ToolError::new(ToolErrorKind::Timeout, text).caused_by(error)
            }
            Self::Broken(error) => {
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
        }
    }
}

/// The client for one request.
struct Route {
    client: Client,
    breaker: Arc<CircuitBreaker>,
    /// The generation of the shared process.
    generation: u64,
    /// The caller's own instance, and a place there.
    lease: Option<(Lease, OwnedSemaphorePermit)>,
}

impl Backend {
    /// Sends one request for a caller, if it is known. `may_repeat`: it is idempotent.
    pub(crate) async fn request(
        self: &Arc<Self>,
        method: &str,
        params: &Members,
        options: Options,
        may_repeat: bool,
        caller: Option<&Caller>,
    ) -> Result<Box<RawValue>, RequestError> {
        // Before the shared process is looked for, which is stopped only while no request has a permit.
        let has_instance = self.has_instance(caller);
        let _permit = match has_instance {
            true => None,
            false => Some(self.enter_queue(&self.permits).await?),
        };
        let isolation = self.config.isolation;
        let options = options.caller(caller.and_then(|caller| caller.attributed(isolation)));
        let route = self.route(caller, None).await?;
        let sent = self.send(&route.client, &route.breaker, method, params, &options);
        let error = match sent.await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let is_closed = matches!(error, Error::Closed { .. });
        if !(error.was_not_sent() || may_repeat && is_closed) {
            return Err(error.into());
        }
        // The client of a child that has exited stays closed; the restarted child has another one.
        let route = match self.config.is_child() {
            true => self.route(caller, Some(&route)).await?,
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
                    return Err(self.unavailable("cannot be reached"));
                }
                sent => return sent.map_err(Into::into),
            }
        }
    }

    /// Returns the client for a request: of the caller's own instance with `isolation`, else of the
    /// shared process; not that of `exited`, which has ended.
    async fn route(
        self: &Arc<Self>,
        caller: Option<&Caller>,
        exited: Option<&Route>,
    ) -> Result<Route, RequestError> {
        if let Some(caller) = caller.filter(|_| self.has_instance(caller)) {
            let exited = exited.and_then(|route| route.lease.as_ref());
            let exited = exited.map(|(lease, _)| lease);
            let leased = self.lease(caller, exited).await;
            let (lease, client) = leased.map_err(|reason| self.unavailable(&reason))?;
            let permit = self.enter_queue(lease.permits()).await?;
            self.enter(lease.breaker())?;
            return Ok(Route {
                client,
                breaker: Arc::clone(lease.breaker()),
                generation: 0,
                lease: Some((lease, permit)),
            });
        }
        self.enter(&self.breaker)?;
        if exited.is_none() {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        let (client, generation) = self.client(exited.map(|route| route.generation)).await?;
        Ok(Route {
            client,
            breaker: Arc::clone(&self.breaker),
            generation,
            lease: None,
        })
    }

    /// Returns true if a caller has a process or session of its own.
    pub(super) fn has_instance(&self, caller: Option<&Caller>) -> bool {
        caller.is_some() && self.config.isolation != Isolation::Shared
    }

    /// Waits for a free place at a busy process or session.
    async fn enter_queue(
        &self,
        permits: &Arc<Semaphore>,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
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
    fn enter(&self, breaker: &CircuitBreaker) -> Result<(), RequestError> {
        if self.config.is_alone {
            return Ok(());
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
        if !self.config.is_child() && std::ptr::eq(breaker, &*self.breaker) {
            self.note_fault(&answer);
        }
        match &answer {
            // Not counted for a child: its supervisor restarts it with a backoff.
            Err(Error::Closed { .. } | Error::Unreachable { .. }) if self.config.is_child() => {}
            Err(error) if error.is_transport_failure() => {
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
    async fn client(&self, exited: Option<u64>) -> Result<(Client, u64), RequestError> {
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

    /// The error of a call while it is down.
    pub(crate) fn down_error(&self) -> ToolError {
        let error = self.down(&self.status());
        error.into_tool_error(self.key.as_str())
    }

    /// The error of a backend that is down: the reason, and the next step.
    fn down(&self, status: &BackendStatus) -> RequestError {
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

    pub(super) fn unavailable(&self, text: &str) -> RequestError {
        RequestError::Unavailable(format!("The backend {} {text}.", self.key))
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

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        match error {
            Error::Rpc(error) => Self::Rpc(error),
            Error::Http {
                error: Some(error), ..
            } => Self::Rpc(error),
            Error::Timeout { .. } => Self::TimedOut(error),
            Error::Http { status: 429, .. } | Error::Busy { .. } => Self::Unavailable(format!(
                "{error}: it is overloaded; try again in a few seconds."
            )),
            Error::Http {
                status: 401 | 403, ..
            } => Self::Unavailable(format!("{error}: it rejects the gateway's credentials.")),
            error => Self::Broken(error),
        }
    }
}
