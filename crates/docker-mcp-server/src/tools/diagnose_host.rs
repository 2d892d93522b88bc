//! `diagnose_host`.

mod seen;

use serde_json::{Value, json};
use upstream::time::Timestamp;

use self::seen::{Seen, available_memory};
use super::get_system_info::{DiskUsage, Share, disk_usage};
use super::prelude::*;
use crate::engine::Path;

/// The period of events, in seconds.
const EVENT_AGE_SECONDS: i64 = 24 * 3600;
/// Bytes from which on disk space counts, and from which on it is urgent.
const MUCH_DISK: u64 = 100_000_000;
const VERY_MUCH_DISK: u64 = 10_000_000_000;
/// Shares of memory and of CPU periods from which on they count, in percent.
const HIGH_MEMORY_PERCENT: f64 = 90.0;
const THROTTLED_PERCENT: f64 = 25.0;
/// Available memory of the host below which it counts, in percent.
const LOW_MEMORY_PERCENT: u64 = 10;
/// Containers that are named for each problem.
const MAX_NAMED: usize = 5;
/// Bytes of rows in an answer, which contains them twice.
const MAX_BYTES: usize = 6_500;

/// What is wrong on this engine: containers that fail, disk, memory, CPU, exposure. Most urgent first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnoseHost {}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct HostDiagnosis {
    containers: usize,
    running: usize,
    problems: Vec<Problem>,
    /// Less urgent problems that do not fit.
    omitted: Option<usize>,
    /// What could not be checked, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_checked: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Problem {
    severity: Severity,
    summary: String,
    /// The worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<String>,
    /// The next call: a tool and its arguments.
    next: String,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    High,
    Medium,
    Low,
}
use Severity::{High, Low, Medium};

impl Tool for DiagnoseHost {
    const NAME: &'static str = "diagnose_host";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = HostDiagnosis;

    async fn call(self, docker: &Docker, _: &Call) -> Result<HostDiagnosis, ToolError> {
        let engine = &docker.engine;
        let since = Timestamp::now().as_second() - EVENT_AGE_SECONDS;
        let (seen, disk, images, past, info) = tokio::join!(
            Seen::gather(docker),
            disk_usage(engine),
            docker.images(),
            docker.past_events((since, None), Some("container"), None, engine.timeout),
            engine.get::<Value>(Path::to("/info")),
        );
        let mut problems = Problems {
            list: Vec::new(),
            redactor: docker.redactor(),
        };
        let mut not_checked = Vec::new();
        let seen = seen?;
        let unread = seen.iter().filter(|one| one.details.is_none()).count();
        if unread > 0 {
            not_checked.push(format!(
                "{unread} containers: the engine did not describe them in time"
            ));
        }
        problems.of_containers(&seen);
        let oom = |one: &Seen| {
            let own = past
                .events
                .iter()
                .filter(|event| event.action == "oom" && event.id() == one.id());
            match own.count() {
                0 => one
                    .details
                    .as_ref()?
                    .state
                    .oom_killed
                    .then(|| "its last run".to_owned()),
                count => Some(format!("{count} times within a day")),
            }
        };
        problems.add(High, "ran out of memory", &seen, oom, "diagnose_container");
        let total = info
            .as_ref()
            .ok()
            .and_then(|info| info["MemTotal"].as_u64());
        match (total, available_memory(docker)) {
            (Some(total), Some(free)) if free < total / 100 * LOW_MEMORY_PERCENT => problems.push(
                High,
                format!(
                    "The host has {} MiB of memory left of {} MiB.",
                    free >> 20,
                    total >> 20
                ),
                "get_container_stats {\"seconds\": 5, \"by\": \"memory\"}",
            ),
            (Some(_), Some(_)) => {}
            _ => not_checked.push(
                "memory of the host and log files: the engine is on another machine".to_owned(),
            ),
        }
        match disk {
            Ok(usage) => problems.of_disk(&DiskUsage::new(&usage)),
            Err(_) => {
                not_checked.push("disk usage: the engine did not add it up in time".to_owned())
            }
        }
        let untagged = images
            .iter()
            .flatten()
            .filter(|image| image.tags().next().is_none());
        let sizes: Vec<i64> = untagged.map(|image| image.size).collect();
        if !sizes.is_empty() {
            let size = megabytes(sizes.iter().sum::<i64>().try_into().unwrap_or_default());
            let summary = format!(
                "{} images have no name; they have {size} with shared layers.",
                sizes.len()
            );
            problems.push(Low, summary, "prune {\"what\": \"images\"}");
        }
        let mut list = problems.list;
        list.sort_by_key(|problem| problem.severity);
        let (problems, omitted) = fit(list, MAX_BYTES);
        Ok(HostDiagnosis {
            containers: seen.len(),
            running: seen.iter().filter(|one| one.runs()).count(),
            problems,
            omitted,
            not_checked,
        })
    }
}

/// The problems that were found.
struct Problems {
    list: Vec<Problem>,
    redactor: Redactor,
}

