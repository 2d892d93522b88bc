//! Composes, sends, repeats and cancels requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::jsonrpc::string;
use mcp_core::server::known_method;
use mcp_core::trace::{self, ClientSpan, McpRequest, SpanWork, TraceContext};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::client::Negotiated;
use crate::http::{request_headers, trace_headers};
use crate::meta::{self, Params};
use crate::options::RequestTimeout;
use crate::outgoing::Outgoing;
use crate::response_routes::ResponseRoutes;
use crate::transport::Transport;
use crate::{Client, Error, Options, outgoing};

impl Client {
    /// Sends a request within the timeout of the options or the client.
    ///
    /// Boxed: its future is large, and is compiled here, once.
    pub(crate) fn call_with_timeout<'a>(
        &'a self,
        method: &'a str,
        params: Params<'a>,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<RawValue>, Error>> {
        let call = Box::pin(self.call(method, params, options));
        let after = match options.timeout {
            RequestTimeout::Default => self.timeout(),
            RequestTimeout::After(after) => after,
            RequestTimeout::Never => return call,
        };
        Box::pin(self.with_timeout(after, call))
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
        let name = traced_name(method, params, options);
        let parent = options.trace.as_ref();
        let span = parent.map(|parent| self.span(parent, method, name.as_deref()));
        let context = span.as_ref().map(ClientSpan::context);
        let (request, token) = self.compose(negotiated, method, params, options, context)?;
        let routes = ResponseRoutes::new(options, token);
        let answer = self.exchange(request, routes).await;
        if let Some(span) = span {
            span.end(answer.as_ref().err().map(Error::span_error));
        }
        answer
    }

    /// Starts the span of a request, which is a part of the span `parent`.
    fn span(&self, parent: &TraceContext, method: &str, item: Option<&str>) -> ClientSpan {
        ClientSpan::start(parent, || {
            let transport = &self.0.transport;
            let request = McpRequest {
                method: known_method(method),
                item,
                revision: Some(self.era().revision()),
                session: None,
                is_pipe: transport.pid().is_some(),
            };
            SpanWork::Mcp(request, transport.address())
        })
    }

    /// Composes a request. Returns it with the JSON of the caller's progress token.
    pub(crate) fn compose<'a>(
        &self,
        negotiated: &Negotiated,
        method: &'a str,
        params: Params<'_>,
        options: &Options,
        trace: Option<&TraceContext>,
    ) -> Result<(Outgoing<'a>, Option<String>), Error> {
        let id = self.next_id();
        let is_modern = negotiated.is_modern();
        let fields: Vec<_> = trace.into_iter().flat_map(TraceContext::fields).collect();
        let params = meta::compose(params, id, negotiated.envelope.as_ref(), options, &fields)?;
        let mut request = outgoing::request(id, method, &params);
        request.is_resumable = !is_modern;
        if let Transport::Http(_) = self.0.transport {
            let members = params.members.as_deref();
            let header_params = match (is_modern, method) {
                (true, "tools/call") => self.0.header_params.headers(members),
                _ => Vec::new(),
            };
            request.headers = request_headers(is_modern, method, members, &header_params);
            request.headers.extend(trace_headers(fields));
        }
        Ok((request, params.token))
    }

    /// Sends a request; cancels it if the future is dropped.
    pub(crate) async fn exchange(
        &self,
        request: Outgoing<'_>,
        routes: ResponseRoutes,
    ) -> Result<Box<RawValue>, Error> {
        let mut cancel = CancelOnDrop {
            transport: &self.0.transport,
            // The specification forbids cancelling the handshake.
            id: (!matches!(request.method, "initialize" | "server/discover")).then_some(request.id),
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

    /// Limits `work` to this time.
    pub(crate) async fn with_timeout<T>(
        &self,
        after: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Error::Timeout {
            peer: self.0.transport.peer().clone(),
            after,
        };
        tokio::time::timeout(after, work).await.map_err(late)?
    }
}

/// The name of the tool or the prompt in a request whose span is recorded.
fn traced_name<'a>(method: &str, params: Params<'a>, options: &Options) -> Option<Cow<'a, str>> {
    let is_named = matches!(method, "tools/call" | "prompts/get");
    options.trace.as_ref().filter(|_| is_named)?;
    trace::tracer()?;
    match params {
        Params::Members(members) => string(members.get("name")?),
        Params::Text(_) => None,
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
