//! Findings about containers that ran and exited.

use upstream::time::rfc3339;

use super::facts::{Facts, LogTail, RunEnd};
use super::finding::{Cause, Confidence, Finding};
use super::refine::refine;
use super::start;
use crate::engine::Event;
use crate::exit_code;

const START_AGAIN: &str = "Start it again if it should run: start_container.";

/// Explains why the last run ended.
pub(super) fn explain(end: RunEnd, facts: &Facts) -> Finding {
    let code = end.code;
    let finding = match code {
        _ if end.oom => out_of_memory(code, facts),
        _ if let Some(stopped) = stopped(code, facts.last_run()) => stopped,
        137 => killed(facts),
        0 => Finding::high(Cause::Finished, "Its command ended successfully.")
            .next("Nothing is wrong if it is a job. A service must stay in the foreground: correct its command."),
        _ if let Some(finding) = known_end(code, facts) => finding,
        126 => Finding::medium(Cause::NotExecutable, "A command that it runs is not executable.")
            .next("The log names the file: set its execute bit in the image, or correct the command."),
        127 => Finding::high_if(facts.log_text().contains("not found"), Cause::CommandNotFound, "A command that it runs is not in the image.")
            .next("The log names the command: add it to the image, or correct the container's command."),
        _ if let Some(finding) = exec_failed(facts) => finding,
        130 | 143 => Finding::medium(Cause::Stopped, "It ended because it was asked to.").next(START_AGAIN),
        129..=192 => Finding::high(Cause::Crashed, format!("The application crashed with signal {}.", code - 128))
            .next("Read its output before that: get_container_logs. A crash like this is a defect in it, or an image for another CPU."),
        _ => app_error(code, facts),
    };
    let meaning = exit_code::meaning(code, end.oom);
    let finding = finding.because(format!("Exit code {code}: {meaning}."));
    let (policy, restarts) = (
        &facts.details.host_config.restart_policy,
        facts.details.restart_count,
    );
    let gave_up = policy.name == "on-failure"
        && policy.maximum_retry_count > 0
        && restarts >= policy.maximum_retry_count
        && !facts.state().is_alive();
    if !gave_up {
        return finding;
    }
    finding
        .because(format!(
            "Its restart policy gave up after {restarts} restarts."
        ))
        .next("Fix the cause first; start_container then begins to count anew.")
}

/// Problems whose sign in the log says more than the exit code, which confirms it.
fn known_end(code: i64, facts: &Facts) -> Option<Finding> {
    let telling = facts.telling_line()?;
    let cause = telling.sign?.cause;
    let summary = match (code, cause) {
        (127, Cause::MissingLibrary) => "Its program lacks a shared library.",
        (3 | 134, Cause::HeapExhausted) => "The application used up its heap and gave up.",
        _ => return None,
    };
    Some(refine(Finding::high(cause, summary), telling, facts))
}

fn out_of_memory(code: i64, facts: &Facts) -> Finding {
    let limit = facts.details.host_config.memory;
    let summary = "The kernel killed it because it ran out of memory.";
    // The main process may exit by itself after one of its children was killed.
    let finding = Finding::high_if(code == 137, Cause::OomKilled, summary)
        .because("The engine notes OOMKilled.");
    if limit > 0 {
        finding
            .because(format!("Its memory limit is {} MiB.", limit >> 20))
            .next("Give it more memory, or have the application use less: raise the limit to more than what it needs at its peak.")
    } else {
        finding
            .because("It has no memory limit, so the machine itself ran out.")
            .next("Free memory on the engine's host, or give containers limits.")
    }
}

/// A stop that the engine was asked for.
fn stopped(code: i64, run: &[Event]) -> Option<Finding> {
    let stop = run.iter().rfind(|event| event.action == "stop")?;
    Some(if code == 137 {
        let summary = "It was stopped on request, did not end in time, and was killed.";
        Finding::high(Cause::Killed, summary)
            .because(format!("Events: {}.", signals(run)))
            .next("Let the application handle SIGTERM, or stop it with a longer timeout_seconds.")
    } else {
        Finding::high(Cause::Stopped, "It was stopped on request.")
            .because(format!("Event: stop at {}.", rfc3339(stop.time)))
            .next(START_AGAIN)
    })
}

fn killed(facts: &Facts) -> Finding {
    let run = facts.last_run();
    if run.iter().any(|event| event.action == "kill") {
        return Finding::high(Cause::Killed, "It was killed through the engine.")
            .because(format!("Events: {}.", signals(run)))
            .next("Find out who killed it; start it again if it should run: start_container.");
    }
    // The engine forgets events: without the event of the exit there is no evidence about the kill.
    let (confidence, fact) = match run.iter().any(Event::is_exit) {
        true => (
            Confidence::Medium,
            "The engine was not asked to kill it, and did not note a lack of memory.",
        ),
        false => (
            Confidence::Low,
            "The engine no longer has the events of that time, and this server did not run then.",
        ),
    };
    let summary = "It was killed from outside (SIGKILL).";
    let mut finding = Finding::new(confidence, Cause::Killed, summary).because(fact);
    let limit = facts.details.host_config.memory >> 20;
    if limit > 0 {
        finding = finding.because(format!(
            "Its memory limit is {limit} MiB; Podman does not note a kill because of it."
        ));
    }
    finding
        .next("Check the engine's host for kill -9, or for the kernel's out-of-memory killer.")
        .next(START_AGAIN)
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
    let last = last_line(facts.log_text())?;
    let line = last.strip_prefix("exec ")?;
    let said = format!("The runtime said: {last}");
    if line.contains("exec format error") {
        if let Some(finding) = start::wrong_platform(facts) {
            return Some(finding);
        }
        let summary = "Its command is for another CPU, or a script without `#!`.";
        return Some(
            Finding::high(Cause::NotExecutable, summary)
                .because(said)
                .next(
                    "Use an image for this machine's architecture, or give the script a `#!` line.",
                ),
        );
    }
    line.contains("no such file or directory").then(|| {
        Finding::high(Cause::CommandNotFound, "Its command, or its interpreter, is not in the image.")
            .because(said)
            .next("Check the `#!` line of the script (also for Windows line ends) and that the interpreter is in the image.")
    })
}

fn app_error(code: i64, facts: &Facts) -> Finding {
    let summary = format!("The application ended with an error (exit code {code}).");
    let Some(telling) = facts.telling_line() else {
        let next = match facts.log {
            LogTail::Empty => {
                "It wrote nothing: run its command with more output, or check its arguments."
            }
            _ => "Its log could not be read just now: ask again, or see get_container_logs.",
        };
        return Finding::medium(Cause::AppError, summary).next(next);
    };
    let Some(sign) = telling.sign else {
        return Finding::high(Cause::AppError, summary)
            .because(format!("Its log says: {}", telling.line))
            .next("Fix what the last lines of its log name: configuration, environment, arguments.")
            .next("get_container_logs shows more of its output.");
    };
    let summary = format!(
        "The application ended with an error (exit code {code}): it {}.",
        sign.text
    );
    // The exit code says that it is an error of its own; the phrase alone does not say which.
    let finding = Finding::high_if(sign.cause == Cause::AppError, sign.cause, summary);
    refine(finding, telling, facts)
}

fn last_line(log: &str) -> Option<&str> {
    log.lines().rev().find(|line| !line.trim().is_empty())
}
