//! Probes: whether a backend answers at all, without a call.

use std::sync::Arc;
use std::time::Duration;

use gateway_store::events::{EventStatus, kind};
use mcp_client::{Client, Error, Options};
use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use serde_json::value::RawValue;
use upstream::redact::redacted;

use super::{Backend, Caller};

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

impl Backend {
    /// Probes the process or session of a caller after the timeout of a call, which a slow tool or a hanging
    /// backend can cause: sends pings until one is answered or its circuit breaker opens.
    pub(crate) fn probe_after_timeout(self: &Arc<Self>, caller: Option<&Caller>) {
        let instance = self.keep_instance(caller);
        let breaker = match &instance {
            Some(lease) => Arc::clone(lease.breaker()),
            // Its instance has ended.
            None if self.has_instance(caller) => return,
            None => Arc::clone(&self.breaker),
        };
        if !breaker.begin_probe() {
            return;
        }
        let backend = Arc::clone(self);
        tokio::spawn(async move {
            while breaker.open_for().is_none() {
                let client = match &instance {
                    Some(lease) => lease.started(),
                    None => backend.status().client,
                };
                let Some(client) = client else { break };
                let (params, options) = (Members::default(), Options::default());
                let options = options.timeout(PROBE_TIMEOUT);
                let method = probe_method(&client);
                let sent = backend.send(&client, &breaker, method, &params, &options);
                match sent.await {
                    Err(error) if error.is_transport_failure() => {}
                    // An error of the backend is an answer as well.
                    _ => break,
                }
                tokio::time::sleep(PROBE_TIMEOUT / 10).await;
            }
            breaker.end_probe();
        });
    }

    /// Probes a server over HTTP without end, since nothing else shows that it has gone. The answer to a probe counts for
    /// no circuit breaker: a server may not know its method.
    pub(super) async fn probe(self: &Arc<Self>, client: &Client) {
        loop {
            tokio::time::sleep(self.signals.probe_interval).await;
            let options = Options::default().timeout(PROBE_TIMEOUT);
            let params = Members::default();
            let method = probe_method(client);
            let answer = Box::pin(client.request_members(method, &params, &options)).await;
            self.note_fault(&answer);
            if let Err(Error::Timeout { .. }) = answer {
                self.probe_after_timeout(None);
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
