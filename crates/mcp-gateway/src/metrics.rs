//! The Prometheus metrics of the gateway and its backends, read at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gateway_store::events::EventLog;
use gateway_store::shared::SharedTables;
use mcp_core::metrics::Durations;
use mcp_core::server::DeniedBy;
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

const GAUGES: [Metric; 6] = [
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
    (
        "mcp_gateway_backend_listed_tokens",
        "Tokens that its allowed tools cost a model, about.",
        |backend| backend.metrics.listed_tokens.load(Ordering::Relaxed) as u64,
    ),
    (
        "mcp_gateway_backend_requests_in_flight",
        "Requests that the backend has not answered.",
        |backend| backend.in_flight() as u64,
    ),
    (
        "mcp_gateway_backend_requests_waiting",
        "Requests that wait for a free place.",
        |backend| backend.metrics.waiting.load(Ordering::Relaxed) as u64,
    ),
];

/// The names are without `_total`, which the samples end with.
const COUNTERS: [Metric; 5] = [
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
    /// Of the requests to backends.
    pub(crate) durations: Durations,
    /// Sessions and tasks of the gateways on one database.
    pub(crate) shared: Option<Arc<SharedTables>>,
}

impl Collector for GatewayMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let backends: Vec<Arc<Backend>> = self.backends.lock().values().cloned().collect();
        let gauges = GAUGES.map(|metric| (MetricType::Gauge, metric));
        let counters = COUNTERS.map(|metric| (MetricType::Counter, metric));
        let mut family = |kind, name, help, label, values: &[(&str, u64)]| -> fmt::Result {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (of, value) in values {
                encode(kind, *value, family.encode_family(&[(label, *of)])?)?;
            }
            Ok(())
        };
        for (kind, (name, help, read)) in gauges.into_iter().chain(counters) {
            let values = backends.iter().map(|of| (of.key.as_str(), read(of)));
            family(kind, name, help, "backend", &values.collect::<Vec<_>>())?;
        }
        let views = self.log.requests_of_views();
        let views: Vec<_> = views
            .iter()
            .map(|(view, count)| (&**view, *count))
            .collect();
        let (name, help) = (
            "mcp_gateway_view_requests",
            "Requests of clients of the view.",
        );
        family(MetricType::Counter, name, help, "view", &views)?;
        let denied = DeniedBy::ALL.map(|by| (by.as_str(), self.log.denied(by)));
        let name = "mcp_gateway_denied_requests";
        let help = "Requests that were denied, by what has decided.";
        family(MetricType::Counter, name, help, "reason", &denied)?;
        let help = "Durations of requests to backends, by backend, method, tool and kind of error.";
        let name = "mcp_client_operation_duration";
        self.durations.encode(name, help, &mut encoder)?;
        let health = self.log.health();
        let replicas = self
            .shared
            .as_ref()
            .map(|shared| shared.others() as u64 + 1);
        for (kind, name, help, value) in [
            (
                MetricType::Gauge,
                "mcp_gateway_replicas",
                "Gateways that serve the same clients and are alive, as this one sees them.",
                replicas,
            ),
            (
                MetricType::Counter,
                "mcp_gateway_events_written",
                "Events in the log.",
                Some(health.written),
            ),
            (
                MetricType::Counter,
                "mcp_gateway_events_dropped",
                "Events that were lost.",
                Some(health.dropped),
            ),
            (
                MetricType::Gauge,
                "mcp_gateway_events_waiting",
                "Events that are not written yet.",
                Some(health.waiting as u64),
            ),
        ] {
            if let Some(value) = value {
                let encoder = encoder.encode_descriptor(name, help, None, kind)?;
                encode(kind, value, encoder)?;
            }
        }
        Ok(())
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
