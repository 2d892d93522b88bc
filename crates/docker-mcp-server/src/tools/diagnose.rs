//! Tools that find what is wrong: with a container, and with the engine.

mod seen;

use Severity::{High, Low, Medium};

use self::seen::{DAY_SECONDS, Seen, available_memory, full_disk, megabytes};
use super::prelude::*;
use super::system::{DiskUsage, disk_usage};
use crate::diagnose::{self, Diagnosis};
use crate::unix_time;

/// Tell why a container is not running or healthy: cause, evidence, next steps.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnoseContainer {
    /// Name or id.
    container: ContainerName,
    /// Give the error of a failed creation or start.
    error: Option<String>,
}

impl Tool for DiagnoseContainer {
    const NAME: &'static str = "diagnose_container";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Diagnosis;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Diagnosis, ToolError> {
        let error = self.error.as_deref();
        let error = error.filter(|error| !error.trim().is_empty());
        diagnose::diagnose(docker, &self.container, error).await
    }
}

/// Bytes from which on disk space counts.
const MUCH_DISK: i64 = 100_000_000;
/// Users of disk space: the bytes from which on it counts, its name, and the arguments of `prune`.
const PRUNABLE: [(i64, &str, &str); 5] = [
    (1, "images without a name", r#"{"what":"images"}"#),
    (
        MUCH_DISK,
        "unused images",
        r#"{"all":true,"what":"images"}"#,
    ),
    (MUCH_DISK, "unused build cache", r#"{"what":"build_cache"}"#),
    (
        MUCH_DISK,
        "unused volumes",
        r#"{"all":true,"what":"volumes"}"#,
    ),
    (MUCH_DISK, "stopped containers", r#"{"what":"containers"}"#),
];
/// Available memory of the host below which it counts, in percent.
const LOW_MEMORY_PERCENT: u64 = 10;
const MAX_NAMED: usize = 5;

const WHY: &str = "diagnose_container";
const GET: &str = "get_container";
const STATS: &str = "get_container_stats";

/// A severity, what containers do, the check that returns a detail of one that does, and the next tool.
type Check = (
    Severity,
    &'static str,
    fn(&Seen) -> Option<String>,
    &'static str,
);
const CHECKS: [Check; 16] = [
    (High, "could not be started", Seen::failed_start, WHY),
    (High, "restart again and again", Seen::restarts, WHY),
    (High, "ran out of memory", Seen::out_of_memory, WHY),
    (High, "fail the health check", Seen::health, WHY),
    (High, "hold the engine's socket as root", Seen::socket, GET),
    (
        High,
        "use the network of a container that does not run",
        Seen::lost_owner,
        WHY,
    ),
    (
        Medium,
        "are left of a replacement that broke off",
        Seen::replaced,
        GET,
    ),
    (Medium, "failed within a day", Seen::failure, WHY),
    (Medium, "were killed within a day", Seen::killed, WHY),
    (
        Medium,
        "publish a port on which nothing listens",
        Seen::dead_port,
        WHY,
    ),
    (
        Medium,
        "are of a compose project and were never started",
        Seen::never_started,
        WHY,
    ),
    (Medium, "are near the memory limit", Seen::memory, STATS),
    (Medium, "wait for their CPU limit", Seen::cpu, STATS),
    (Medium, "have large log files", Seen::log, GET),
    (Medium, "publish ports to all networks", Seen::ports, GET),
    (Low, "were not described in time", Seen::unread, WHY),
];

/// Find what is wrong on this engine: containers that fail, disk, memory, CPU, exposure. Most urgent first.
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
    /// Checks that were not possible, and why.
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

impl Tool for DiagnoseHost {
    const NAME: &'static str = "diagnose_host";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = HostDiagnosis;

    async fn call(self, docker: &Docker, _: &Call) -> Result<HostDiagnosis, ToolError> {
        let engine = &docker.engine;
        let (seen, disk, images, info) = tokio::join!(
            Seen::gather(docker),
            disk_usage(engine),
            docker.engine.images(),
            engine.get::<Value>(Path::to("/info")),
        );
        let (seen, redactor) = (seen?, docker.redactor());
        let checks = CHECKS.iter();
        let mut problems: Vec<Problem> = checks
            .filter_map(|check| Problem::find(*check, &seen, &redactor))
            .collect();
        let mut not_checked = Vec::new();
        let info = info.unwrap_or_default();
        let total = info["MemTotal"].as_u64().unwrap_or_default();
        match available_memory(docker) {
            None => not_checked.push("memory of the host, log files: the engine is elsewhere"),
            Some(free) if free >= total / 100 * LOW_MEMORY_PERCENT => {}
            Some(free) => {
                let summary = format!("The host has {} of memory left.", megabytes(free));
                let next = "get_container_stats {\"seconds\": 5, \"by\": \"memory\"}";
                problems.push(Problem::new(High, summary, next));
            }
        }
        if let Some(percent) = docker
            .engine
            .is_beside_us()
            .then(|| full_disk(&info))
            .flatten()
        {
            let summary = format!("The disk of the engine is full to {percent} %.");
            let next = r#"get_system_info {"disk_usage": true}"#;
            problems.push(Problem::new(High, summary, next));
        }
        if let Some(lost) = docker
            .history
            .lost()
            .filter(|lost| unix_time::now() - lost < DAY_SECONDS)
        {
            let summary = format!("The engine went away at {} and came back.", rfc3339(lost));
            let next = r#"list_containers {"all": true}"#;
            problems.push(Problem::new(Low, summary, next));
        }
        let disk = disk.map(|usage| DiskUsage::new(&usage));
        if disk.is_err() {
            not_checked.push("disk usage: the engine did not add it up in time");
        }
        let disk = disk.unwrap_or_default();
        let images = images.iter().flatten();
        let untagged = images.filter(|image| image.tags().next().is_none());
        let untagged = untagged.map(|image| image.size).sum();
        let taken = [disk.images, disk.build_cache, disk.volumes, disk.containers];
        let taken = taken.map(|share| share.reclaimable_bytes).into_iter();
        for (bytes, (min, what, arguments)) in [untagged].into_iter().chain(taken).zip(PRUNABLE) {
            if bytes >= min {
                let size = megabytes(bytes.unsigned_abs());
                let summary = format!("{size} of disk are taken by {what}.");
                problems.push(Problem::new(Low, summary, &format!("prune {arguments}")));
            }
        }
        problems.sort_by_key(|problem| problem.severity);
        for problem in &mut problems {
            problem.next = diagnose::possible(docker, true, &problem.next);
        }
        let (problems, omitted) = fit(problems);
        let running = seen.iter().filter(|one| one.summary.state == "running");
        Ok(HostDiagnosis {
            containers: seen.len(),
            running: running.count(),
            problems,
            omitted,
            not_checked: not_checked.into_iter().map(str::to_owned).collect(),
        })
    }
}

impl Problem {
    fn new(severity: Severity, summary: String, next: &str) -> Self {
        Self {
            severity,
            summary,
            containers: Vec::new(),
            next: next.to_owned(),
        }
    }

    /// The problem of those containers that fail a check; `None` if all pass.
    fn find(
        (severity, what, check, tool): Check,
        seen: &[Seen],
        redactor: &Redactor,
    ) -> Option<Self> {
        let seen = seen.iter();
        let affected = seen.filter_map(|one| Some((one.summary.display_name(), check(one)?)));
        let affected: Vec<_> = affected.collect();
        let first = redactor.text(affected.first()?.0);
        let named = affected.iter();
        let named = named.map(|(name, detail)| redactor.text(&format!("{name}: {detail}")));
        let containers = truncate_list(named, MAX_NAMED);
        let summary = format!("{} container(s) {what}.", affected.len());
        let next = format!("{tool} {}", json!({"container": first}));
        Some(Self {
            containers,
            ..Self::new(severity, summary, &next)
        })
    }
}
