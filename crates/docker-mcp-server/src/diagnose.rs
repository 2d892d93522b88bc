//! Diagnoses a container: reads all relevant facts from the engine, and draws conclusions.
//!
//! `facts` reads; `conclusions` concludes, without requests; this file ranks the conclusions and builds the report.

mod conclusions;
mod facts;
mod finding;

use mcp_core::tool::{ToolError, ToolErrorKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_with::skip_serializing_none;
use upstream::redact::Redactor;
use upstream::text::{newest_lines, truncate};
use upstream::time::rfc3339;

use self::facts::Facts;
use self::finding::{Cause, Confidence, Finding, has};
use crate::docker::Docker;
use crate::engine::{ContainerName, Event};
use crate::policy::is_created;

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

/// Tools that change the container which they name.
const CHANGING: [&str; 7] = [
    "start_container",
    "stop_container",
    "restart_container",
    "update_container",
    "recreate_container",
    "remove_container",
    "connect_network",
];

/// The next step, with a remark if this server cannot take it: it does not offer the tool, or its policy forbids what
/// the tool would do. The diagnosed container is `own` if this server may change it.
pub(crate) fn possible(docker: &Docker, is_own: bool, step: &str) -> String {
    let lower = step.to_lowercase();
    let is_named = |tool: &&str| {
        has(&lower, tool) || (*tool == "recreate_container" && has(&lower, "recreate"))
    };
    let is_begun = |verb: &str| lower.starts_with(&format!("{verb} "));
    let begun = ["start", "stop", "remove"]
        .into_iter()
        .find(|verb| is_begun(verb));
    let begun = begun.map(|verb| format!("{verb}_container"));
    let is_said = |tool: &&str| is_named(tool) || begun.as_deref() == Some(tool);
    let mut not_offered = docker
        .not_offered
        .get()
        .into_iter()
        .flatten()
        .map(String::as_str);
    let mut changing = CHANGING.into_iter().filter(|_| !is_own);
    // To go on loses nothing.
    let is_loss = docker.policy.no_destructive && !lower.contains("paused: false");
    let lossy = Some("update_container").filter(|tool| is_loss && is_named(tool));
    let forbidden = not_offered
        .find(is_said)
        .or_else(|| changing.find(is_named))
        .or(lossy);
    match forbidden {
        None => step.to_owned(),
        Some(tool) => {
            format!("{step} This server may not use `{tool}` for that: let the user do it.")
        }
    }
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
            let findings = vec![conclusions::explain_start(error, None)];
            let name = container.as_str();
            let diagnosis = Diagnosis::new(name, "absent", findings, &redactor);
            return Ok(diagnosis.within(docker, true));
        }
        (Err(slow), _) if slow.kind() == ToolErrorKind::Timeout => {
            return stuck(docker, container).await.ok_or(slow);
        }
        (Err(failure), _) => return Err(failure),
    };
    let redactor = docker.redactor_of(&details);
    // By its id: a name may move to another container between two requests.
    let id = details.id.clone();
    let facts = Facts::gather(docker, &id, details, error).await;
    let (name, state) = (facts.details.display_name(), &facts.state().status);
    let mut diagnosis = Diagnosis::new(name, state, conclude(&facts, error), &redactor);
    diagnosis.add(&facts, &redactor);
    let is_own = docker
        .policy
        .may_change(is_created(&facts.details.config.labels));
    Ok(diagnosis.within(docker, is_own))
}

/// The meaning of the engine's error of a start, and what helps; `None` for an unknown error.
pub(crate) fn explain_start(docker: &Docker, error: &str) -> Option<String> {
    let finding = conclusions::known_start(error, None)?;
    let next_steps = finding.next_steps.iter();
    let next_steps: Vec<_> = next_steps
        .map(|step| possible(docker, true, step))
        .collect();
    Some(format!("{} {}", finding.summary, next_steps.join(" ")))
}

/// The report about a container that the engine lists, but does not describe: its start or stop never ended,
/// and keeps it locked. `None` if the whole engine is slow.
async fn stuck(docker: &Docker, container: &ContainerName) -> Option<Diagnosis> {
    let listed = docker.containers(true).await.ok()?;
    let found = listed.iter().find(|it| it.is_called(container.as_str()))?;
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
    let could_not_start = error.map(|error| conclusions::explain_start(error, Some(facts)));
    let crash_loop = conclusions::crash_loop(facts);
    // An earlier exit is not relevant for a container that runs well again.
    let matters = (!state.runs() || crash_loop.is_some()) && could_not_start.is_none();
    let end = facts.last_end().filter(|_| matters);
    let end = end.map(|end| conclusions::explain(end, facts));
    let owner = conclusions::network_owner_gone(facts).filter(|_| could_not_start.is_none());
    let problems = [
        could_not_start,
        conclusions::missing_bind(facts),
        owner,
        crash_loop,
        end,
        conclusions::unhealthy(facts),
        conclusions::limits_reached(facts),
        conclusions::not_listening(facts),
    ];
    let mut findings: Vec<Finding> = problems.into_iter().flatten().collect();
    let ended_well = |finding: &Finding| finding.cause == Cause::Finished;
    let no_logs = conclusions::no_logs(facts);
    if findings.is_empty() && no_logs.is_none() {
        findings.push(conclusions::no_problem(facts));
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

    /// With a remark to each next step that this server cannot take.
    fn within(mut self, docker: &Docker, is_own: bool) -> Self {
        for step in &mut self.next_steps {
            *step = possible(docker, is_own, step);
        }
        self
    }

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
