//! Answers `GET /metrics`: in the text format of OpenMetrics 1.0, or in the older one of Prometheus.

mod server;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http::{Response, StatusCode};
use mcp_core::metrics::{BOUNDS, DurationMetric, OperationDurations};
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, text as openmetrics};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

pub(super) use self::server::ServerMetrics;
use super::reply::{self, Refused, Reply};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The current values of all registered metrics, in the format that the client accepts.
pub(super) fn reply(registry: &Registry, headers: &HeaderMap) -> Response<Reply> {
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
        false => (PLAIN, text::plain(&text)),
    };
    let mut response = reply::json(StatusCode::OK, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// Writes a metric of durations. Prometheus has `_` where OpenTelemetry has dots.
///
/// # Errors
/// When the text cannot be written.
pub fn encode_durations(
    metric: &DurationMetric,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let (name, unit) = (metric.name.replace('.', "_"), Some(&Unit::Seconds));
    let kind = MetricType::Histogram;
    let mut family = encoder.encode_descriptor(&name, metric.description, unit, kind)?;
    for (labels, values) in metric
        .operations
        .iter()
        .flat_map(OperationDurations::series)
    {
        let labels = labels.into_iter();
        let labels: Vec<_> = labels
            .map(|(name, value)| (name.replace('.', "_"), value))
            .collect();
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(values.buckets).collect();
        let total = values.total.as_secs_f64();
        let mut encoder = family.encode_family(&labels)?;
        encoder.encode_histogram::<[(&str, &str); 0]>(total, values.count(), &buckets, None)?;
    }
    Ok(())
}

/// The number of refused requests, by reason. Reasons are constants, so their number has a limit.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, u64>>);

impl Refusals {
    /// Counts a response if it is a refusal.
    pub(super) fn count(&self, response: &Response<Reply>) {
        if let Some(Refused(reason)) = response.extensions().get() {
            *self.0.lock().entry(reason).or_default() += 1;
        }
    }

    fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().clone()
    }
}
