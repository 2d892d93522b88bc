//! A receiver of spans over OTLP/HTTP.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::harness::{FakeService, Response};

/// A running receiver.
pub(super) struct SpanReceiver(FakeService);

/// A span that was received.
#[derive(Clone, Debug, Default, PartialEq)]
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
        let spans = self.all().into_iter();
        spans.filter(|span| span.trace == trace).collect()
    }

    /// All spans so far.
    pub(super) fn all(&self) -> Vec<Span> {
        let bodies = self.0.requests().into_iter().map(|request| request.body);
        bodies.flat_map(|body| read(&body)).collect()
    }
}

/// The spans of an `ExportTraceServiceRequest`.
fn read(request: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for group in messages(request, 1) {
        let resource = messages(group, 1).next().unwrap();
        let service = attributes(resource, 1).remove("service.name").unwrap();
        let spans = messages(group, 2).flat_map(|scope| messages(scope, 2));
        found.extend(spans.map(|span| Span {
            service: service.clone(),
            ..read_span(span)
        }));
    }
    found
}

fn read_span(span: &[u8]) -> Span {
    let hexadecimal = |tag| {
        let digits = messages(span, tag).flatten();
        digits.map(|byte| format!("{byte:02x}")).collect()
    };
    Span {
        service: String::new(),
        trace: hexadecimal(1),
        id: hexadecimal(2),
        parent: hexadecimal(4),
        name: text(messages(span, 5).next().unwrap()),
        // `SPAN_KIND_CLIENT`
        is_client: numbers(span, 6).any(|kind| kind == 3),
        // `STATUS_CODE_ERROR`
        has_failed: messages(span, 15).any(|status| numbers(status, 3).any(|code| code == 2)),
        attributes: attributes(span, 9),
    }
}

/// The attributes with a text or a number.
fn attributes(message: &[u8], tag: u32) -> BTreeMap<String, String> {
    let pairs = messages(message, tag).map(|pair| {
        let value = messages(pair, 2).next().unwrap();
        let number = numbers(value, 3).map(|number| number.to_string()).next();
        let value = messages(value, 1).next().map(text).or(number);
        (text(messages(pair, 1).next().unwrap()), value.unwrap())
    });
    pairs.collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A value of Protocol Buffers; those of fixed size are left out.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields with this tag that are bytes, texts or messages.
fn messages(message: &[u8], tag: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |field| match field {
        (found, Value::Bytes(bytes)) if found == tag => Some(bytes),
        _ => None,
    })
}

/// The fields with this tag that are numbers.
fn numbers(message: &[u8], tag: u32) -> impl Iterator<Item = u64> {
    fields(message).filter_map(move |field| match field {
        (found, Value::Number(number)) if found == tag => Some(number),
        _ => None,
    })
}

fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let key = varint(&mut rest);
            let tag = u32::try_from(key >> 3).unwrap();
            let skipped = match key & 7 {
                0 => return Some((tag, Value::Number(varint(&mut rest)))),
                2 => {
                    let len = usize::try_from(varint(&mut rest)).unwrap();
                    let (value, after) = rest.split_at(len);
                    rest = after;
                    return Some((tag, Value::Bytes(value)));
                }
                1 => 8,
                5 => 4,
                kind => panic!("type {kind}"),
            };
            rest = &rest[skipped..];
        }
    })
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (number, rest) = bytes.split_at(len);
    *bytes = rest;
    let parts = number.iter().rev();
    parts.fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}
