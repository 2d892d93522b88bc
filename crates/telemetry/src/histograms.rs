//! The durations of requests, as histograms: `mcp.server.operation.duration` and `mcp.client.operation.duration`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mcp_core::metrics::BOUNDS;
use mcp_core::trace::{EndedSpan, McpRequest, SpanError, SpanWork};

use crate::attributes::{RequestFields, told_apart};
use crate::clock::now;
use crate::protobuf::Writer;

/// The key of the requests that exceed the limit.
const OTHERS: u64 = 0;
/// Limit of combinations of attributes. A further one takes the place of one without a duration since the last export;
/// if there is none, it is one of the others.
const MAX_SERIES: usize = 500;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// All durations since the start.
#[derive(Default)]
pub(crate) struct Histograms {
    answered: Series,
    sent: Series,
    /// Empty memory, before and after.
    text: Vec<u8>,
}

/// The histograms of one metric, by a hash of their attributes.
type Series = BTreeMap<u64, Histogram>;

/// The durations of requests that have the same attributes.
#[derive(Default)]
struct Histogram {
    fields: RequestFields,
    /// Start in nanoseconds since 1970.
    started: u64,
    counts: [u64; BOUNDS.len() + 1],
    seconds: f64,
    /// True if it has a duration that was not exported.
    has_new: bool,
}

impl Histograms {
    /// Adds the duration of a request of MCP. Returns its fields, unless it is one of too many.
    pub(crate) fn add(&mut self, span: &EndedSpan<'_>) -> Option<&RequestFields> {
        let (series, request) = match &span.work {
            SpanWork::Answered(request) => (&mut self.answered, request),
            SpanWork::Sent(request, _) => (&mut self.sent, request),
            SpanWork::Http(_) => return None,
        };
        let mut key = hash(request, span.error, &mut self.text);
        if series.len() >= MAX_SERIES && !series.contains_key(&key) {
            let unused = series
                .iter()
                .find(|(key, unused)| **key != OTHERS && !unused.has_new);
            match unused.map(|(key, _)| *key) {
                Some(unused) => drop(series.remove(&unused)),
                None => key = OTHERS,
            }
        }
        let histogram = series.entry(key).or_insert_with(|| Histogram {
            fields: match key {
                OTHERS => RequestFields::for_others(),
                _ => RequestFields::new(request, span.error),
            },
            started: now(),
            ..Histogram::default()
        });
        histogram.has_new = true;
        let seconds = span.took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        histogram.counts[bucket.unwrap_or(BOUNDS.len())] += 1;
        histogram.seconds += seconds;
        (key != OTHERS).then_some(&histogram.fields)
    }

    /// Writes the field `metrics` of a `ScopeMetrics` at the time `now`. False without any.
    pub(crate) fn encode(&mut self, now: u64, writer: &mut Writer<'_>) -> bool {
        let mut metrics = [
            ("mcp.server.operation.duration", &mut self.answered),
            ("mcp.client.operation.duration", &mut self.sent),
        ];
        for (name, series) in metrics.iter_mut().filter(|(_, series)| !series.is_empty()) {
            writer.message(2, |metric| {
                metric.bytes(1, name.as_bytes());
                metric.bytes(3, b"s");
                metric.message(9, |histogram| {
                    for point in series.values_mut() {
                        histogram.message(1, |writer| point.encode(now, writer));
                    }
                    histogram.varint(2, CUMULATIVE);
                });
            });
        }
        metrics.iter().any(|(_, series)| !series.is_empty())
    }
}

/// A hash of the attributes of a request. Of one text: to hash each attribute takes four times as long.
fn hash(request: &McpRequest<'_>, error: Option<SpanError>, text: &mut Vec<u8>) -> u64 {
    // No text has these bytes.
    const ABSENT: u8 = 0xfe;
    const END: u8 = 0xff;
    for attribute in [request.method, request.item, request.revision] {
        match attribute {
            Some(attribute) => text.extend_from_slice(attribute.as_bytes()),
            None => text.push(ABSENT),
        }
        text.push(END);
    }
    text.push(request.is_pipe.into());
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    text.clear();
    if let Some(error) = told_apart(error) {
        error.hash(&mut hasher);
    }
    hasher.finish()
}

impl Histogram {
    /// Writes the fields of a `HistogramDataPoint`.
    fn encode(&mut self, now: u64, writer: &mut Writer<'_>) {
        self.has_new = false;
        writer.fixed64(2, self.started);
        writer.fixed64(3, now);
        writer.fixed64(4, self.counts.iter().sum());
        writer.double(5, self.seconds);
        let counts = self.counts.map(u64::to_le_bytes).concat();
        writer.bytes(6, &counts);
        writer.bytes(7, &BOUNDS.map(f64::to_le_bytes).concat());
        writer.0.extend_from_slice(&self.fields.attributes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_core::trace::TraceContext;

    use super::*;

    fn add(histograms: &mut Histograms, tool: &str, took: Duration) {
        histograms.add(&EndedSpan {
            context: &TraceContext::for_request(None),
            parent: None,
            started: Duration::ZERO,
            took,
            work: SpanWork::Answered(McpRequest {
                method: Some("tools/call"),
                item: Some(tool),
                ..McpRequest::default()
            }),
            error: None,
        });
    }

    #[test]
    fn durations_are_counted_by_their_bounds() {
        let mut histograms = Histograms::default();
        for millis in [0, 1, 2, 300_000, 300_001] {
            add(&mut histograms, "a", Duration::from_millis(millis));
        }
        let found = histograms.answered.values().next().unwrap();
        let mut expected = [0; 18];
        (expected[0], expected[1], expected[16], expected[17]) = (2, 1, 1, 1);
        assert_eq!(found.counts, expected);
        assert!((found.seconds - 600.004).abs() < 1e-6);
    }

    #[test]
    fn number_of_series_has_a_limit() {
        let mut histograms = Histograms::default();
        for n in 0..2 * MAX_SERIES {
            add(&mut histograms, &format!("tool{n}"), Duration::ZERO);
        }
        assert_eq!(histograms.answered.len(), MAX_SERIES + 1);
        let rest = &histograms.answered[&0];
        assert_eq!(rest.counts[0], MAX_SERIES as u64);
        assert_eq!(
            rest.fields.attributes,
            RequestFields::for_others().attributes
        );
        // After an export there is room for those that are used now.
        histograms.encode(0, &mut Writer(&mut Vec::new()));
        add(&mut histograms, "new", Duration::ZERO);
        assert_eq!(histograms.answered.len(), MAX_SERIES + 1);
        assert_eq!(histograms.answered[&0].counts[0], MAX_SERIES as u64);
    }
}
