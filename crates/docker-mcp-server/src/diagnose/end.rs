//! Findings about containers that ran and exited.

use upstream::time::rfc3339;

use super::facts::{Facts, RunEnd};
use super::finding::{Cause, Confidence, Finding};
use crate::engine::Event;
use crate::exit_code;

const START_AGAIN: &str = "Start it again if it should run: start_container.";

/// Explains why the last run ended.
pub(super) fn explain(end: RunEnd, facts: &Facts) -> Finding {
    let code = end.code;
    let finding = match code {
        _ if end.oom => out_of_memory(code, facts),
        _ if let Some(stopped) = stopped(code, facts.last_run()) => stopped,
        137 => killed(facts.last_run()),
        0 => Finding::high(Cause::Finished, "Its command ended successfully.")
            .next("Nothing is wrong if it is a job. A service must stay in the foreground: correct its command."),
        126 => Finding::medium(Cause::NotExecutable, "A command that it runs is not executable.")
            .next("The log names the file: set its execute bit in the image, or correct the command."),
        127 => Finding::high_if(facts.log_text().contains("not found"), Cause::CommandNotFound, "A command that it runs is not in the image.")
            .next("The log names the command: add it to the image, or correct the container's command."),
        _ if let Some(finding) = exec_failed(facts.log_text()) => finding,
        130 | 143 => Finding::medium(Cause::Stopped, "It ended because it was asked to.").next(START_AGAIN),
        129..=192 => Finding::high(Cause::Crashed, format!("The application crashed with signal {}.", code - 128))
            .next("Read its output before that: get_container_logs. A crash like this is a defect in it, or an image for another CPU."),
        _ => app_error(code, facts),
    };
    let meaning = exit_code::meaning(code, end.oom);
    finding.because(format!("Exit code {code}: {meaning}."))
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

fn killed(run: &[Event]) -> Finding {
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
    Finding::new(confidence, Cause::Killed, summary)
        .because(fact)
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
fn exec_failed(log: &str) -> Option<Finding> {
    let line = last_line(log)?.strip_prefix("exec ")?;
    if line.contains("exec format error") {
        let summary = "Its command is for another CPU, or a script without `#!`.";
        return Some(Finding::high(Cause::NotExecutable, summary).next(
            "Use an image for this machine's architecture, or give the script a `#!` line.",
        ));
    }
    line.contains("no such file or directory").then(|| {
        Finding::high(Cause::CommandNotFound, "Its command, or its interpreter, is not in the image.")
            .next("Check the `#!` line of the script (also for Windows line ends) and that the interpreter is in the image.")
    })
}

fn app_error(code: i64, facts: &Facts) -> Finding {
    let log = facts.log_text();
    let summary = format!("The application ended with an error (exit code {code}).");
    let mut finding = Finding::high_if(!log.is_empty(), Cause::AppError, summary);
    if let Some(last) = last_line(log) {
        finding = finding.because(format!("Its last line: {}", last.trim()));
    }
    finding
        .next(advice(log))
        .next("get_container_logs shows more of its output.")
}

fn last_line(log: &str) -> Option<&str> {
    log.lines().rev().find(|line| !line.trim().is_empty())
}

/// Advice for common error messages.
fn advice(log: &str) -> &'static str {
    let log = log.to_lowercase();
    let has = |signs: &str| signs.split('|').any(|sign| log.contains(sign));
    if has("address already in use|eaddrinuse") {
        "Another process in its network uses the port: change the port that it listens on."
    } else if has("permission denied|eacces|operation not permitted") {
        "It lacks a permission: compare its user with the owner of its mounts."
    } else if has(
        "connection refused|econnrefused|no such host|could not resolve|enotfound\
                   |name or service not known",
    ) {
        "It cannot reach another service: check that one, and that both share a network."
    } else if has("no space left|enospc") {
        "The disk is full: free space on the engine's host."
    } else if has("read-only file system|erofs") {
        "It writes to a file system that is mounted read-only: give it a volume or a tmpfs there."
    } else if has("no such file or directory|enoent") {
        "A file that it needs is missing: check its mounts, working directory and configuration."
    } else {
        "Fix what the last lines of its log name: configuration, environment, arguments."
    }
}
