//! Answers `GET /metrics`: in the text format of OpenMetrics 1.0, or in the older one of Prometheus.

use std::fmt;
use std::sync::Weak;

use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use mcp_core::clock::unix_time;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text as openmetrics};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::http::app::App;
use crate::http::reply;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The current values of all registered metrics, in the format that the client accepts.
pub(super) fn reply(registry: &Registry, headers: &HeaderMap) -> Response {
    let mut text = String::new();
    if let Err(fmt::Error) = openmetrics::encode(&mut text, registry) {
        return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let mut accepted = headers.get_all(ACCEPT).iter();
    let is_open = accepted.any(|accepted| {
        let accepted = accepted.to_str().unwrap_or_default();
        accepted.contains("application/openmetrics-text")
    });
    let (kind, text) = match is_open {
        true => (OPENMETRICS, text),
        false => (PLAIN, plain(&text)),
    };
    let mut response = reply::json(StatusCode::OK, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// The number of refused requests, by reason. Reasons are constants, so their number has a limit.
pub(super) type Refusals = Family<[(&'static str, &'static str); 1], Counter>;

/// The metrics of one server, read for each request.
#[derive(Debug)]
pub(super) struct ServerMetrics(pub(super) Weak<App>);

impl Collector for ServerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(app) = self.0.upgrade() else {
            return Ok(());
        };
        let server = &app.server;
        let in_flight = app.limits.max_in_flight;
        let in_flight = in_flight.saturating_sub(app.in_flight.available_permits());
        let help = "Durations of requests, by method, tool and kind of error.";
        let durations = server.durations();
        durations.encode("mcp_server_operation_duration", help, &mut encoder)?;
        let gauges = [
            (
                "mcp_requests_in_flight",
                "Requests being answered.",
                in_flight,
            ),
            (
                "mcp_sessions",
                "Sessions in memory; idle ones need not be.",
                app.sessions.len() + app.sse.len(),
            ),
            (
                "mcp_streams",
                "Open streams on which clients listen.",
                app.slots.len(),
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

/// Converts the text of OpenMetrics. In the older format a counter is named as its samples are, there is no
/// type `info`, and no end.
pub(super) fn plain(openmetrics: &str) -> String {
    let mut plain = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = described(line, "# HELP ") else {
            // Units are a part of the names.
            if !line.starts_with("# UNIT ") && line != "# EOF" {
                plain.extend([line, "\n"]);
            }
            continue;
        };
        let kind = lines.next().and_then(|line| described(line, "# TYPE "));
        let (suffix, kind) = match kind.map(|(_, kind)| kind) {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            Some("unknown") | None => ("", "untyped"),
            Some(kind) => ("", kind),
        };
        plain.extend(["# HELP ", name, suffix, " ", help, "\n"]);
        plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
    }
    plain
}

/// The name and the rest of a line that begins so.
fn described<'a>(line: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(start)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_info_get_the_names_of_their_samples() {
        let openmetrics = "\
# HELP a_seconds Time.
# TYPE a_seconds histogram
# UNIT a_seconds seconds
a_seconds_sum 1.5
# HELP calls Calls.
# TYPE calls counter
calls_total{x=\"# EOF\"} 2
# HELP build Build.
# TYPE build info
build_info{version=\"1\"} 1
# EOF
";
        let expected = "\
# HELP a_seconds Time.
# TYPE a_seconds histogram
a_seconds_sum 1.5
# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{x=\"# EOF\"} 2
# HELP build_info Build.
# TYPE build_info gauge
build_info{version=\"1\"} 1
";
        assert_eq!(plain(openmetrics), expected);
    }
}
