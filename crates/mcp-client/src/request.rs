//! Composes, sends, repeats and cancels requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::Negotiated;
use crate::http::{request_headers, trace};
use crate::meta::{self, Params};
use crate::options::RequestTimeout;
use crate::outgoing::Outgoing;
use crate::response_routes::ResponseRoutes;
use crate::transport::Transport;
use crate::{Client, Error, Options, outgoing};

impl Client {
    /// Sends a request within the timeout of the options or the client.
    pub(crate) fn call_with_timeout<'a>(
        &'a self,
        method: &'a str,
        params: Params<'a>,
        options: &'a Options,
    ) -> impl Future<Output = Result<Box<RawValue>, Error>> + 'a {
        // Boxed, since it is large and would be moved from future to future.
        let call = Box::pin(self.call(method, params, options));
        let after = match options.timeout {
            RequestTimeout::Default => self.timeout(),
            RequestTimeout::After(after) => after,
            RequestTimeout::Never => return Either::Left(call),
        };
        Either::Right(self.with_timeout(after, call))
    }

    /// Sends a request, and a second time if the server certainly did not accept the first.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let negotiated = self.negotiated();
        let answer = self.send_once(&negotiated, method, params, options).await;
        match answer {
            // Boxed to keep the common future small.
            Err(Error::SessionLost { .. }) => Box::pin(self.renew_session(&negotiated)).await?,
            Err(error)
                if self
                    .refresh_header_params(&negotiated, method, &error)
                    .await => {}
            answer => return answer,
        }
        self.send_once(&self.negotiated(), method, params, options)
            .await
    }

    /// Sends a request in the negotiated era.
    pub(crate) async fn send_once(
        &self,
        negotiated: &Negotiated,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let (request, token) = self.compose(negotiated, method, params, options)?;
        let routes = ResponseRoutes::new(options, token);
        self.exchange(request, routes).await
    }

    /// Composes a request. Returns it with the JSON of the caller's progress token.
    pub(crate) fn compose(
        &self,
        negotiated: &Negotiated,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<(Outgoing, Option<String>), Error> {
        let id = self.next_id();
        let is_modern = negotiated.is_modern();
        let params = meta::compose(params, id, negotiated.envelope.as_ref(), options)?;
        let mut request = outgoing::request(id, method, params.text.as_deref());
        request.is_resumable = !is_modern;
        if let Transport::Http(_) = self.0.transport {
            let members = params.members.as_deref();
            let header_params = match (is_modern, method) {
                (true, "tools/call") => self.0.header_params.headers(members),
                _ => Vec::new(),
            };
            request.headers = request_headers(is_modern, method, members, &header_params);
            trace(&mut request.headers, options.traceparent.as_deref());
        }
        Ok((request, params.token))
    }

    /// Sends a request; cancels it if the future is dropped.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing,
        routes: ResponseRoutes,
    ) -> Result<Box<RawValue>, Error> {
        let mut cancel = CancelOnDrop {
            transport: &self.0.transport,
            // The specification forbids cancelling the handshake.
            id: (!matches!(&*request.method, "initialize" | "server/discover"))
                .then_some(request.id),
        };
        let routes = Arc::new(routes);
        let in_flight = self.0.inbound.calls.enter(request.id, &routes);
        let answer = self.0.transport.exchange(request, routes).await;
        cancel.id = None;
        if answer.as_ref().err().is_none_or(Error::ends_the_request) {
            in_flight.answered();
        }
        answer
    }

    /// Parses a result.
    pub(crate) fn read<T: DeserializeOwned>(&self, method: &str, json: &str) -> Result<T, Error> {
        serde_json::from_str(json).map_err(|error| {
            tracing::debug!(peer = self.peer(), method, %error, "answer of an unexpected shape");
            self.protocol_error(format!("the answer to {method} has an unexpected shape"))
        })
    }

    pub(crate) fn protocol_error(&self, fault: impl Into<String>) -> Error {
        Error::protocol(self.0.transport.peer(), fault)
    }

    /// Limits `work` to this time. No `async fn`: its future would hold `work` twice.
    pub(crate) fn with_timeout<'a, T: 'a>(
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

/// Cancels a request at the server when it is dropped before the response.
struct CancelOnDrop<'a> {
    transport: &'a Transport,
    /// The id of the request in flight.
    id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.transport.cancel(outgoing::cancelled(id));
        }
    }
}
