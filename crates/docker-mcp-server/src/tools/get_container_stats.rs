//! `get_container_stats`: the use of resources, from the engine's counters.
//!
//! CPU usage is the difference between two samples. The engine can take both samples itself, which
//! takes one to two seconds per container; two one-shot samples of all containers take less than one.

use upstream::time::Timestamp;

use super::prelude::*;
use crate::engine::{Counters, Event, throttling};

const MAX_CONCURRENT_SAMPLES: usize = 16;
const MAX_SAMPLES: u32 = 10;

/// Measure CPU, memory, network and disk use of one container, or of all that run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainerStats {
    /// Name or id; default: all that run.
    container: Option<ContainerName>,
    /// Measures for so long: minimum, mean and maximum.
    seconds: Option<Bounded<1, 20>>,
    /// Shows only so many rows.
    top: Option<Bounded<1, 100>>,
    /// Sorts the rows by this.
    #[serde(default)]
    by: Order,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Cpu,
    Memory,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats {
    containers: Vec<UsageRow>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct UsageRow {
    container: String,
    #[serde(flatten)]
    usage: Usage,
    window: Option<Window>,
}

/// The use during `seconds`.
#[derive(Serialize, JsonSchema)]
struct Window {
    samples: usize,
    cpu_percent: Spread,
    memory_bytes: Spread,
    throttled_percent: Spread,
    /// Times that the kernel ended one of its processes for lack of memory.
    oom_events: usize,
}

#[derive(Serialize, JsonSchema)]
struct Spread {
    min: f64,
    mean: f64,
    max: f64,
}

impl Tool for GetContainerStats {
    const NAME: &'static str = "get_container_stats";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Stats;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Stats, ToolError> {
        let wanted = match &self.container {
            Some(container) => {
                let details = docker.container(container).await?;
                if !details.state.is_alive() {
                    let text = format!("`{}` is not running.", details.display_name());
                    return Err(ToolError::conflict(text));
                }
                vec![(details.id.clone(), details.display_name().to_owned())]
            }
            None => running(docker).await?,
        };
        let began = Timestamp::now().as_second();
        let (steps, interval) = match self.seconds.map(Bounded::get) {
            None => (1, SAMPLE_INTERVAL),
            Some(seconds) => {
                let steps = (2 * seconds).min(MAX_SAMPLES);
                (steps, Duration::from_secs(seconds.into()) / steps)
            }
        };
        let mut usages: Vec<Vec<Usage>> = vec![Vec::new(); wanted.len()];
        let mut before = sample(&docker.engine, &wanted).await;
        for _ in 0..steps {
            tokio::time::sleep(interval).await;
            let after = sample(&docker.engine, &wanted).await;
            for (usages, both) in usages.iter_mut().zip(before.iter().zip(&after)) {
                if let (Some(before), Some(after)) = both {
                    usages.push(Usage::between(before, after));
                }
            }
            before = after;
        }
        let redactor = docker.redactor();
        let rows = wanted
            .iter()
            .zip(usages)
            .filter_map(|((id, name), usages)| {
                // One that exited in between has no row.
                let usage = usages.last()?.clone();
                let window = self
                    .seconds
                    .map(|_| Window::new(docker, id, began, &usages));
                let container = redactor.text(name);
                Some(UsageRow {
                    container,
                    usage,
                    window,
                })
            });
        let mut rows: Vec<_> = rows.collect();
        let key = |row: &UsageRow| match (self.by, &row.window) {
            (Order::Cpu, Some(window)) => window.cpu_percent.mean,
            (Order::Cpu, None) => row.usage.cpu_percent,
            (Order::Memory, Some(window)) => window.memory_bytes.mean,
            (Order::Memory, None) => row.usage.memory_bytes as f64,
        };
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let top = self.top.map_or(rows.len(), |top| top.get() as usize);
        rows.truncate(top);
        let (containers, omitted) = fit(rows);
        let note = match omitted {
            None => containers
                .is_empty()
                .then(|| "No container is running.".to_owned()),
            Some(omitted) => Some(format!(
                "{omitted} containers that use less are left out: pass `container` to see one."
            )),
        };
        Ok(Stats { containers, note })
    }
}

