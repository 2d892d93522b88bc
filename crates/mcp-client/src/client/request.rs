//! Composes, sends, repeats and cancels requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_core::jsonrpc::{Members, quoted, string};
use mcp_core::revision::MODERN;
use mcp_core::server::known_method;
use mcp_core::trace::{ClientSpan, McpRequest, TraceContext};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Client, Inner, Negotiated, Transport};
use crate::http::{request_headers, trace_headers};
use crate::inbound::ResponseRoutes;
use crate::message::{Outgoing, PROGRESS_TOKEN, TraceField, cancelled, message};
use crate::options::RequestTimeout;
use crate::{ClientInfo, Error, Options};

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

    /// Sends a request, and a second time if the server certainly did not accept the first. A server that does not know
    /// a session which it has just opened answers the request itself with that, and may have acted on it.
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
        let negotiated = self.negotiated();
        let again = self.send_once(&negotiated, method, params, options).await;
        again.map_err(|error| match error {
            Error::SessionLost { peer } => {
                let fault = "the loss of a renewed session, too: it restarts, or several servers share its address";
                Error::invalid_answer(&peer, fault)
            }
            error => error,
        })
    }

    /// Sends a request in the negotiated era.
    pub(crate) async fn send_once(
        &self,
        negotiated: &Negotiated,
        method: &str,
        params: Params<'_>,
        options: &Options,
    ) -> Result<Box<RawValue>, Error> {
        let parent = options.trace.as_ref();
        let span = parent.map(|parent| self.span(parent, method, params));
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
    fn span(&self, parent: &TraceContext, method: &str, params: Params<'_>) -> ClientSpan {
        // The name of the tool or the prompt.
        let item = match (method, params) {
            ("tools/call" | "prompts/get", Params::Members(members)) => {
                members.get("name").and_then(string)
            }
            _ => None,
        };
        let (address, is_pipe) = match &self.0.transport {
            Transport::Http(http) => (http.address(), false),
            Transport::Stdio(stdio) => (None, stdio.is_child),
        };
        ClientSpan::mcp(parent, address, || McpRequest {
            method: known_method(method),
            item: item.as_deref(),
            revision: Some(self.era().revision()),
            session: None,
            is_pipe,
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
        let is_modern = negotiated.is_modern;
        let fields: Vec<_> = trace.into_iter().flat_map(TraceContext::fields).collect();
        let params = compose(params, id, negotiated.envelope(), options, &fields)?;
        let mut request = Outgoing {
            id,
            method,
            body: message(Some(id), method, params.text.as_deref()),
            headers: options.headers.clone(),
            is_modern,
        };
        if let Transport::Http(_) = self.0.transport {
            let members = params.members.as_deref();
            let call = members.filter(|_| is_modern && method == "tools/call");
            let header_params = call.and_then(|call| self.0.header_params.headers(call));
            let header_params = header_params.unwrap_or_default();
            let own = request_headers(is_modern, method, members, &header_params);
            request.headers.extend(own);
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
        let mut in_flight = InFlight {
            client: self,
            id: request.id,
            // The specification forbids cancelling the handshake.
            is_cancellable: !matches!(request.method, "initialize" | "server/discover"),
        };
        let (calls, routes) = (&self.0.inbound.calls, Arc::new(routes));
        calls.enter(request.id, &routes);
        let answer = self.0.transport.exchange(request, routes).await;
        in_flight.is_cancellable = false;
        if answer.as_ref().err().is_none_or(Error::ends_the_request) {
            calls.answered(in_flight.id);
        }
        answer
    }

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

/// A request in flight. Dropped before the response, it is cancelled at the server, and its call is abandoned.
struct InFlight<'a> {
    client: &'a Client,
    id: u64,
    is_cancellable: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let Inner {
            inbound, transport, ..
        } = &*self.client.0;
        inbound.calls.abandon(self.id);
        if self.is_cancellable {
            transport.cancel(cancelled(self.id));
        }
    }
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The members of a trace context.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// The parameters of a request, as the caller passes them.
#[derive(Clone, Copy)]
pub(crate) enum Params<'a> {
    Members(&'a Members),
    /// JSON, if there are parameters.
    Text(Option<&'a str>),
}

/// Parameters that are ready to be sent.
pub(crate) struct ComposedParams<'a> {
    /// Their JSON, if there are any.
    pub(crate) text: Option<Cow<'a, str>>,
    /// The members, if they had to be parsed: always in the modern era.
    pub(crate) members: Option<Cow<'a, Members>>,
    /// The JSON of the caller's progress token, which was replaced by ours.
    pub(crate) token: Option<String>,
}

/// Composes the parameters of the request `id`: writes `_meta` into them; everything else keeps its
/// bytes and its place. The members that describe a connection are ours: those of the caller's
/// connection are removed.
pub(crate) fn compose<'a>(
    params: Params<'a>,
    id: u64,
    envelope: Option<&ClientInfo>,
    options: &Options,
    trace: &[TraceField<'_>],
) -> Result<ComposedParams<'a>, Error> {
    let asks_for_progress = options.progress.is_some();
    let needs_meta = envelope.is_some() || !trace.is_empty() || asks_for_progress;
    let members = match params {
        Params::Members(members) => Some(Cow::Borrowed(members)),
        Params::Text(text) => read(text, needs_meta)?.map(Cow::Owned),
    };
    let has_meta = |members: &Members| members.get("_meta").is_some();
    let Some(members) = members.filter(|members| needs_meta || has_meta(members)) else {
        let (text, members) = match params {
            Params::Members(members) => (Some(members.encode().into()), Some(members)),
            Params::Text(text) => (text.map(Cow::Borrowed), None),
        };
        return Ok(ComposedParams {
            text,
            members: members.map(Cow::Borrowed),
            token: None,
        });
    };
    let meta = members.get("_meta").and_then(Members::read);
    let mut meta = meta.unwrap_or_default();
    // Without a handler nothing would receive the progress that the caller asks for.
    let token = meta
        .get(PROGRESS_TOKEN)
        .filter(|_| options.handler.is_some());
    let token = token.map(ToOwned::to_owned);
    for name in [PROGRESS_TOKEN, VERSION, CLIENT_INFO, CAPABILITIES] {
        meta.remove(name);
    }
    if !trace.is_empty() {
        TRACE.iter().for_each(|name| meta.remove(name));
    }
    // Earlier eras have `logging/setLevel` instead.
    if envelope.is_none() || options.log_level.is_some() {
        meta.remove(LOG_LEVEL);
    }
    if asks_for_progress || token.is_some() {
        meta.set(PROGRESS_TOKEN, &id.to_string());
    }
    for (name, value) in trace {
        meta.set(name, &quoted(value));
    }
    if let Some(envelope) = envelope {
        if let Some(level) = options.log_level {
            meta.set(LOG_LEVEL, &serde_json::json!(level).to_string());
        }
        let capabilities = options.capabilities.as_deref().map(RawValue::to_string);
        let capabilities = capabilities.unwrap_or_else(|| envelope.capabilities.to_string());
        meta.set(VERSION, &quoted(MODERN));
        meta.set(CLIENT_INFO, &envelope.client_info.to_string());
        meta.set(CAPABILITIES, &capabilities);
    }
    let meta = (!meta.is_empty()).then(|| meta.encode());
    Ok(ComposedParams {
        text: Some(members.encode_with("_meta", meta.as_deref()).into()),
        members: Some(members),
        token,
    })
}

/// Parses the parameters if `_meta` is or has to be in them. Parameters by position have none, and the
/// unversioned era allows them.
fn read(text: Option<&str>, needs_meta: bool) -> Result<Option<Members>, Error> {
    // The name may be written with an escape.
    let may_have_meta = |text: &str| text.contains("\"_meta\"") || text.contains("\\u");
    if !needs_meta && !text.is_some_and(may_have_meta) {
        return Ok(None);
    }
    let members = Members::read(text.unwrap_or("{}"));
    if needs_meta && members.is_none() {
        return Err(Error::Invalid("params must be an object".to_owned()));
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::LogLevel;
    use mcp_core::trace::TraceFields;

    use super::*;
    use crate::handler::DefaultHandler;
    use crate::message::params;

    #[test]
    fn params_that_are_null_are_left_out() {
        assert_eq!(params(&()).unwrap(), None);
        assert!(params(&3).is_err());
        assert_eq!(
            message(Some(7), "ping", None),
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#
        );
        assert_eq!(
            message(None, "notifications/initialized", Some("{}")),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#
        );
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[track_caller]
    fn check<'a>(
        params: Option<&'a str>,
        envelope: Option<&ClientInfo>,
        options: &Options,
        expected: Option<&str>,
    ) -> ComposedParams<'a> {
        let composed = compose(
            Params::Text(params),
            9,
            envelope,
            options,
            &Vec::from_iter(options.trace.iter().flat_map(TraceContext::fields)),
        )
        .unwrap();
        assert_eq!(composed.text.as_deref(), expected);
        composed
    }

    #[test]
    fn params_without_meta_keep_their_bytes() {
        for params in [
            None,
            Some(r#"{"a":  1e400}"#),
            Some("[1]"),
            Some(r#"{"a":"\u00e4"}"#),
        ] {
            check(params, None, &Options::default(), params);
        }
    }

    #[test]
    fn progress_token_of_the_caller_is_replaced_if_there_is_a_handler() {
        let params =
            r#"{"name":"t","_meta":{"a":1,"progressToken":"x"},"n":12345678901234567890123}"#;
        let expected =
            r#"{"name":"t","_meta":{"a":1,"progressToken":9},"n":12345678901234567890123}"#;
        let relayed = Options::default().handler(Arc::new(DefaultHandler));
        let composed = check(Some(params), None, &relayed, Some(expected));
        assert_eq!(composed.token.unwrap(), r#""x""#);

        let expected = r#"{"name":"t","_meta":{"a":1},"n":12345678901234567890123}"#;
        let composed = check(Some(params), None, &Options::default(), Some(expected));
        assert!(composed.token.is_none());
        let own = Options::default().progress(tokio::sync::mpsc::channel(1).0);
        check(None, None, &own, Some(r#"{"_meta":{"progressToken":9}}"#));
    }

    #[test]
    fn meta_of_the_callers_connection_is_removed() {
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"},"x":1}"#;
        check(Some(modern), None, &Options::default(), Some(r#"{"x":1}"#));
        let envelope = ClientInfo::new("us", "1");
        let capabilities = RawValue::from_string(r#"{"roots":{}}"#.to_owned()).unwrap();
        let options =
            Options::default()
                .capabilities(capabilities.into())
                .trace(TraceContext::parse(TraceFields {
                    parent: Some(PARENT),
                    state: Some("a=1"),
                    baggage: None,
                }));
        check(
            Some(modern),
            Some(&envelope),
            &options,
            Some(
                r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}},"x":1}"#,
            ),
        );
        // That of a caller of an earlier era, who has set it once.
        let options = Options::default().log_level(LogLevel::Warning);
        let expected = r#"{"_meta":{"io.modelcontextprotocol/logLevel":"warning","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"x":1}"#;
        check(Some(modern), Some(&envelope), &options, Some(expected));
        check(Some(modern), None, &options, Some(r#"{"x":1}"#));
    }
}
