//! Durations of requests in histograms, for a limited number of labels.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

/// The label of everything beyond a limit.
pub const OTHER: &str = "other";

/// The tools of one server that have a label of their own; all further ones share [`OTHER`].
pub const MAX_LABELLED_TOOLS: usize = 500;

/// Servers whose tools have labels of their own.
const MAX_SHARES: usize = 50;

/// Upper bounds of the buckets of a histogram, in seconds: those that the conventions of OpenTelemetry give
/// for MCP, and three for calls that take less.
const BOUNDS: [f64; 17] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0,
];

/// The labels of a request that has ended. In `/metrics` they have the names that OpenTelemetry gives them, with `_`
/// for dots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperationLabels {
    /// The server that was asked; `None` if this process has answered.
    pub backend: Option<Arc<str>>,
    /// The name of the method.
    pub method: &'static str,
    /// The label of the tool.
    pub tool: Option<Arc<str>>,
    /// The kind of the error. Kinds are constants, so their number has a limit.
    pub error: Option<&'static str>,
}

impl EncodeLabelSet for OperationLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels = [
            ("backend", self.backend.as_deref()),
            ("mcp_method_name", Some(self.method)),
            ("gen_ai_tool_name", self.tool.as_deref()),
            ("error_type", self.error),
        ];
        let labels = labels.into_iter();
        let labels = labels.filter_map(|(name, value)| Some((name, value?)));
        labels.collect::<Vec<_>>().encode(encoder)
    }
}

/// The durations of requests, by their labels. Clones share them.
#[derive(Clone, Debug)]
pub struct Durations {
    family: Family<OperationLabels, Histogram, fn() -> Histogram>,
    known: Arc<Mutex<HashSet<OperationLabels>>>,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            family: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            known: Arc::default(),
        }
    }
}

impl Durations {
    /// Counts one request. The caller limits the number of labels.
    pub fn record(&self, labels: OperationLabels, took: Duration) {
        if let Some(histogram) = self.family.get(&labels) {
            return histogram.observe(took.as_secs_f64());
        }
        self.family
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        self.known.lock().insert(labels);
    }

    /// Forgets the requests to this backend, which is gone.
    pub fn forget(&self, backend: &str) {
        let mut known = self.known.lock();
        for labels in known.extract_if(|labels| labels.backend.as_deref() == Some(backend)) {
            self.family.remove(&labels);
        }
    }

    /// Writes them as a metric of seconds.
    ///
    /// # Errors
    /// When the text cannot be written.
    pub fn encode(
        &self,
        name: &str,
        help: &str,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        self.family
            .encode(encoder.encode_descriptor(name, help, unit, kind)?)
    }
}

/// Names that have a label of their own: the first ones, up to a limit for those with the same prefix, so that
/// no server behind a gateway takes the labels of another.
#[derive(Debug)]
pub struct Labels {
    limit: usize,
    /// By prefix.
    names: Mutex<BTreeMap<Box<str>, BTreeSet<Arc<str>>>>,
}

impl Default for Labels {
    fn default() -> Self {
        Self::new(MAX_LABELLED_TOOLS)
    }
}

impl Labels {
    /// At most `limit` names with the same prefix have a label of their own.
    pub fn new(limit: usize) -> Self {
        let names = Mutex::default();
        Self { limit, names }
    }

    /// The label of `name`: itself, or [`OTHER`].
    pub fn label(&self, name: &str) -> Arc<str> {
        let prefix = name.split_once("__").map_or("", |(prefix, _)| prefix);
        let mut shares = self.names.lock();
        if shares.len() >= MAX_SHARES && !shares.contains_key(prefix) {
            return OTHER.into();
        }
        let names = shares.entry(prefix.into()).or_default();
        if let Some(known) = names.get(name) {
            return Arc::clone(known);
        }
        if names.len() >= self.limit {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_share_a_label() {
        let labels = Labels::new(2);
        let given = ["a", "b", "c", "a", "d"].map(|name| labels.label(name));
        assert_eq!(
            given.each_ref().map(|name| &**name),
            ["a", "b", OTHER, "a", OTHER]
        );
        // Another server has its own share.
        assert_eq!(&*labels.label("x__a"), "x__a");
        let many = (0..2 * MAX_SHARES).map(|at| labels.label(&format!("{at}__a")));
        assert_eq!(
            many.filter(|label| **label != *OTHER).count(),
            MAX_SHARES - 2
        );
    }
}
