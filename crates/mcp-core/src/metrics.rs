//! Durations of requests in histograms, for a limited number of labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The label of everything beyond a limit.
pub const OTHER: &str = "other";

/// The tools of one server that have a label of their own; all further ones share [`OTHER`].
pub const MAX_LABELLED_TOOLS: usize = 500;

/// Servers whose tools have labels of their own.
const MAX_SHARES: usize = 50;

/// Upper bounds of the buckets of a histogram, in seconds: those that the conventions of OpenTelemetry give
/// for MCP, and three for calls that take less.
pub const BOUNDS: [f64; 17] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0,
];

/// The same bounds in microseconds.
const BOUNDS_MICROS: [u64; 17] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];

/// A lock-free histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram {
    micros: AtomicU64,
    /// One for each bound, and one for what is above.
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

/// The values of a histogram at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramValues {
    /// All durations together.
    pub total: Duration,
    /// The number of durations up to each bound and above the one before, and of those above all.
    pub buckets: [u64; BOUNDS.len() + 1],
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.micros.fetch_add(micros, Relaxed);
        self.buckets[bucket].fetch_add(1, Relaxed);
    }

    /// The values now.
    pub fn values(&self) -> HistogramValues {
        HistogramValues {
            total: Duration::from_micros(self.micros.load(Relaxed)),
            buckets: std::array::from_fn(|at| self.buckets[at].load(Relaxed)),
        }
    }
}

impl HistogramValues {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// Durations of one operation, apart for each kind of error.
#[derive(Debug, Default)]
pub struct Durations {
    succeeded: Histogram,
    /// By the kind of the error. Kinds are constants, so their number has a limit.
    failed: Mutex<BTreeMap<&'static str, Arc<Histogram>>>,
}

impl Durations {
    /// Counts one operation, which has ended with an error of this kind, or without one.
    pub fn record(&self, error: Option<&'static str>, took: Duration) {
        let Some(kind) = error else {
            return self.succeeded.record(took);
        };
        let histogram = Arc::clone(lock(&self.failed).entry(kind).or_default());
        histogram.record(took);
    }

    /// The values now of those that are not empty, with their kind of error.
    pub fn values(&self) -> Vec<(Option<&'static str>, HistogramValues)> {
        let succeeded = (None, self.succeeded.values());
        let failed = lock(&self.failed);
        let failed = failed
            .iter()
            .map(|(kind, histogram)| (Some(*kind), histogram.values()));
        let values = std::iter::once(succeeded).chain(failed);
        values.filter(|(_, values)| values.count() > 0).collect()
    }
}

/// The durations of the requests of one method, or of the calls of one tool.
#[derive(Clone, Debug)]
pub struct OperationDurations {
    /// The server that was asked; `None` if this process has answered.
    pub backend: Option<Arc<str>>,
    /// The name of the method.
    pub method: &'static str,
    /// The label of the tool.
    pub tool: Option<Arc<str>>,
    /// Its durations.
    pub durations: Arc<Durations>,
}

impl OperationDurations {
    /// The labels and the values of each histogram that is not empty. Labels have the names that OpenTelemetry gives them.
    pub fn series(&self) -> impl Iterator<Item = (Vec<(&'static str, &str)>, HistogramValues)> {
        let values = self.durations.values().into_iter();
        values.map(|(error, values)| {
            let labels = [
                ("backend", self.backend.as_deref()),
                ("mcp.method.name", Some(self.method)),
                ("gen_ai.tool.name", self.tool.as_deref()),
                ("error.type", error),
            ];
            let labels = labels.into_iter();
            let labels = labels.filter_map(|(name, value)| Some((name, value?)));
            (labels.collect(), values)
        })
    }
}

/// A metric of durations, in seconds, as `/metrics` shows it.
#[derive(Clone, Debug)]
pub struct DurationMetric {
    /// Its name in the conventions of OpenTelemetry.
    pub name: &'static str,
    /// A sentence about it.
    pub description: &'static str,
    /// The durations so far.
    pub operations: Vec<OperationDurations>,
}

impl DurationMetric {
    /// Of the requests that this process has answered.
    pub fn answered(operations: Vec<OperationDurations>) -> Self {
        Self {
            name: "mcp.server.operation.duration",
            description: "Durations of requests, by method, tool and kind of error.",
            operations,
        }
    }

    /// Of the requests that this process has sent to backends.
    pub fn sent(operations: Vec<OperationDurations>) -> Self {
        Self {
            name: "mcp.client.operation.duration",
            description: "Durations of requests to backends, by backend, method, tool and kind of error.",
            operations,
        }
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
        let mut shares = lock(&self.names);
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

/// Durations by label.
#[derive(Debug)]
pub struct LabelledDurations<L>(Mutex<BTreeMap<L, Arc<Durations>>>);

impl<L> Default for LabelledDurations<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<L: Ord + Clone> LabelledDurations<L> {
    /// The durations with this label. The caller limits the number of labels.
    pub fn get(&self, label: L) -> Arc<Durations> {
        Arc::clone(lock(&self.0).entry(label).or_default())
    }

    /// All of them, in the order of their labels.
    pub fn all(&self) -> Vec<(L, Arc<Durations>)> {
        let all = lock(&self.0);
        let all = all
            .iter()
            .map(|(label, durations)| (label.clone(), Arc::clone(durations)));
        all.collect()
    }
}

/// Locks a mutex whose data is valid even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_same_in_both_units() {
        for (seconds, micros) in BOUNDS.into_iter().zip(BOUNDS_MICROS) {
            assert_eq!(
                Duration::from_secs_f64(seconds),
                Duration::from_micros(micros)
            );
        }
    }

    #[test]
    fn duration_is_in_the_bucket_of_its_bound() {
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 300_000_000, 300_000_001, u64::MAX / 4] {
            histogram.record(Duration::from_micros(micros));
        }
        let values = histogram.values();
        assert_eq!(values.buckets[..2], [2, 1]);
        assert_eq!(values.buckets[16..], [1, 2]);
        assert_eq!(values.count(), 6);
    }

    #[test]
    fn errors_are_apart() {
        let durations = Durations::default();
        assert_eq!(durations.values(), []);
        durations.record(Some("timeout"), Duration::from_secs(1));
        durations.record(None, Duration::from_secs(2));
        durations.record(Some("timeout"), Duration::from_secs(3));
        let counted = durations.values().into_iter();
        let counted: Vec<_> = counted
            .map(|(kind, values)| (kind, values.count(), values.total.as_secs()))
            .collect();
        assert_eq!(counted, [(None, 1, 2), (Some("timeout"), 2, 4)]);
    }

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
