//! The limit of calls over all replicas, and the cost of a call.

use std::thread;
use std::time::Duration;

use anyhow::ensure;

use super::cluster::Cluster;
use super::load::Load;

pub(super) const LIMIT_OPTIONS: [&str; 2] = ["--rate-limit", CALLS_PER_SECOND];
const CALLS_PER_SECOND: &str = "20";
const MEASURED_TIME: Duration = Duration::from_secs(20);
const TOLERANCE: f64 = 0.05;

/// Compares the calls in a time with the limit, after what may be taken at once is used up.
pub(super) fn limit(cluster: &mut Cluster<'_>) -> anyhow::Result<String> {
    let used_up = Load::start(&cluster.client);
    thread::sleep(MEASURED_TIME / 4);
    used_up.stop();
    let load = Load::start(&cluster.client);
    thread::sleep(MEASURED_TIME);
    let time = load.elapsed().as_secs_f64();
    let measured = load.stop();
    let passed = measured.calls - measured.limited - measured.failures();
    let (rate, limit) = (passed as f64 / time, CALLS_PER_SECOND.parse::<f64>()?);
    let shown = format!("{rate:.1}/s of {limit}/s");
    ensure!(
        (rate / limit - 1.0).abs() <= TOLERANCE,
        "{shown}; {}",
        measured.shown()
    );
    Ok(shown)
}
