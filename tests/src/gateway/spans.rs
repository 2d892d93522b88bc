//! A receiver of spans over OTLP/HTTP.

use std::collections::BTreeMap;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use crate::harness::{FakeService, Response};

/// A running receiver.
pub(super) struct SpanReceiver(FakeService);

/// A span that was received.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// `service.name` of the process.
    pub(super) service: String,
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty without one.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) is_client: bool,
    pub(super) has_failed: bool,
    pub(super) attributes: BTreeMap<String, String>,
}

impl SpanReceiver {
    pub(super) async fn start() -> Self {
        let accepted = |_: &_| Response::Http(200, "application/x-protobuf", Bytes::new());
        Self(FakeService::start(accepted).await)
    }

    /// The variables of a program that exports to it soon.
    pub(super) fn env<'a>(&'a self, name: &'a str) -> [(&'a str, &'a str); 3] {
        [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &self.0.url),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_SERVICE_NAME", name),
        ]
    }

    /// The spans of a trace so far.
    pub(super) fn in_trace(&self, trace: &str) -> Vec<Span> {
        let bodies = self.0.requests().into_iter().map(|request| request.body);
        let spans = bodies.flat_map(|body| read(&body));
        spans.filter(|span| span.trace == trace).collect()
    }
}

fn read(request: &[u8]) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(request).unwrap();
    let mut found = Vec::new();
    for group in request.resource_spans {
        let mut resource = texts(&group.resource.unwrap().attributes);
        let service = resource.remove("service.name").unwrap();
        let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
        found.extend(spans.map(|span| {
            Span {
                service: service.clone(),
                trace: hexadecimal(&span.trace_id),
                id: hexadecimal(&span.span_id),
                parent: hexadecimal(&span.parent_span_id),
                is_client: span.kind() == SpanKind::Client,
                attributes: texts(&span.attributes),
                name: span.name,
                has_failed: span
                    .status
                    .is_some_and(|status| status.code() == StatusCode::Error),
            }
        }));
    }
    found
}

/// The attributes with a text or a number.
fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let texts = attributes.iter().map(|attribute| {
        let value = attribute.value.as_ref().unwrap().value.as_ref();
        let text = match value.unwrap() {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (attribute.key.clone(), text)
    });
    texts.collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
