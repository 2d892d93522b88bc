//! Resource usage of containers, from the engine's counters.
//!
//! CPU usage is the difference between two samples. The engine can take both samples itself, which
//! takes one to two seconds per container; two one-shot samples of all containers take less than one.

use std::time::Duration;

use bollard::models::{ContainerBlkioStatEntry, ContainerCpuStats, ContainerStatsResponse};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::client::Engine;
use crate::engine::error::EngineError;
use crate::engine::name::ContainerName;
use crate::engine::path::Path;

/// The interval between two samples: long enough for counters with a resolution of 10 ms.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The counters of a container at one time.
pub(crate) type Counters = ContainerStatsResponse;

// The usage of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// 100 is one CPU.
    pub(crate) cpu_percent: f64,
    // Without the page cache that the kernel could drop at once, as in `docker stats`.
    pub(crate) memory_bytes: u64,
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
    pub(crate) throttled_percent: f64,
}

impl Usage {
    /// The usage between two samples.
    pub(crate) fn between(before: &Counters, after: &Counters) -> Self {
        let (was, is) = (before.cpu_stats.as_ref(), after.cpu_stats.as_ref());
        let cpu = |at: Option<&ContainerCpuStats>| at?.cpu_usage.as_ref()?.total_usage;
        let system = |at: Option<&ContainerCpuStats>| at?.system_cpu_usage;
        let used = difference(cpu(was), cpu(is));
        let passed = difference(system(was), system(is));
        let cpus = match is.and_then(|is| is.online_cpus) {
            // Only engines on cgroup v1 list the CPUs.
            None | Some(0) => is
                .and_then(|is| Some(is.cpu_usage.as_ref()?.percpu_usage.as_ref()?.len()))
                .map_or(1.0, |cpus| cpus.max(1) as f64),
            Some(cpus) => cpus.into(),
        };
        let percent = |part: u64, whole: u64, times: f64| match whole {
            0 => 0.0,
            whole => (part as f64 / whole as f64 * times * 10_000.0).round() / 100.0,
        };
        let networks = || after.networks.iter().flat_map(|networks| networks.values());
        let blocks = |op: &str| -> u64 {
            let all = after.blkio_stats.as_ref();
            let all = all.and_then(|all| all.io_service_bytes_recursive.as_deref());
            let is_op = |entry: &&ContainerBlkioStatEntry| {
                let known = entry.op.as_deref();
                known.is_some_and(|known| known.eq_ignore_ascii_case(op))
            };
            let entries = all.unwrap_or_default().iter().filter(is_op);
            entries.filter_map(|entry| entry.value).sum()
        };
        let pids = after.pids_stats.as_ref().and_then(|pids| pids.current);
        let used_memory = used_memory(after);
        let limit = after.memory_stats.as_ref().and_then(|memory| memory.limit);
        let limit = limit.unwrap_or_default();
        let (was, is) = (throttling(before), throttling(after));
        let throttled = is.0.saturating_sub(was.0);
        Self {
            cpu_percent: percent(used, passed, cpus),
            memory_bytes: used_memory,
            memory_limit_bytes: limit,
            memory_percent: percent(used_memory, limit, 1.0),
            pids: pids.unwrap_or_default(),
            net_received_bytes: networks().filter_map(|traffic| traffic.rx_bytes).sum(),
            net_sent_bytes: networks().filter_map(|traffic| traffic.tx_bytes).sum(),
            disk_read_bytes: blocks("read"),
            disk_written_bytes: blocks("write"),
            throttled_percent: percent(throttled, is.1.saturating_sub(was.1), 1.0),
        }
    }
}

/// Memory without the page cache that the kernel could drop at once.
pub(crate) fn used_memory(counters: &Counters) -> u64 {
    let memory = counters.memory_stats.as_ref();
    let details = memory.and_then(|memory| memory.stats.as_ref());
    // The names in cgroup v1 and v2.
    let named = |name: &str| details?.get(name).copied();
    let droppable = named("total_inactive_file").or_else(|| named("inactive_file"));
    difference(droppable, memory.and_then(|memory| memory.usage))
}

/// The CPU periods in which the container was stopped by its limit, and all in which it had work.
pub(crate) fn throttling(counters: &Counters) -> (u64, u64) {
    let cpu = counters.cpu_stats.as_ref();
    let data = cpu.and_then(|cpu| cpu.throttling_data.as_ref());
    let throttled = data.and_then(|data| data.throttled_periods);
    let periods = data.and_then(|data| data.periods);
    (throttled.unwrap_or_default(), periods.unwrap_or_default())
}

/// The growth of a counter; a missing counter is zero.
fn difference(before: Option<u64>, after: Option<u64>) -> u64 {
    let after = after.unwrap_or_default();
    after.saturating_sub(before.unwrap_or_default())
}

impl Engine {
    /// Samples the counters of a container.
    pub(crate) async fn counters(
        &self,
        container: &ContainerName,
    ) -> Result<Counters, EngineError> {
        let path = Path::container(container, "/stats").query("stream", false);
        self.try_get(path.query("one-shot", true)).await
    }
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