impl Window {
    /// The window that began at `began` (unix seconds).
    fn new(docker: &Docker, id: &ContainerName, began: i64, usages: &[Usage]) -> Self {
        let is_oom = |event: &Event| {
            event.action == "oom" && event.time >= began && event.id() == id.as_str()
        };
        Self {
            samples: usages.len(),
            cpu_percent: Spread::new(usages.iter().map(|usage| usage.cpu_percent)),
            memory_bytes: Spread::new(usages.iter().map(|usage| usage.memory_bytes as f64)),
            throttled_percent: Spread::new(usages.iter().map(|usage| usage.throttled_percent)),
            oom_events: docker.history.select(is_oom).0.len(),
        }
    }
}

impl Spread {
    fn new(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mean = values.clone().sum::<f64>() / values.clone().count().max(1) as f64;
        Self {
            min: values.clone().reduce(f64::min).unwrap_or_default(),
            mean: (mean * 100.0).round() / 100.0,
            max: values.reduce(f64::max).unwrap_or_default(),
        }
    }
}

async fn running(docker: &Docker) -> Result<Vec<(ContainerName, String)>, ToolError> {
    let listed = docker.containers(false).await?;
    let named = listed.iter();
    let named = named.map(|at| (at.id.clone(), at.display_name().to_owned()));
    Ok(named.collect())
}

/// Samples the counters of all containers, in their order.
async fn sample(engine: &Engine, wanted: &[(ContainerName, String)]) -> Vec<Option<Counters>> {
    stream::iter(wanted.to_vec())
        .map(|(id, _)| async move { engine.counters(&id).await.ok() })
        .buffered(MAX_CONCURRENT_SAMPLES)
        .collect()
        .await
}

/// The delay between two samples: long enough for counters with a resolution of 10 ms.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

// The usage of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct Usage {
    /// 100 is one CPU.
    pub(super) cpu_percent: f64,
    // Without the page cache that the kernel could drop at once, as in `docker stats`.
    pub(super) memory_bytes: u64,
    /// Its own, or the host's.
    memory_limit_bytes: u64,
    memory_percent: f64,
    pids: u64,
    /// Since it was started, as the others.
    net_received_bytes: u64,
    net_sent_bytes: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
    /// Of the CPU periods in which it had work and was stopped by its limit.
    pub(super) throttled_percent: f64,
}

impl Usage {
    /// The usage between two samples.
    pub(super) fn between(before: &Counters, after: &Counters) -> Self {
        let growth = |pointer| counter(after, pointer).saturating_sub(counter(before, pointer));
        let used = growth("/cpu_stats/cpu_usage/total_usage");
        let passed = growth("/cpu_stats/system_cpu_usage");
        let listed = after.pointer("/cpu_stats/cpu_usage/percpu_usage");
        let cpus = match counter(after, "/cpu_stats/online_cpus") {
            // Only engines on cgroup v1 list the CPUs.
            0 => listed.and_then(Value::as_array).map_or(1, Vec::len).max(1) as f64,
            cpus => cpus as f64,
        };
        let percent = |part: u64, whole: u64, times: f64| match whole {
            0 => 0.0,
            whole => (part as f64 / whole as f64 * times * 10_000.0).round() / 100.0,
        };
        let traffic = |direction: &str| -> u64 {
            let networks = after["networks"].as_object().into_iter().flatten();
            let counts = networks.filter_map(|(_, network)| network[direction].as_u64());
            counts.sum()
        };
        let blocks = |op: &str| -> u64 {
            let entries = after["blkio_stats"]["io_service_bytes_recursive"].as_array();
            let is_op = |entry: &&Value| {
                let known = entry["op"].as_str();
                known.is_some_and(|known| known.eq_ignore_ascii_case(op))
            };
            let entries = entries.into_iter().flatten().filter(is_op);
            entries.filter_map(|entry| entry["value"].as_u64()).sum()
        };
        let (memory, limit) = (used_memory(after), counter(after, "/memory_stats/limit"));
        let (was, is) = (throttling(before), throttling(after));
        let throttled = is.0.saturating_sub(was.0);
        Self {
            cpu_percent: percent(used, passed, cpus),
            memory_bytes: memory,
            memory_limit_bytes: limit,
            memory_percent: percent(memory, limit, 1.0),
            pids: counter(after, "/pids_stats/current"),
            net_received_bytes: traffic("rx_bytes"),
            net_sent_bytes: traffic("tx_bytes"),
            disk_read_bytes: blocks("read"),
            disk_written_bytes: blocks("write"),
            throttled_percent: percent(throttled, is.1.saturating_sub(was.1), 1.0),
        }
    }
}

