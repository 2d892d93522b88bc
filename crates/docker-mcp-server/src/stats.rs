//! How much of the machine containers use, from the engine's counters.
//!
//! A share of CPU is what was used between two looks. The engine can take both itself, which takes
//! it one to two seconds per container; two short looks at all of them take less than one in all.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::engine::{Engine, Failure, Path};
use crate::name::ContainerName;

/// Between the two looks: long enough for the counters, which advance in hundredths of a second.
pub(crate) const BETWEEN: Duration = Duration::from_millis(500);

/// The counters of a container at one time (`GET /containers/{id}/stats`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    cpu_stats: Cpu,
    memory_stats: Memory,
    pids_stats: Pids,
    networks: BTreeMap<String, Traffic>,
    blkio_stats: Blocks,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Cpu {
    cpu_usage: CpuUsage,
    /// Nanoseconds of all CPUs of the host.
    system_cpu_usage: u64,
    online_cpus: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CpuUsage {
    /// Nanoseconds.
    total_usage: u64,
    /// Only engines on cgroup v1 list them.
    percpu_usage: Vec<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Memory {
    usage: u64,
    limit: u64,
    stats: MemoryDetails,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MemoryDetails {
    /// cgroup v1.
    total_inactive_file: Option<u64>,
    /// cgroup v2.
    inactive_file: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Pids {
    current: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Traffic {
    rx_bytes: u64,
    tx_bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Blocks {
    io_service_bytes_recursive: Vec<Block>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
    op: String,
    value: u64,
}

/// What a container uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// 100 is one CPU.
    pub(crate) cpu_percent: f64,
    /// Without what the kernel could drop at once, as `docker stats` counts.
    pub(crate) memory_bytes: u64,
    /// The container's limit, or the memory of the host.
    pub(crate) memory_limit: u64,
    pub(crate) pids: u64,
    /// Since it was started.
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl Usage {
    /// What was used between two looks.
    pub(crate) fn between(before: &Counters, after: &Counters) -> Self {
        let (was, is) = (&before.cpu_stats, &after.cpu_stats);
        let used = is
            .cpu_usage
            .total_usage
            .saturating_sub(was.cpu_usage.total_usage);
        let passed = is.system_cpu_usage.saturating_sub(was.system_cpu_usage);
        let cpus = match is.online_cpus {
            0 => is.cpu_usage.percpu_usage.len().max(1) as f64,
            cpus => cpus.into(),
        };
        let share = if passed == 0 {
            0.0
        } else {
            used as f64 / passed as f64
        };
        let memory = &after.memory_stats;
        let droppable = memory.stats.total_inactive_file;
        let droppable = droppable.unwrap_or(memory.stats.inactive_file);
        let networks = || after.networks.values();
        let blocks = |op: &str| -> u64 {
            let all = after.blkio_stats.io_service_bytes_recursive.iter();
            all.filter(|block| block.op.eq_ignore_ascii_case(op))
                .map(|block| block.value)
                .sum()
        };
        Self {
            cpu_percent: (share * cpus * 10_000.0).round() / 100.0,
            memory_bytes: memory.usage.saturating_sub(droppable),
            memory_limit: memory.limit,
            pids: after.pids_stats.current,
            received_bytes: networks().map(|traffic| traffic.rx_bytes).sum(),
            sent_bytes: networks().map(|traffic| traffic.tx_bytes).sum(),
            read_bytes: blocks("read"),
            written_bytes: blocks("write"),
        }
    }
}

/// One look at a container.
pub(crate) async fn counters(
    engine: &Engine,
    container: &ContainerName,
) -> Result<Counters, Failure> {
    let path = Path::to("/containers").id(container).then("/stats");
    engine
        .try_get(path.query("stream", false).query("one-shot", true))
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Counters {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn cgroup_v1() {
        let before =
            r#"{"cpu_stats":{"cpu_usage":{"total_usage":1000000},"system_cpu_usage":2000000000}}"#;
        let after = r#"{"cpu_stats":{"cpu_usage":{"total_usage":251000000,"percpu_usage":[1,2]},
            "system_cpu_usage":3000000000,"online_cpus":2},
            "memory_stats":{"usage":5000,"max_usage":9000,"limit":10000,"stats":{"total_inactive_file":1000,"inactive_file":7}},
            "pids_stats":{"current":3},"networks":{"eth0":{"rx_bytes":1,"tx_bytes":2},"eth1":{"rx_bytes":10,"tx_bytes":20}},
            "blkio_stats":{"io_service_bytes_recursive":[{"op":"Read","value":5},{"op":"Write","value":6}]}}"#;
        let usage = Usage::between(&read(before), &read(after));
        let expected = Usage {
            cpu_percent: 50.0,
            memory_bytes: 4000,
            memory_limit: 10_000,
            pids: 3,
            received_bytes: 11,
            sent_bytes: 22,
            read_bytes: 5,
            written_bytes: 6,
        };
        assert_eq!(usage, expected);
    }

    #[test]
    fn cgroup_v2_and_a_container_that_has_just_ended() {
        let v2 = r#"{"cpu_stats":{"cpu_usage":{"total_usage":300,"usage_in_kernelmode":1},"system_cpu_usage":3000,"online_cpus":4},
            "memory_stats":{"usage":5000,"limit":10000,"stats":{"anon":1,"inactive_file":500}},
            "blkio_stats":{"io_service_bytes_recursive":[{"op":"read","value":5}]}}"#;
        let zero = read(r#"{"cpu_stats":{"system_cpu_usage":2000}}"#);
        let usage = Usage::between(&zero, &read(v2));
        assert_eq!(
            (usage.cpu_percent, usage.memory_bytes, usage.read_bytes),
            (120.0, 4500, 5)
        );
        assert_eq!(Usage::between(&read(v2), &read("{}")), Usage::default());
    }
}
