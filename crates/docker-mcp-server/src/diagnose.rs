//! Why a container is as it is: the engine is asked for everything that bears on it, and the facts
//! are put together.
//!
//! `facts` gathers; `start`, `run` and `end` conclude, without asking anybody; here is decided which
//! conclusion goes first, and what of it is shown.

mod end;
mod facts;
mod finding;
mod run;
mod start;

use mcp_core::tool::{ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use upstream::redact::Redactor;
use upstream::text::truncate;
use upstream::time::rfc3339;

use self::facts::Facts;
use self::finding::{Cause, Confidence, Finding};
use crate::docker::Docker;
use crate::engine::Event;
use crate::name::ContainerName;

/// Events that are shown.
const TIMELINE: usize = 10;
/// Longest text that is shown, in characters: the engine repeats whole command lines.
const MAX_TEXT: usize = 600;

/// What is wrong with a container.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Diagnosis {
    container: String,
    /// `running`, `exited`, …; `absent` where it does not exist.
    state: String,
    cause: Cause,
    confidence: Confidence,
    summary: String,
    evidence: Vec<String>,
    next_steps: Vec<String>,
    /// What else was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Also>,
    /// Its latest events, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<String>,
    /// Its last lines, of stderr where it wrote any.
    log: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Also {
    cause: Cause,
    summary: String,
}

/// Finds out what is wrong with `container`. `said` is what the engine said when it could not create
/// or start it, for containers that do not exist because of it.
/// Errors when there is no such container and nothing was said, or the engine cannot be asked.
pub(crate) async fn diagnose(
    docker: &Docker,
    container: &ContainerName,
    said: Option<&str>,
) -> Result<Diagnosis, ToolError> {
    let details = match (docker.container(container).await, said) {
        (Ok(details), _) => details,
        (Err(error), Some(said)) if error.kind() == ToolErrorKind::NotFound => {
            let finding = vec![start::read(said, None)];
            let (name, redactor) = (container.as_str(), docker.redactor());
            return Ok(Diagnosis::new(name, "absent", finding, redactor));
        }
        (Err(error), _) => return Err(error),
    };
    // By its id: a name may go to another container between two questions.
    let id = ContainerName::new(&details.id).unwrap_or_else(|_| container.clone());
    let facts = Facts::gather(docker, &id, details).await;
    let (name, state) = (facts.details.display_name(), &facts.state().status);
    let findings = conclude(&facts, said);
    let diagnosis = Diagnosis::new(name, state, findings, docker.redactor());
    Ok(diagnosis.with(&facts, docker.redactor()))
}

/// All that was found, the most telling first. Never empty.
fn conclude(facts: &Facts, said: Option<&str>) -> Vec<Finding> {
    let state = facts.state();
    let error = Some(&*state.error).filter(|error| !error.is_empty() && !state.is_alive());
    let could_not_start = error.or(said).map(|said| start::read(said, Some(facts)));
    let crash_loop = run::crash_loop(facts);
    let unhealthy = run::unhealthy(facts);
    // An old end says nothing about a container that runs well again.
    let matters = !state.runs() || crash_loop.is_some();
    let end = facts
        .last_end()
        .filter(|_| matters && could_not_start.is_none())
        .map(|end| end::of(end, facts));
    let trouble = [
        could_not_start,
        crash_loop,
        end,
        unhealthy,
        run::missing_bind(facts),
    ];
    let mut findings: Vec<Finding> = trouble.into_iter().flatten().collect();
    let ended_well = |finding: &Finding| finding.cause == Cause::Finished;
    let no_logs = run::no_logs(facts);
    if findings.is_empty() && no_logs.is_none() {
        findings.push(run::as_it_is(facts));
    } else if findings.iter().all(ended_well) {
        // Whoever asks about a container that did well asks for what it said.
        findings.splice(0..0, no_logs);
    } else {
        findings.extend(no_logs);
    }
    findings
}

impl Diagnosis {
    fn new(name: &str, state: &str, findings: Vec<Finding>, redactor: Redactor) -> Self {
        let text = |text: &str| shown(&redactor, text);
        let mut findings = findings.into_iter();
        let first = findings
            .next()
            .unwrap_or_else(|| Finding::new(Cause::Running, Confidence::Low, "Nothing was found."));
        let (mut evidence, mut next_steps) = (first.evidence, first.next_steps);
        let also: Vec<Also> = findings
            .map(|finding| {
                evidence.extend(finding.evidence);
                next_steps.extend(finding.next_steps);
                Also {
                    cause: finding.cause,
                    summary: text(&finding.summary),
                }
            })
            .collect();
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
            log: None,
            redacted: redactor.hidden(),
        }
    }

    fn with(mut self, facts: &Facts, redactor: Redactor) -> Self {
        let from = facts.events.len().saturating_sub(TIMELINE);
        let recent = facts.events[from..].iter();
        self.timeline = recent.map(|event| shown(&redactor, &line(event))).collect();
        let log = redactor.text(facts.last_words());
        self.log = (!log.trim().is_empty()).then_some(log);
        let hidden = self.redacted.unwrap_or(0) + redactor.hidden().unwrap_or(0);
        self.redacted = (hidden > 0).then_some(hidden);
        self
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

    /// As engines from version 1.52 of the interface on tell it: without the deprecated members,
    /// with some that are new, and with the memory of cgroup v2.
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

    #[test]
    fn engines_of_2026_are_understood() {
        let ended = |code, oom| {
            json!({"Status": "exited", "ExitCode": code, "OOMKilled": oom, "Error": "",
                "StartedAt": "2026-03-01T10:00:00Z", "FinishedAt": "2026-03-01T10:00:09Z"})
        };
        // Since 1.52 events have no `status`, `id` and `from`.
        let event = |action: &str, more| {
            json!({"Type": "container", "Action": action, "scope": "local", "time": 1_772_359_209,
                "timeNano": 1_772_359_209_000_000_000_i64, "Actor": {"ID": "a".repeat(64), "Attributes": more}})
        };
        let kill = json!([
            event("start", json!({})),
            event("kill", json!({"signal": "9"})),
            event("die", json!({"exitCode": "137", "execDuration": "9"})),
        ]);
        let stop = json!([
            event("kill", json!({"signal": "15"})),
            event("die", json!({"exitCode": "0"})),
            event("stop", json!({})),
        ]);
        let cases = [
            (ended(137, true), json!([]), Cause::OomKilled),
            (ended(137, false), kill, Cause::Killed),
            (ended(0, false), stop, Cause::Stopped),
            (ended(0, false), json!([]), Cause::Finished),
            (ended(1, false), json!([]), Cause::AppError),
            (ended(139, false), json!([]), Cause::Crashed),
        ];
        for (state, events, cause) in cases {
            let findings = conclude(&facts(state.clone(), events), None);
            assert_eq!(findings[0].cause, cause, "{state}");
        }
    }
}
