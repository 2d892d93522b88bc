//! Diagnoses a container: reads all relevant facts from the engine, and draws conclusions.
//!
//! `facts` reads; `start`, `run` and `end` conclude, without requests, with `signs` of problems in
//! the log and a look at the `peer` that it names; this file ranks the conclusions and builds the report.

mod end;
mod facts;
mod finding;
mod peer;
mod refine;
mod run;
mod signs;
mod start;
mod table;

use mcp_core::tool::{ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use upstream::redact::Redactor;
use upstream::text::{newest_lines, truncate};
use upstream::time::rfc3339;

use self::facts::Facts;
use self::finding::{Cause, Confidence, Finding};
use crate::docker::Docker;
use crate::engine::{ContainerName, ContainerSummary, Event};

/// Events that are shown.
const MAX_TIMELINE_EVENTS: usize = 10;
/// Longest text that is shown, in characters: the engine repeats whole command lines.
const MAX_TEXT: usize = 600;
/// The end of the log that is shown, in lines and bytes of the answer.
const MAX_LOG_LINES: usize = 20;
const MAX_LOG_BYTES: usize = 8_000;

/// The report about a container.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    container: String,
    /// `running`, `exited`, …; `absent` if it does not exist.
    state: String,
    cause: Cause,
    confidence: Confidence,
    summary: String,
    evidence: Vec<String>,
    next_steps: Vec<String>,
    /// Other findings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<OtherFinding>,
    /// Its latest events, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<String>,
    /// All of its events since then are known; of older ones, some may be missing.
    events_complete_since: Option<String>,
    /// Its last lines.
    log: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct OtherFinding {
    cause: Cause,
    summary: String,
}

/// Diagnoses `container`. `error` is the engine's message when it could not create or start it, for
/// containers that do not exist because of it.
/// Errors when there is no such container and no message, or the engine is not available.
pub(crate) async fn diagnose(
    docker: &Docker,
    container: &ContainerName,
    error: Option<&str>,
) -> Result<Diagnosis, ToolError> {
    let redactor = docker.redactor();
    let details = match (docker.container(container).await, error) {
        (Ok(details), _) => details,
        (Err(missing), Some(error)) if missing.kind() == ToolErrorKind::NotFound => {
            let findings = vec![start::explain(error, None)];
            let name = container.as_str();
            return Ok(Diagnosis::new(name, "absent", findings, &redactor));
        }
        (Err(slow), _) if slow.kind() == ToolErrorKind::Timeout => {
            return stuck(docker, container).await.ok_or(slow);
        }
        (Err(failure), _) => return Err(failure),
    };
    let redactor = docker.redactor_of(&details);
    // By its id: a name may move to another container between two requests.
    let id = ContainerName::new(&details.id).unwrap_or_else(|_| container.clone());
    let facts = Facts::gather(docker, &id, details, error).await;
    let (name, state) = (facts.details.display_name(), &facts.state().status);
    let mut diagnosis = Diagnosis::new(name, state, conclude(&facts, error), &redactor);
    diagnosis.add(&facts, &redactor);
    Ok(diagnosis)
}

/// The report about a container that the engine lists, but does not describe: its start or stop never ended,
/// and keeps it locked. `None` if the whole engine is slow.
async fn stuck(docker: &Docker, container: &ContainerName) -> Option<Diagnosis> {
    let listed = docker.containers(true).await.ok()?;
    let name = container.as_str();
    let is_it =
        |other: &&ContainerSummary| other.display_name() == name || other.id.starts_with(name);
    let found = listed.iter().find(is_it)?;
    let seconds = docker.engine.timeout().as_secs();
    let finding = Finding::named("stuck", &[&seconds, &found.state, &found.status]);
    let (name, redactor) = (found.display_name(), docker.redactor());
    Some(Diagnosis::new(name, &found.state, vec![finding], &redactor))
}

/// All findings, the most important first. Never empty.
fn conclude(facts: &Facts, error: Option<&str>) -> Vec<Finding> {
    let state = facts.state();
    let own_error = Some(&*state.error).filter(|error| !error.is_empty() && !state.is_alive());
    let error = own_error.or(error);
    let could_not_start = error.map(|error| start::explain(error, Some(facts)));
    let crash_loop = run::crash_loop(facts);
    // An earlier exit is not relevant for a container that runs well again.
    let matters = (!state.runs() || crash_loop.is_some()) && could_not_start.is_none();
    let end = facts.last_end().filter(|_| matters);
    let end = end.map(|end| end::explain(end, facts));
    let owner = run::network_owner_gone(facts).filter(|_| could_not_start.is_none());
    let problems = [
        could_not_start,
        run::missing_bind(facts),
        owner,
        crash_loop,
        end,
        run::unhealthy(facts),
        run::limits_reached(facts),
        run::not_listening(facts),
    ];
    let mut findings: Vec<Finding> = problems.into_iter().flatten().collect();
    let ended_well = |finding: &Finding| finding.cause == Cause::Finished;
    let no_logs = run::no_logs(facts);
    if findings.is_empty() && no_logs.is_none() {
        findings.push(run::no_problem(facts));
    } else if findings.iter().all(ended_well) {
        // A caller that asks about a successful container probably misses its output.
        findings.splice(0..0, no_logs);
    } else {
        findings.extend(no_logs);
    }
    findings
}

impl Diagnosis {
    fn new(name: &str, state: &str, findings: Vec<Finding>, redactor: &Redactor) -> Self {
        let text = |text: &str| shown(redactor, text);
        let mut findings = findings.into_iter();
        let first = findings.next();
        let first = first.unwrap_or_else(|| Finding::named("nothing", &[]));
        let (mut evidence, mut next_steps) = (first.evidence, first.next_steps);
        let also = findings.map(|finding| {
            evidence.extend(finding.evidence);
            next_steps.extend(finding.next_steps);
            OtherFinding {
                cause: finding.cause,
                summary: text(&finding.summary),
            }
        });
        let also = also.collect();
        Self {
            container: text(name),
            state: text(state),
            cause: first.cause,
            confidence: first.confidence,
            summary: text(&first.summary),
            evidence: evidence.iter().map(|fact| text(fact)).collect(),
            next_steps,
            also,
            timeline: Vec::new(),
            events_complete_since: None,
            log: None,
            redacted: redactor.hidden(),
        }
    }

    /// Adds the events and the log.
    fn add(&mut self, facts: &Facts, redactor: &Redactor) {
        let from = facts.events.len().saturating_sub(MAX_TIMELINE_EVENTS);
        let recent = facts.events[from..].iter();
        self.timeline = recent.map(|event| shown(redactor, &line(event))).collect();
        self.events_complete_since = facts.complete_since.clone();
        let log = redactor.text(facts.log_text());
        let log = newest_lines(&log, MAX_LOG_BYTES);
        let from = log.lines().count().saturating_sub(MAX_LOG_LINES);
        let log = log.lines().skip(from).collect::<Vec<_>>().join("\n");
        self.log = (!log.trim().is_empty()).then_some(log);
        self.redacted = redactor.hidden();
    }
}

/// `2026-01-31T12:00:00Z die (exit code 3)`.
fn line(event: &Event) -> String {
    let detail = |name, label| {
        let value = event.attribute(name)?;
        Some(format!(" ({label} {value})"))
    };
    let detail = detail("exitCode", "exit code").or_else(|| detail("signal", "signal"));
    let (time, action) = (rfc3339(event.time), &event.action);
    format!("{time} {action}{}", detail.unwrap_or_default())
}

fn shown(redactor: &Redactor, text: &str) -> String {
    truncate(&redactor.text(text), MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::ContainerDetails;

    /// The facts of an engine with API version 1.52 or later: without the deprecated members, with
    /// some new ones, and with the memory of cgroup v2.
    fn facts(state: serde_json::Value, events: serde_json::Value) -> Facts {
        let details: ContainerDetails = serde_json::from_value(json!({
            "Id": "a".repeat(64), "Name": "/web", "Path": "sh", "Args": ["-c", "serve"], "RestartCount": 0,
            "State": state, "Storage": {"RootFS": {"Snapshot": {"Name": "overlayfs"}}},
            "ImageManifestDescriptor": {"mediaType": "application/vnd.oci.image.manifest.v1+json"},
            "Config": {"Image": "web:1", "Env": ["A=b"], "Labels": {}},
            "HostConfig": {"Memory": 16 << 20, "CgroupnsMode": "private", "RestartPolicy": {"Name": "no"}},
            "NetworkSettings": {"Ports": {}, "Networks": {"bridge": {"IPAddress": "172.17.0.2", "GwPriority": 0}}},
            "Mounts": [],
        }))
        .unwrap();
        Facts {
            details,
            events: serde_json::from_value(events).unwrap(),
            ..Facts::default()
        }
    }

    /// The exit code, whether the kernel ended it for lack of memory, the events, and the cause.
    const ENDS: &str = "137 true  -> oom_killed
        137 false start kill:signal=9 die:exitCode=137 -> killed
        0 false kill:signal=15 die:exitCode=0 stop -> stopped
        0 false  -> finished
        1 false  -> app_error
        139 false  -> crashed";

    #[test]
    fn engines_of_2026_are_diagnosed() {
        for row in ENDS.lines() {
            let (end, cause) = row.trim().split_once(" -> ").unwrap();
            let mut words = end.split_whitespace();
            let code: i64 = words.next().unwrap().parse().unwrap();
            let oom = words.next() == Some("true");
            let state = json!({"Status": "exited", "ExitCode": code, "OOMKilled": oom, "Error": "",
                "StartedAt": "2026-03-01T10:00:00Z", "FinishedAt": "2026-03-01T10:00:09Z"});
            // Since 1.52 events have no `status`, `id` and `from`.
            let events = words.map(|word| {
                let (action, more) = word.split_once(':').unwrap_or((word, "execDuration=9"));
                let (key, value) = more.split_once('=').unwrap();
                json!({"Type": "container", "Action": action, "scope": "local", "time": 1_772_359_209,
                    "timeNano": 1_772_359_209_000_000_000_i64, "Actor": {"ID": "a".repeat(64), "Attributes": {key: value}}})
            });
            let findings = conclude(&facts(state, events.collect()), None);
            assert_eq!(Some(findings[0].cause), finding::parsed(cause), "{row}");
        }
    }
}
