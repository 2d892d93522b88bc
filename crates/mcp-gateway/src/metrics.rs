//! The metrics of the gateway and its backends, read when they are asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::backend::Backend;
use crate::config::BackendKey;
use crate::events::Log;

/// A number of each backend: its name, what it means, and how it is read.
type Metric = (&'static str, &'static str, fn(&Backend) -> u64);

const GAUGES: [Metric; 2] = [
    (
        "mcp_gateway_backend_up",
        "1 while the backend can be called.",
        |backend| u64::from(backend.is_up()),
    ),
    (
        "mcp_gateway_backend_tools",
        "Tools that the backend lists.",
        |backend| backend.snapshot().tools.len() as u64,
    ),
];

/// Without the `_total` that their samples end with.
const COUNTERS: [Metric; 5] = [
    (
        "mcp_gateway_backend_calls",
        "Tool calls that have ended.",
        |backend| backend.metrics.calls.get(),
    ),
    (
        "mcp_gateway_backend_errors",
        "Tool calls that ended without the result that was asked for.",
        |backend| backend.metrics.errors.get(),
    ),
    (
        "mcp_gateway_backend_restarts",
        "Starts after the first.",
        |backend| backend.metrics.restarts.get(),
    ),
    (
        "mcp_gateway_backend_stray_answers",
        "Answers that nobody waited for, or not any more.",
        |backend| backend.protocol_violations().unmatched_responses,
    ),
    (
        "mcp_gateway_backend_noise",
        "Lines and events of the backend that were no messages.",
        |backend| backend.protocol_violations().invalid_messages,
    ),
];

/// Collects the metrics of whatever backends there are.
pub(crate) struct GatewayMetrics {
    pub(crate) backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    pub(crate) log: Arc<Log>,
}

impl Collector for GatewayMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let backends: Vec<Arc<Backend>> = self.backends.lock().values().cloned().collect();
        let mut each = |name, help, kind, encode: &Encode<'_>| {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for backend in &backends {
                let labels = [("backend", backend.key.as_str())];
                encode(backend, family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        for (name, help, read) in GAUGES {
            each(name, help, MetricType::Gauge, &|backend, encoder| {
                ConstGauge::new(read(backend)).encode(encoder)
            })?;
        }
        for (name, help, read) in COUNTERS {
            each(name, help, MetricType::Counter, &|backend, encoder| {
                ConstCounter::new(read(backend)).encode(encoder)
            })?;
        }
        each(
            "mcp_gateway_backend_call_seconds",
            "How long tool calls took.",
            MetricType::Histogram,
            &|backend, encoder| backend.metrics.durations.encode(encoder),
        )?;
        let events = self.log.health();
        let dropped = ConstCounter::new(events.dropped);
        dropped.encode(encoder.encode_descriptor(
            "mcp_gateway_events_dropped",
            "Events that the log could not take.",
            None,
            MetricType::Counter,
        )?)?;
        let waiting = ConstGauge::new(events.waiting as u64);
        waiting.encode(encoder.encode_descriptor(
            "mcp_gateway_events_waiting",
            "Events that are not written yet.",
            None,
            MetricType::Gauge,
        )?)
    }
}

type Encode<'a> = dyn Fn(&Backend, MetricEncoder<'_>) -> fmt::Result + 'a;

impl fmt::Debug for GatewayMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayMetrics").finish_non_exhaustive()
    }
}
