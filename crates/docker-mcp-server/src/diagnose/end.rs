//! Containers that ran and ended.

use upstream::time::rfc3339;

use super::facts::{End, Facts};
use super::finding::{Cause, Confidence, Finding};
use crate::engine::Event;
use crate::exit_code;

use Confidence::{High, Low, Medium};

/// Why its last run ended.
pub(super) fn of(end: End, facts: &Facts) -> Finding {
    let code = end.code;
    let finding = match code {
        _ if end.oom => out_of_memory(code, facts),
        _ if let Some(stopped) = stopped(code, facts.last_run()) => stopped,
        137 => killed(facts.last_run()),
        0 => Finding::new(Cause::Finished, High, "Its command ended successfully.")
            .next("Nothing is wrong where it is a job. A service must stay in the foreground: correct its command."),
        126 => Finding::new(Cause::NotExecutable, Medium, "A command that it runs is not executable.")
            .next("The log names the file: set its execute bit in the image, or correct the command."),
        127 => command_not_found(facts),
        _ if let Some(finding) = exec_failed(facts.last_words()) => finding,
        130 | 143 => Finding::new(Cause::Stopped, Medium, "It ended because it was asked to.")
            .next("Start it again where it should run: start_container."),
        129..=192 => crashed(code),
        _ => app_error(code, facts),
    };
    finding.because(format!(
        "Exit code {code}: {}.",
        exit_code::meaning(code, end.oom)
    ))
}

fn out_of_memory(code: i64, facts: &Facts) -> Finding {
    let limit = facts.details.host_config.memory;
    // The main process may end by itself when one of its children was killed.
    let confidence = if code == 137 { High } else { Medium };
    let finding = Finding::new(
        Cause::OomKilled,
        confidence,
        "The kernel killed it because it ran out of memory.",
    )
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

/// A stop that somebody asked the engine for.
fn stopped(code: i64, run: &[Event]) -> Option<Finding> {
    let stop = run.iter().rfind(|event| event.action == "stop")?;
    let by_force = code == 137;
    Some(if by_force {
        Finding::new(
            Cause::Killed,
            High,
            "It was stopped on request, did not end in time, and was killed.",
        )
        .because(format!("Events: {}.", signals(run)))
        .next("Have the application handle SIGTERM, or stop it with a longer timeout_seconds.")
    } else {
        Finding::new(Cause::Stopped, High, "It was stopped on request.")
            .because(format!("Event: stop at {}.", rfc3339(stop.time)))
            .next("Start it again where it should run: start_container.")
    })
}

fn killed(run: &[Event]) -> Finding {
    let by_engine = run.iter().any(|event| event.action == "kill");
    if by_engine {
        return Finding::new(Cause::Killed, High, "It was killed through the engine.")
            .because(format!("Events: {}.", signals(run)))
            .next("Find out who killed it; start it again where it should run: start_container.");
    }
    // The engine forgets events: without the death itself nothing can be said about the kill.
    let seen = run.iter().any(Event::is_death);
    Finding::new(
        Cause::Killed,
        if seen { Medium } else { Low },
        "It was killed from outside (SIGKILL).",
    )
    .because(if seen {
        "Nobody asked the engine for it, and the engine did not note a lack of memory."
    } else {
        "The engine no longer knows the events of that time."
    })
    .next("Look on the engine's host for kill -9, or for the kernel's out-of-memory killer.")
    .next("Start it again where it should run: start_container.")
}

fn signals(run: &[Event]) -> String {
    let kills = run.iter().filter(|event| event.action == "kill");
    let signals = kills.map(|event| {
        let signal = event.attribute("signal").unwrap_or("?");
        format!("signal {signal} at {}", rfc3339(event.time))
    });
    signals.collect::<Vec<_>>().join(", ")
}

fn command_not_found(facts: &Facts) -> Finding {
    let said = facts.last_words().contains("not found");
    let confidence = if said { High } else { Medium };
    Finding::new(
        Cause::CommandNotFound,
        confidence,
        "A command that it runs is not in the image.",
    )
    .next("The log names the command: add it to the image, or correct the container's command.")
}

/// What the runtime itself writes in the container's name when the program cannot be run.
fn exec_failed(log: &str) -> Option<Finding> {
    let last = log.lines().rev().find(|line| !line.trim().is_empty())?;
    let line = last.strip_prefix("exec ")?;
    if line.contains("exec format error") {
        return Some(
            Finding::new(
                Cause::NotExecutable,
                High,
                "Its command is for another CPU, or a script without `#!`.",
            )
            .next("Use an image for this machine's architecture, or give the script a `#!` line."),
        );
    }
    line.contains("no such file or directory").then(|| {
        Finding::new(Cause::CommandNotFound, High, "Its command, or what should interpret it, is not in the image.")
            .next("Check the `#!` line of the script (also for Windows line ends) and that the interpreter is in the image.")
    })
}

fn crashed(code: i64) -> Finding {
    Finding::new(
        Cause::Crashed,
        High,
        format!("The application crashed with signal {}.", code - 128),
    )
    .next("Read what it said before: get_container_logs. A crash like this is a defect in it, or an image for another CPU.")
}

fn app_error(code: i64, facts: &Facts) -> Finding {
    let words = facts.last_words();
    let confidence = if words.is_empty() { Medium } else { High };
    let last = words.lines().rev().find(|line| !line.trim().is_empty());
    let finding = Finding::new(
        Cause::AppError,
        confidence,
        format!("The application ended with an error (exit code {code})."),
    );
    let finding = match last {
        Some(last) => finding.because(format!("Its last line: {}", last.trim())),
        None => finding,
    };
    finding
        .next(advice(words))
        .next("get_container_logs shows more of what it said.")
}

/// What mostly helps against what applications mostly say.
fn advice(log: &str) -> &'static str {
    const KNOWN: [(&[&str], &str); 6] = [
        (
            &["address already in use", "eaddrinuse"],
            "Another process in its network uses the port: change the port that it listens on.",
        ),
        (
            &["permission denied", "eacces", "operation not permitted"],
            "It lacks a right: compare its user with the owner of its mounts.",
        ),
        (
            &[
                "connection refused",
                "econnrefused",
                "no such host",
                "could not resolve",
                "enotfound",
                "name or service not known",
            ],
            "It cannot reach another service: check that one, and that both share a network.",
        ),
        (
            &["no space left", "enospc"],
            "The disk is full: free space on the engine's host.",
        ),
        (
            &["read-only file system", "erofs"],
            "It writes to a file system that is mounted read-only: give it a volume or a tmpfs there.",
        ),
        (
            &["no such file or directory", "enoent"],
            "It misses a file: check its mounts, working directory and configuration.",
        ),
    ];
    let log = log.to_lowercase();
    let known = KNOWN
        .iter()
        .find(|(signs, _)| signs.iter().any(|sign| log.contains(sign)));
    known.map_or(
        "Mend what the last lines of its log name: configuration, environment, arguments.",
        |(_, advice)| advice,
    )
}
