//! The metrics that every server has.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::super::mcp::McpEndpoint;
use super::Refusals;
use crate::clock::unix_time;

/// The metrics of one server, read for each request.
pub(in crate::http) struct ServerMetrics {
    pub(in crate::http) mcp: Arc<McpEndpoint>,
    pub(in crate::http) refusals: Arc<Refusals>,
}

impl Collector for ServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let server = self.mcp.server();
        let help = "Durations of requests, by method, tool and kind of error.";
        let durations = server.durations();
        durations.encode("mcp_server_operation_duration", help, &mut encoder)?;
        let (name, help) = (
            "mcp_refused_requests",
            "Requests refused before they were read.",
        );
        let mut refused = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, count) in self.refusals.all() {
            ConstCounter::new(count).encode(refused.encode_family(&[("reason", reason)])?)?;
        }
        let gauges = [
            (
                "mcp_requests_in_flight",
                "Requests being answered.",
                self.mcp.calls_in_flight(),
            ),
            (
                "mcp_sessions",
                "Sessions in memory; idle ones need not be.",
                self.mcp.sessions(),
            ),
            (
                "mcp_streams",
                "Open streams on which clients listen.",
                self.mcp.open_streams(),
            ),
            (
                "mcp_listed_tokens",
                "Tokens that the list of all tools costs a model, about.",
                server.listed_tokens(),
            ),
            (
                "mcp_service_up",
                "1 while the service answers.",
                usize::from(server.degraded().is_none()),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as u64).encode(gauge)?;
        }
        let started = unix_time().saturating_sub(server.uptime()).as_secs_f64();
        let (name, help, unit) = (
            "process_start_time",
            "Start of the process, since 1970.",
            Unit::Seconds,
        );
        let start = encoder.encode_descriptor(name, help, Some(&unit), MetricType::Gauge)?;
        ConstGauge::new(started).encode(start)?;
        let (name, help) = ("mcp_build", "The program and its version.");
        let mut build = encoder.encode_descriptor(name, help, None, MetricType::Info)?;
        let identity = server.identity();
        build.encode_info(&[
            ("name", identity.name.as_str()),
            ("version", identity.version.as_str()),
        ])
    }
}

impl fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerMetrics").finish_non_exhaustive()
    }
}
