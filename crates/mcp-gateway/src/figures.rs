//! How the gateway and its backends are, in figures.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::backend::Backend;
use crate::hub::Hub;

/// One figure of a backend: its name, its type, what it means, and how it is read.
type Figure = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Backend) -> Option<f64>,
);

#[expect(clippy::cast_precision_loss, reason = "samples are floats")]
const FIGURES: [Figure; 9] = [
    (
        "mcp_gateway_backend_up",
        "gauge",
        "1 while the backend can be called.",
        |backend| Some(f64::from(u8::from(backend.is_up()))),
    ),
    (
        "mcp_gateway_backend_tools",
        "gauge",
        "Tools that the backend lists.",
        |backend| Some(backend.snapshot().tools.len() as f64),
    ),
    (
        "mcp_gateway_backend_calls_total",
        "counter",
        "Tool calls that have ended.",
        |backend| Some(backend.figures.calls.load(Ordering::Relaxed) as f64),
    ),
    (
        "mcp_gateway_backend_errors_total",
        "counter",
        "Tool calls that ended without the result that was asked for.",
        |backend| Some(backend.figures.errors.load(Ordering::Relaxed) as f64),
    ),
    (
        "mcp_gateway_backend_restarts_total",
        "counter",
        "Starts after the first.",
        |backend| Some(backend.figures.restarts.load(Ordering::Relaxed) as f64),
    ),
    (
        "mcp_gateway_backend_stray_answers_total",
        "counter",
        "Answers that nobody waited for, or not any more.",
        |backend| Some(backend.misfits().0 as f64),
    ),
    (
        "mcp_gateway_backend_noise_total",
        "counter",
        "Lines and events of the backend that were no messages.",
        |backend| Some(backend.misfits().1 as f64),
    ),
    (
        "mcp_gateway_backend_call_seconds_p50",
        "gauge",
        "Half of the calls took no longer.",
        |backend| backend.figures.quantile(0.5).map(|millis| millis / 1e3),
    ),
    (
        "mcp_gateway_backend_call_seconds_p99",
        "gauge",
        "99 of 100 calls took no longer.",
        |backend| backend.figures.quantile(0.99).map(|millis| millis / 1e3),
    ),
];

/// The figures in Prometheus' text format.
#[expect(clippy::cast_precision_loss, reason = "samples are floats")]
pub(crate) fn prometheus(hub: &Hub) -> String {
    let mut text = String::new();
    let backends: Vec<Arc<Backend>> = hub.backends().into_values().collect();
    for (name, kind, help, read) in FIGURES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for backend in &backends {
            if let Some(value) = read(backend) {
                let _ = writeln!(text, "{name}{{backend=\"{}\"}} {value}", backend.key);
            }
        }
    }
    let events = hub.signals.log.health();
    for (name, kind, help, value) in [
        (
            "mcp_gateway_events_dropped_total",
            "counter",
            "Events that the log could not take.",
            events.dropped as f64,
        ),
        (
            "mcp_gateway_events_waiting",
            "gauge",
            "Events that are not written yet.",
            events.waiting as f64,
        ),
    ] {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
    }
    text
}
