//! The span of a hop: the spans of the other replica are its children.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, Uri};
use mcp_core::server::ReplicaId;
use mcp_core::trace::{ClientSpan, HttpRequest, PeerAddress, SpanWork, TraceContext};

use super::super::super::headers::is_of_trace;
use super::super::super::reply::Reply;
use super::{HopRequest, Hops, Unreachable};

impl Hops {
    /// Sends a request as a part of the trace that this replica has begun or continued for it: without a trace of the
    /// client the other replica would begin one of its own.
    pub(in crate::http) async fn send_traced(
        &self,
        to: ReplicaId,
        mut request: HopRequest<'_>,
        trace: Option<TraceContext>,
    ) -> Result<Response<Reply>, Unreachable> {
        let Some(trace) = trace else {
            return self.send(to, &request).await;
        };
        let address = self.replicas.address(to);
        let uri = address.and_then(|address| address.parse::<Uri>().ok());
        let peer = PeerAddress {
            host: uri.as_ref().and_then(Uri::host).unwrap_or_default(),
            port: uri.as_ref().and_then(Uri::port_u16),
        };
        let method = request.method.clone();
        // With its baggage: replicas are one server to a client.
        let span = ClientSpan::start(&trace, || {
            SpanWork::Http(HttpRequest {
                method: method.as_str(),
                peer,
                status: None,
            })
        });
        set_context(request.headers.to_mut(), span.context());
        let sent = self.send(to, &request).await;
        let response = sent.as_ref().ok();
        span.end_http(response.map(|response| response.status().as_u16()));
        sent
    }
}

/// Replaces the context that the client has sent.
fn set_context(headers: &mut HeaderMap, context: &TraceContext) {
    let names = headers.keys().filter(|name| is_of_trace(name));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
    for (name, value) in context.fields() {
        // Its values are text.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
