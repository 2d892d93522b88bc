//! Findings about containers that ran and exited.

use upstream::time::rfc3339;

use super::facts::{Facts, LogTail, RunEnd};
use super::finding::{Cause, Finding};
use super::refine::refine;
use super::start;
use crate::engine::{Event, exit_code};
use crate::unix_time;

/// The time that an engine takes to stop its containers when it ends.
const ENGINE_STOP_SECONDS: i64 = 15;

/// Explains why the last run ended.
pub(super) fn explain(end: RunEnd, facts: &Facts) -> Finding {
    let code = end.code;
    let finding = match code {
        _ if end.oom => out_of_memory(code, facts),
        _ => engine_restarted(facts)
            .or_else(|| stopped(code, facts.last_run()))
            .unwrap_or_else(|| exited(code, facts)),
    };
    let meaning = exit_code::meaning(code, end.oom);
    let finding = finding.because(format!("Exit code {code}: {meaning}."));
    let policy = &facts.details.host_config.restart_policy;
    let (restarts, most) = (facts.details.restart_count, policy.maximum_retry_count);
    let gave_up = policy.name == "on-failure" && most > 0 && restarts >= most;
    match gave_up && !facts.state().is_alive() {
        true => finding.add("gave_up", &[&restarts]),
        false => finding,
    }
}

/// Explains the exit code of a container that was not stopped.
fn exited(code: i64, facts: &Facts) -> Finding {
    match code {
        137 => killed(facts),
        0 => Finding::named("finished", &[]),
        _ => known_end(code, facts)
            .or_else(|| not_run(code, facts))
            .or_else(|| exec_failed(facts))
            .unwrap_or_else(|| match code {
                130 | 143 => Finding::named("interrupted", &[]),
                129..=192 => Finding::named("crashed", &[&(code - 128)]),
                _ => app_error(code, facts),
            }),
    }
}

/// The exit codes of a shell whose command was not run.
fn not_run(code: i64, facts: &Facts) -> Option<Finding> {
    match code {
        126 => Some(Finding::named("not_executable", &[])),
        127 => {
            let is_named = facts.log_text().contains("not found");
            Some(Finding::named("command_missing", &[]).sure_if(is_named))
        }
        _ => None,
    }
}

/// Problems whose sign in the log says more than the exit code, which confirms it.
fn known_end(code: i64, facts: &Facts) -> Option<Finding> {
    let telling = facts.telling_line()?;
    let name = match (code, telling.sign?.cause) {
        (127, Cause::MissingLibrary) => "library_missing",
        (3 | 134, Cause::HeapExhausted) => "heap_used_up",
        _ => return None,
    };
    Some(refine(Finding::named(name, &[]), telling, facts))
}

fn out_of_memory(code: i64, facts: &Facts) -> Finding {
    // The main process may exit by itself after one of its children was killed.
    let finding = Finding::named("out_of_memory", &[]).sure_if(code == 137);
    match facts.details.host_config.memory {
        limit if limit > 0 => finding.add("memory_limit", &[&(limit >> 20)]),
        _ => finding.add("no_memory_limit", &[]),
    }
}

/// An end together with the engine, which stops its containers before it ends.
fn engine_restarted(facts: &Facts) -> Option<Finding> {
    let ended = unix_time::from_timestamp(&facts.state().finished_at)?;
    let lost = facts.engine_lost?;
    let is_with_it = (lost - ENGINE_STOP_SECONDS..=lost + 1).contains(&ended);
    let policy = &facts.details.host_config.restart_policy.name;
    let policy = if policy.is_empty() {
        "no"
    } else {
        policy.as_str()
    };
    let finding = Finding::named("engine_restarted", &[&rfc3339(lost), &policy]);
    (is_with_it && !facts.state().is_alive()).then_some(finding)
}

/// A stop that the engine was asked for.
fn stopped(code: i64, run: &[Event]) -> Option<Finding> {
    let stop = run.iter().rfind(|event| event.action == "stop")?;
    Some(match code {
        137 => Finding::named("stopped_by_force", &[&signals(run)]),
        _ => Finding::named("stopped", &[&rfc3339(stop.time)]),
    })
}

fn killed(facts: &Facts) -> Finding {
    let run = facts.last_run();
    if run.iter().any(|event| event.action == "kill") {
        return Finding::named("killed", &[&signals(run)]);
    }
    // The engine forgets events: without the event of the exit there is no evidence about the kill.
    let finding = match run.iter().any(Event::is_exit) {
        true => Finding::named("killed_outside", &[]),
        false => Finding::named("killed_unknown", &[]),
    };
    match facts.details.host_config.memory >> 20 {
        limit if limit > 0 => finding.add("kill_by_limit", &[&limit]),
        _ => finding,
    }
}

fn signals(run: &[Event]) -> String {
    let kills = run.iter().filter(|event| event.action == "kill");
    let signals = kills.map(|event| {
        let signal = event.attribute("signal").unwrap_or("?");
        format!("signal {signal} at {}", rfc3339(event.time))
    });
    signals.collect::<Vec<_>>().join(", ")
}

/// The runtime's own error in the container's log, if it could not run the program.
fn exec_failed(facts: &Facts) -> Option<Finding> {
    let mut lines = facts.log_text().lines().rev();
    let last = lines.find(|line| !line.trim().is_empty())?;
    let error = last.strip_prefix("exec ")?;
    if error.contains("exec format error") {
        let other = start::wrong_platform(facts);
        return Some(other.unwrap_or_else(|| Finding::named("exec_format", &[&last])));
    }
    let is_missing = error.contains("no such file or directory");
    is_missing.then(|| Finding::named("exec_missing", &[&last]))
}

fn app_error(code: i64, facts: &Facts) -> Finding {
    let Some(telling) = facts.telling_line() else {
        return match facts.log {
            LogTail::Empty => Finding::named("silent_error", &[&code]),
            _ => Finding::named("unread_error", &[&code]),
        };
    };
    let finding = Finding::named("error", &[&code, &telling.line]);
    let Some(sign) = telling.sign else {
        return finding;
    };
    let summary = format!(
        "The application ended with an error (exit code {code}): it {}.",
        sign.text
    );
    // The exit code says that it is an error of its own; the phrase alone does not say which.
    let finding = Finding::new(sign.cause, summary).sure_if(sign.cause == Cause::AppError);
    refine(finding, telling, facts)
}
