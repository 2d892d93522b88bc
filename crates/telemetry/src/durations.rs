//! The durations of requests as data points of OTLP: those that `/metrics` shows, cumulative.

use std::collections::BTreeMap;

use mcp_core::metrics::{BOUNDS, DurationMetric, HistogramValues, OperationDurations};

use crate::attributes::ATTRIBUTES;
use crate::protobuf::Writer;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// Encodes durations for one request after the other.
pub(crate) struct DurationEncoder {
    /// Time of the last request, or of the start, in nanoseconds since 1970.
    last: u64,
    /// The histograms of the last request, by the name of the metric and the attributes.
    series: BTreeMap<(&'static str, Vec<u8>), Series>,
}

/// A histogram that was encoded.
struct Series {
    /// Time from which it counts.
    since: u64,
    count: u64,
}

impl DurationEncoder {
    /// Durations are counted since `now`.
    pub(crate) fn new(now: u64) -> Self {
        Self {
            last: now,
            series: BTreeMap::new(),
        }
    }

    /// Writes the field `metrics` of a `ScopeMetrics` at the time `now`. False without any.
    pub(crate) fn encode(
        &mut self,
        now: u64,
        metrics: &[DurationMetric],
        writer: &mut Writer<'_>,
    ) -> bool {
        let mut series = BTreeMap::new();
        for metric in metrics {
            let mut points = Vec::new();
            for (labels, values) in metric
                .operations
                .iter()
                .flat_map(OperationDurations::series)
            {
                let mut attributes = Vec::new();
                for (name, value) in labels {
                    Writer(&mut attributes).attribute(ATTRIBUTES, name, value);
                }
                let (key, count) = ((metric.name, attributes), values.count());
                // A new one, or one of a backend that was configured again and counts from 0, has counted since then.
                let known = self.series.get(&key).filter(|known| known.count <= count);
                let since = known.map_or(self.last, |known| known.since);
                Writer(&mut points).message(1, |point| {
                    encode_point(since, now, &values, point);
                    point.0.extend_from_slice(&key.1);
                });
                series.insert(key, Series { since, count });
            }
            if points.is_empty() {
                continue;
            }
            writer.message(2, |writer| {
                writer.bytes(1, metric.name.as_bytes());
                writer.bytes(2, metric.description.as_bytes());
                writer.bytes(3, b"s");
                Writer(&mut points).varint(2, CUMULATIVE);
                writer.bytes(9, &points);
            });
        }
        (self.series, self.last) = (series, now);
        !self.series.is_empty()
    }
}

/// Writes the fields of a `HistogramDataPoint` but for its attributes.
fn encode_point(since: u64, now: u64, values: &HistogramValues, writer: &mut Writer<'_>) {
    writer.fixed64(2, since);
    writer.fixed64(3, now);
    writer.fixed64(4, values.count());
    writer.double(5, values.total.as_secs_f64());
    writer.bytes(6, &values.buckets.map(u64::to_le_bytes).concat());
    writer.bytes(7, &BOUNDS.map(f64::to_le_bytes).concat());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mcp_core::metrics::Durations;

    use super::*;

    fn metric(durations: &Arc<Durations>) -> [DurationMetric; 1] {
        [DurationMetric::answered(vec![OperationDurations {
            backend: None,
            method: "ping",
            tool: None,
            durations: Arc::clone(durations),
        }])]
    }

    /// The time from which the only histogram counts; `None` if nothing was encoded.
    fn since(encoder: &mut DurationEncoder, now: u64, durations: &Arc<Durations>) -> Option<u64> {
        let mut bytes = Vec::new();
        let has_some = encoder.encode(now, &metric(durations), &mut Writer(&mut bytes));
        assert_eq!(has_some, !bytes.is_empty());
        let series = encoder.series.values().next();
        series.map(|series| series.since)
    }

    #[test]
    fn histograms_count_since_the_request_before_their_first_duration() {
        let durations = Arc::<Durations>::default();
        let mut encoder = DurationEncoder::new(10);
        assert_eq!(since(&mut encoder, 20, &durations), None);
        durations.record(None, Duration::ZERO);
        assert_eq!(since(&mut encoder, 30, &durations), Some(20));
        durations.record(None, Duration::ZERO);
        assert_eq!(since(&mut encoder, 40, &durations), Some(20));
        // The backend was configured again, and has counted less than before.
        let again = Arc::<Durations>::default();
        again.record(None, Duration::ZERO);
        assert_eq!(since(&mut encoder, 50, &again), Some(40));
    }
}
