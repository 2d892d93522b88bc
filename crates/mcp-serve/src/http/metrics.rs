//! Answers `GET /metrics`: in the text format of OpenMetrics 1.0, or in the older one of Prometheus.

mod server;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use axum::response::Response;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use parking_lot::Mutex;
use prometheus_client::encoding::text as openmetrics;
use prometheus_client::registry::Registry;

pub(super) use self::server::ServerMetrics;
use super::reply;

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
        false => (PLAIN, text::plain(&text)),
    };
    let mut response = reply::json(StatusCode::OK, text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// The number of refused requests, by reason. Reasons are constants, so their number has a limit.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<&'static str, u64>>);

impl Refusals {
    /// Counts a refusal.
    pub(super) fn count(&self, reason: &'static str) {
        *self.0.lock().entry(reason).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().clone()
    }
}
