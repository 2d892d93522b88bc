//! The Prometheus metrics of the gateway and its backends, read at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gateway_store::events::EventLog;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::backend::Backend;
use crate::config::BackendKey;

/// A metric of each backend: its name, its help text, and the function that reads it.
type Metric = (&'static str, &'static str, fn(&Backend) -> u64);

const GAUGES: [Metric; 3] = [
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
    (
        "mcp_gateway_backend_instances",
        "Callers with a process or session of their own.",
        |backend| backend.instances() as u64,
    ),
];

/// The names are without `_total`, which the samples end with.
const COUNTERS: [Metric; 7] = [
    (
        "mcp_gateway_backend_calls",
        "Tool calls that have ended.",
        |backend| backend.metrics.calls.get(),
    ),
    (
        "mcp_gateway_backend_errors",
        "Tool calls that failed.",
        |backend| backend.metrics.errors.get(),
    ),
    (
        "mcp_gateway_backend_restarts",
        "Starts after the first.",
        |backend| backend.metrics.restarts.get(),
    ),
    (
        "mcp_gateway_backend_stray_answers",
        "Responses that match no open request.",
        |backend| backend.counters().unmatched_responses,
    ),
    (
        "mcp_gateway_backend_noise",
        "Output of the backend that is not a message.",
        |backend| backend.counters().invalid_messages,
    ),
    (
        "mcp_gateway_backend_refused_questions",
        "Questions that were refused because the client to ask is not certain.",
        |backend| backend.counters().refused_requests,
    ),
    (
        "mcp_gateway_backend_unattributed_logs",
        "Log messages whose client is not certain.",
        |backend| backend.counters().unattributed_logs,
    ),
];

/// Collects the metrics of all backends and of the event log.
pub(crate) struct GatewayMetrics {
    pub(crate) backends: Arc<Mutex<BTreeMap<BackendKey, Arc<Backend>>>>,
    pub(crate) log: Arc<EventLog>,
}

impl Collector for GatewayMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let backends: Vec<Arc<Backend>> = self.backends.lock().values().cloned().collect();
        let gauges = GAUGES.map(|metric| (MetricType::Gauge, metric));
        let counters = COUNTERS.map(|metric| (MetricType::Counter, metric));
        for (kind, (name, help, read)) in gauges.into_iter().chain(counters) {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for backend in &backends {
                let labels = [("backend", backend.key.as_str())];
                encode(kind, read(backend), family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = (
            "mcp_gateway_backend_call_seconds",
            "Durations of tool calls.",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for backend in &backends {
            let labels = [("backend", backend.key.as_str())];
            let durations = &backend.metrics.durations;
            durations.encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = (
            "mcp_gateway_view_requests",
            "Requests of clients of the view.",
        );
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (view, count) in self.log.requests_of_views() {
            let labels = [("view", &*view)];
            encode(MetricType::Counter, count, family.encode_family(&labels)?)?;
        }
        let (health, kind) = (self.log.health(), MetricType::Counter);
        let (name, help) = ("mcp_gateway_events_dropped", "Events that were lost.");
        let dropped = encoder.encode_descriptor(name, help, None, kind)?;
        encode(kind, health.dropped, dropped)?;
        let (name, help) = (
            "mcp_gateway_events_waiting",
            "Events that are not written yet.",
        );
        let waiting = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        encode(MetricType::Gauge, health.waiting as u64, waiting)
    }
}

fn encode(kind: MetricType, value: u64, encoder: MetricEncoder<'_>) -> fmt::Result {
    match kind {
        MetricType::Counter => ConstCounter::new(value).encode(encoder),
        _ => ConstGauge::new(value).encode(encoder),
    }
}

impl fmt::Debug for GatewayMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayMetrics").finish_non_exhaustive()
    }
}
