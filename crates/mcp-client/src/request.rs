//! How a request is put together, sent, and given up.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::agreed::Agreed;
use crate::call::Patience;
use crate::http::{request_headers, trace};
use crate::meta::{self, Composed, Params, Say};
use crate::sink::Sink;
use crate::transport::Transport;
use crate::{Client, Error, Options, outgoing};

impl Client {
    /// The same as `call`, within the time that the options or the client give.
    pub(crate) fn call_in_time<'a>(
        &'a self,
        method: &'a str,
        params: Params<'a>,
        options: &'a Options,
    ) -> impl Future<Output = Result<Box<RawValue>, Error>> + 'a {
        // Large: what is boxed is not moved from future to future.
        let call = Box::pin(self.call(method, params, options));
        let after = match options.patience {
            Patience::Usual => self.timeout(),
            Patience::Until(after) => after,
            Patience::Endless => return Either::Left(call),
        };
        Either::Right(self.in_time(after, call))
    }

    /// Sends a request, and once more where the first was provably not accepted.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let agreed = self.agreed();
        let answer = self.attempt(&agreed, method, params, options).await;
        match answer {
            // Seldom, and large: not in every call's future.
            Err(Error::SessionLost { .. }) => Box::pin(self.renew(&agreed)).await?,
            Err(error) if self.learns_headers(&agreed, method, &error).await => {}
            answer => return answer,
        }
        self.attempt(&self.agreed(), method, params, options).await
    }

    /// Sends a request, in the way that was agreed on.
    pub(crate) async fn attempt(
        &self,
        agreed: &Agreed,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let say = Say {
            envelope: agreed.envelope.as_ref(),
            capabilities: options.capabilities.as_deref(),
            traceparent: options.traceparent.as_deref(),
            progress: options.progress.is_some(),
            may_report: options.handler.is_some(),
        };
        let id = self.next_id();
        let composed = meta::compose(params, id, &say)?;
        let request = self.outgoing(agreed, id, method, &composed, options);
        let sink = Sink::new(options, composed.token);
        self.exchange(request, sink).await
    }

    pub(crate) fn outgoing(
        &self,
        agreed: &Agreed,
        id: u64,
        method: &str,
        params: &Composed<'_>,
        options: &Options,
    ) -> outgoing::Outgoing {
        let mut request = outgoing::request(id, method, params.text.as_deref());
        let params = params.members.as_deref();
        request.is_resumable = !agreed.is_modern();
        if let Transport::Http(_) = self.0.transport {
            let traceparent = options.traceparent.as_deref();
            let annotated = match (agreed.is_modern(), method) {
                (true, "tools/call") => self.0.annotations.headers(params),
                _ => Vec::new(),
            };
            request.headers = request_headers(agreed.is_modern(), method, params, &annotated);
            trace(&mut request.headers, traceparent);
        }
        request
    }

    /// Sends a request; cancels it if nobody waits for the answer any more.
    pub(crate) async fn exchange(
        &self,
        request: outgoing::Outgoing,
        sink: Sink,
    ) -> Result<Box<RawValue>, Error> {
        let mut cancel = CancelOnDrop {
            transport: &self.0.transport,
            // The specification forbids to cancel the handshake.
            id: (!matches!(&*request.method, "initialize" | "server/discover"))
                .then_some(request.id),
        };
        let answer = self.0.transport.exchange(request, sink).await;
        cancel.id = None;
        answer
    }

    /// Reads an answer as the type that the specification gives it.
    pub(crate) fn read<T: DeserializeOwned>(&self, method: &str, json: &str) -> Result<T, Error> {
        serde_json::from_str(json).map_err(|error| {
            tracing::debug!(peer = self.peer(), method, %error, "answer of an unexpected shape");
            self.broken(format!("the answer to {method} has an unexpected shape"))
        })
    }

    pub(crate) fn broken(&self, fault: impl Into<String>) -> Error {
        Error::Protocol {
            peer: self.0.transport.peer().clone(),
            fault: fault.into(),
        }
    }

    /// Whatever it is made of, it takes at most this long. No `async fn`: that would keep `work`
    /// twice.
    pub(crate) fn in_time<'a, T: 'a>(
        &'a self,
        after: Duration,
        work: impl Future<Output = Result<T, Error>> + 'a,
    ) -> impl Future<Output = Result<T, Error>> + 'a {
        let late = move |_| {
            Err(Error::Timeout {
                peer: self.0.transport.peer().clone(),
                after,
            })
        };
        tokio::time::timeout(after, work).map(move |done| done.unwrap_or_else(late))
    }
}

/// Tells the server when nobody waits for a request any more.
struct CancelOnDrop<'a> {
    transport: &'a Transport,
    /// Of the request that is under way.
    id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transport
                .cancel(outgoing::cancelled(id, "no longer needed"));
        }
    }
}
