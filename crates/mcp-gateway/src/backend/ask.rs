//! One request to a backend, with all that protects the caller: a bound on how many there are, a
//! circuit that opens, a wait for a backend that is about to come back, and a second try where the
//! first provably did nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_client::{Client, Error, Options, RpcError};
use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Backend, State, Status};

/// How long a request waits for its turn at a backend that is busy.
const TURN: Duration = Duration::from_secs(5);
/// How long a backend may take to say that it is there.
const PROBE: Duration = Duration::from_secs(3);
/// How long a request waits for a backend that is being started.
const START: Duration = Duration::from_secs(10);

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The backend has answered with an error.
    Rpc(RpcError),
    /// It cannot be asked now; nothing was sent. Words for the model.
    Unavailable(String),
    /// It did not answer in time.
    TimedOut(Error),
    /// The way to it broke while it worked: what became of the request is not known.
    Broken(Error),
}

impl Failure {
    /// The error for the three audiences; `key` names the backend.
    pub(crate) fn into_tool_error(self, key: &str) -> ToolError {
        match self {
            Self::Rpc(error) => ToolError::from_backend(mcp_core::jsonrpc::ErrorObject {
                code: i32::try_from(error.code).unwrap_or(mcp_core::jsonrpc::INTERNAL_ERROR),
                message: error.message,
                data: error
                    .data
                    .and_then(|data| serde_json::from_str(data.get()).ok()),
            }),
            Self::Unavailable(words) => ToolError::unavailable(words),
            Self::TimedOut(error) => ToolError::new(
                ToolErrorKind::Timeout,
                format!(
                    "The backend {key} did not answer in time; it may still take effect. \
                     gateway_status shows how it is."
                ),
            )
            .caused_by(error),
            Self::Broken(error) => ToolError::upstream(format!(
                "The backend {key} broke off before it answered; look whether it took effect \
                 before you call again."
            ))
            .caused_by(error),
        }
    }
}

impl Backend {
    /// Sends one request. `may_repeat`: doing it twice does no more than doing it once.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &Members,
        options: Options,
        may_repeat: bool,
    ) -> Result<Box<RawValue>, Failure> {
        let turn = tokio::time::timeout(TURN, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = turn else {
            let words = format!(
                "The backend {} is busy with other calls; try again in a few seconds.",
                self.key
            );
            return Err(Failure::Unavailable(words));
        };
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (client, generation) = self.client(None).await?;
        let error = match self.send(&client, method, params, &options).await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let broke = matches!(error, Error::Closed { .. });
        if !(error.was_not_sent() || may_repeat && broke) {
            return Err(failure(error));
        }
        // A child that is gone does not come back; the next one does.
        let not = self.config.is_child().then_some(generation);
        let (client, _) = self.client(not).await?;
        self.send(&client, method, params, &options)
            .await
            .map_err(|error| match error {
                error if error.was_not_sent() => {
                    Failure::Unavailable(format!("The backend {} cannot be reached.", self.key))
                }
                error => failure(error),
            })
    }

    /// A call got no answer in time. The tool may be slow or the backend may hang: it is asked for
    /// something that costs nothing, until it answers or the circuit is open.
    pub(crate) fn was_silent(self: &Arc<Self>) {
        if self.probing.swap(true, Ordering::Relaxed) {
            return;
        }
        let backend = Arc::clone(self);
        tokio::spawn(async move {
            while backend.breaker.open_for().is_none() {
                let Some(client) = backend.status().client else {
                    break;
                };
                let method = match client.era() {
                    Era::Modern => "server/discover",
                    Era::Legacy(_) | Era::Unversioned => "ping",
                };
                let (options, nothing) = (Options::default().timeout(PROBE), Members::default());
                let answer = backend.send(&client, method, &nothing, &options);
                match answer.await {
                    Err(error) if error.is_transport_failure() => {}
                    // Any answer is one.
                    _ => break,
                }
                tokio::time::sleep(PROBE / 10).await;
            }
            backend.probing.store(false, Ordering::Relaxed);
        });
    }

    async fn send(
        &self,
        client: &Client,
        method: &str,
        params: &Members,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let answer = client.request_members(method, params, options).await;
        match &answer {
            // Its supervisor starts it again, and knows better than any count when.
            Err(Error::Closed { .. } | Error::Unreachable { .. }) if self.config.is_child() => {}
            Err(error) if error.is_transport_failure() => {
                if self.breaker.failed() {
                    tracing::warn!(backend = %self.key, %error, "does not answer; not asked for a while");
                }
            }
            _ => self.breaker.succeeded(),
        }
        answer
    }

    /// The way to the backend, once it is up; another one than that of the generation `not`.
    async fn client(&self, not: Option<u64>) -> Result<(Client, u64), Failure> {
        if let Err(wait) = self.breaker.enter() {
            return Err(Failure::Unavailable(format!(
                "The backend {} does not answer; it is asked again in {} s at the earliest.",
                self.key,
                wait.as_secs() + 1
            )));
        }
        let is_child = self.config.is_child();
        let decided = |status: &Status| match status.state {
            State::Running => not != Some(status.generation),
            State::Stopped | State::Starting => false,
            // One that starts again soon is worth a wait.
            State::Failed => !is_child || status.next_try > Some(Instant::now() + START / 2),
            State::CrashLoop => true,
        };
        let mut status = self.status.borrow().clone();
        if !decided(&status) {
            if status.state == State::Stopped {
                self.wake.notify_one();
            }
            let mut changing = self.status.subscribe();
            let found = tokio::time::timeout(START, changing.wait_for(decided)).await;
            status = match found {
                Ok(Ok(status)) => status.clone(),
                Ok(Err(_)) | Err(_) => self.status(),
            };
        }
        match status.client.clone() {
            Some(client) if not != Some(status.generation) => Ok((client, status.generation)),
            _ => Err(Failure::Unavailable(self.down(&status))),
        }
    }

    /// What is wrong with it, and what helps.
    fn down(&self, status: &Status) -> String {
        let reason = status.last_error.as_deref().unwrap_or("it does not start");
        let next = match (status.state, status.next_try_s()) {
            (State::CrashLoop, _) => {
                "it is not tried again by itself; gateway_restart starts it".to_owned()
            }
            (_, Some(wait)) => format!("it is tried again in {wait} s"),
            (_, None) => "it is being started".to_owned(),
        };
        format!("The backend {} is down ({reason}); {next}.", self.key)
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Rpc(error) => Failure::Rpc(error),
        Error::Http {
            error: Some(error), ..
        } => Failure::Rpc(error),
        Error::Timeout { .. } => Failure::TimedOut(error),
        Error::Http { status: 429, .. } | Error::Busy { .. } => Failure::Unavailable(format!(
            "{error}: it has too much to do; try again in a few seconds."
        )),
        Error::Http {
            status: 401 | 403, ..
        } => Failure::Unavailable(format!(
            "{error}: the gateway's key for it is not accepted."
        )),
        error => Failure::Broken(error),
    }
}