impl Problems {
    fn push(&mut self, severity: Severity, summary: String, next: &str) {
        self.list.push(Problem {
            severity,
            summary,
            containers: Vec::new(),
            next: next.to_owned(),
        });
    }

    /// Adds a problem of those containers for which `check` returns a detail.
    fn add(
        &mut self,
        severity: Severity,
        what: &str,
        seen: &[Seen],
        check: impl Fn(&Seen) -> Option<String>,
        tool: &str,
    ) {
        let affected: Vec<_> = seen
            .iter()
            .filter_map(|one| Some((one.name(), check(one)?)))
            .collect();
        let Some((first, _)) = affected.first() else {
            return;
        };
        let count = affected.len();
        let next = match tool {
            "list_containers" => "list_containers {\"all\": true}".to_owned(),
            tool => format!("{tool} {}", json!({"container": self.redactor.text(first)})),
        };
        let named = affected
            .iter()
            .map(|(name, detail)| self.redactor.text(&format!("{name}: {detail}")));
        let containers = upstream::text::truncate_list(named, MAX_NAMED);
        self.list.push(Problem {
            severity,
            summary: format!(
                "{count} {} {what}.",
                if count == 1 {
                    "container"
                } else {
                    "containers"
                }
            ),
            containers,
            next,
        });
    }

    fn of_containers(&mut self, seen: &[Seen]) {
        let status = |part: &'static str| {
            move |one: &Seen| {
                one.summary
                    .status
                    .contains(part)
                    .then(|| one.summary.status.clone())
            }
        };
        let restarts = |one: &Seen| {
            let details = one.details.as_ref()?;
            let loops =
                one.summary.state == "restarting" || details.restart_count >= 3 && one.is_young();
            loops.then(|| format!("{} restarts", details.restart_count))
        };
        self.add(
            High,
            "restart again and again",
            seen,
            restarts,
            "diagnose_container",
        );
        self.add(
            High,
            "fail their health check",
            seen,
            status("(unhealthy)"),
            "diagnose_container",
        );
        self.add(
            High,
            "are dead: the engine could not remove them",
            seen,
            status("Dead"),
            "remove_container",
        );
        self.add(
            High,
            "run as root and can control the engine through its socket",
            seen,
            Seen::has_socket,
            "get_container",
        );
        self.add(
            Medium,
            "ended with an error within a day",
            seen,
            Seen::failed_today,
            "diagnose_container",
        );
        let memory = |one: &Seen| {
            let (used, limit) = one.memory()?;
            let percent = used as f64 / limit as f64 * 100.0;
            (percent >= HIGH_MEMORY_PERCENT)
                .then(|| format!("{percent:.0} % of {} MiB", limit >> 20))
        };
        self.add(
            Medium,
            "use almost all of their memory limit",
            seen,
            memory,
            "get_container_stats",
        );
        let throttled = |one: &Seen| {
            let percent = one.throttled_percent()?;
            (percent >= THROTTLED_PERCENT)
                .then(|| format!("{percent:.0} % of the time since the start"))
        };
        self.add(
            Medium,
            "are slowed down by their CPU limit",
            seen,
            throttled,
            "get_container_stats",
        );
        let mut by_log: Vec<&Seen> = seen.iter().collect();
        by_log.sort_by_key(|one| std::cmp::Reverse(one.log_bytes));
        let largest = by_log
            .first()
            .and_then(|one| one.log_bytes)
            .unwrap_or_default();
        let large = |one: &Seen| {
            let bytes = one.log_bytes.filter(|bytes| *bytes >= MUCH_DISK)?;
            Some(format!("{} of log{}", megabytes(bytes), one.rotation()))
        };
        let severity = if largest >= VERY_MUCH_DISK {
            High
        } else {
            Medium
        };
        let by_log: Vec<Seen> = by_log.into_iter().cloned().collect();
        self.add(
            severity,
            "have large log files",
            &by_log,
            large,
            "get_container",
        );
        self.add(
            Medium,
            "publish ports to all networks of the host",
            seen,
            Seen::public_ports,
            "get_container",
        );
    }

    fn of_disk(&mut self, disk: &DiskUsage) {
        let shares: [(&str, &Share, &str); 4] = [
            (
                "unused images",
                &disk.images,
                "prune {\"what\": \"images\", \"all\": true}",
            ),
            (
                "build cache",
                &disk.build_cache,
                "prune {\"what\": \"build_cache\"}",
            ),
            (
                "unused volumes",
                &disk.volumes,
                "prune {\"what\": \"volumes\", \"all\": true}",
            ),
            (
                "stopped containers",
                &disk.containers,
                "prune {\"what\": \"containers\"}",
            ),
        ];
        for (what, share, next) in shares {
            let bytes = share.reclaimable_bytes.try_into().unwrap_or_default();
            if bytes >= MUCH_DISK {
                let severity = if bytes >= VERY_MUCH_DISK { Medium } else { Low };
                self.push(
                    severity,
                    format!("{} of disk are taken by {what}.", megabytes(bytes)),
                    next,
                );
            }
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
