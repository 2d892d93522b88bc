//! Answers `GET /metrics` in the text format of OpenMetrics.

use std::fmt;
use std::sync::Arc;

use http::{Response, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::mcp::McpEndpoint;
use super::reply::{self, Reply};

/// The current values of all registered metrics.
pub(super) fn reply(registry: &Registry) -> Response<Reply> {
    let mut text = String::new();
    match text::encode(&mut text, registry) {
        Ok(()) => reply::metrics(text),
        Err(fmt::Error) => reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The metrics that every server has, read for each request.
pub(super) struct ServerMetrics(pub(super) Arc<McpEndpoint>);

impl Collector for ServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let server = self.0.server();
        let counted = server.health().metrics();
        let mut requests = encoder.encode_descriptor(
            "mcp_requests",
            "Requests answered.",
            None,
            MetricType::Counter,
        )?;
        for (outcome, count) in [
            ("success", counted.successful_requests),
            ("failure", counted.failed_requests),
        ] {
            ConstCounter::new(count).encode(requests.encode_family(&[("outcome", outcome)])?)?;
        }
        let is_up = u64::from(server.degraded().is_none());
        let spent = server.health().time_spent().as_secs_f64();
        let uptime = server.uptime().as_secs_f64();
        let metrics: [(&str, &str, &dyn EncodeMetric); 4] = [
            (
                "mcp_request_seconds",
                "Time spent on requests.",
                &ConstCounter::new(spent),
            ),
            (
                "mcp_requests_in_flight",
                "Requests being answered.",
                &ConstGauge::new(self.0.calls_in_flight() as u64),
            ),
            (
                "mcp_service_up",
                "1 while the service answers.",
                &ConstGauge::new(is_up),
            ),
            (
                "mcp_uptime_seconds",
                "Time since the start.",
                &ConstGauge::new(uptime),
            ),
        ];
        for (name, help, metric) in metrics {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerMetrics").finish_non_exhaustive()
    }
}
