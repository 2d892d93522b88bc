//! `GET /metrics`, in the text format of Prometheus.

use std::fmt::Write as _;

use mcp_core::server::Server;

/// The counters of `server`, and how many requests it is working on.
pub(super) fn render(server: &Server, in_flight: usize) -> String {
    let metrics = server.health().metrics();
    let online = u8::from(server.degraded().is_none());
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "samples are floats")]
    let float = |count: u64| count as f64;
    let answered = [
        ("{outcome=\"success\"}", float(metrics.successful_requests)),
        ("{outcome=\"failure\"}", float(metrics.failed_requests)),
    ];
    metric(
        "mcp_requests_total",
        "counter",
        "Requests answered.",
        &answered,
    );
    metric(
        "mcp_request_seconds_total",
        "counter",
        "Time spent answering them.",
        &[("", server.health().time_spent().as_secs_f64())],
    );
    #[expect(clippy::cast_precision_loss, reason = "samples are floats")]
    let in_flight = in_flight as f64;
    metric(
        "mcp_requests_in_flight",
        "gauge",
        "Requests being answered.",
        &[("", in_flight)],
    );
    metric(
        "mcp_service_up",
        "gauge",
        "1 while the service behind answers.",
        &[("", online.into())],
    );
    metric(
        "mcp_uptime_seconds",
        "gauge",
        "Time since the start.",
        &[("", server.uptime().as_secs_f64())],
    );
    text.push_str(&server.figures());
    text
}