/// Memory without the page cache that the kernel could drop at once.
pub(super) fn used_memory(counters: &Counters) -> u64 {
    let details = &counters["memory_stats"]["stats"];
    // The names in cgroup v1 and v2.
    let droppable = details["total_inactive_file"].as_u64();
    let droppable = droppable.or(details["inactive_file"].as_u64());
    counter(counters, "/memory_stats/usage").saturating_sub(droppable.unwrap_or_default())
}

/// A counter; one that is missing is zero.
fn counter(counters: &Counters, pointer: &str) -> u64 {
    let found = counters.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_both_versions_of_cgroups() {
        let v1 = r#"{"cpu_stats":{"cpu_usage":{"total_usage":251000000,"percpu_usage":[1,2]},
            "system_cpu_usage":3000000000,"online_cpus":2},
            "memory_stats":{"usage":5000,"max_usage":9000,"limit":10000,"stats":{"total_inactive_file":1000,"inactive_file":7}},
            "pids_stats":{"current":3},"networks":{"eth0":{"rx_bytes":1,"tx_bytes":2},"eth1":{"rx_bytes":10,"tx_bytes":20}},
            "blkio_stats":{"io_service_bytes_recursive":[{"op":"Read","value":5},{"op":"Write","value":6}]}}"#;
        let v2 = r#"{"cpu_stats":{"cpu_usage":{"total_usage":300,"usage_in_kernelmode":1},"system_cpu_usage":3000,"online_cpus":4},
            "memory_stats":{"usage":5000,"limit":10000,"stats":{"anon":1,"inactive_file":500}},
            "blkio_stats":{"io_service_bytes_recursive":[{"op":"read","value":5}]}}"#;
        let before_v1 =
            r#"{"cpu_stats":{"cpu_usage":{"total_usage":1000000},"system_cpu_usage":2000000000}}"#;
        let before_v2 = r#"{"cpu_stats":{"system_cpu_usage":2000}}"#;
        // CPU in percent, memory, its limit, its percent, processes, received, sent, read, written, throttled.
        for (before, after, expected) in [
            (before_v1, v1, "[50.0,4000,10000,40.0,3,11,22,5,6,0.0]"),
            (before_v2, v2, "[120.0,4500,10000,45.0,0,0,0,5,0,0.0]"),
            (v2, "{}", "[0.0,0,0,0.0,0,0,0,0,0,0.0]"),
        ] {
            let [before, after] = [before, after].map(|json| serde_json::from_str(json).unwrap());
            let usage = serde_json::to_value(Usage::between(&before, &after)).unwrap();
            let names = "cpu_percent memory_bytes memory_limit_bytes memory_percent pids \
                net_received_bytes net_sent_bytes disk_read_bytes disk_written_bytes throttled_percent";
            let values: Vec<_> = names.split(' ').map(|name| &usage[name]).collect();
            assert_eq!(serde_json::to_string(&values).unwrap(), expected);
        }
    }
}
