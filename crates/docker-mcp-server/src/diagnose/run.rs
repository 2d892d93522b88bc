//! Findings about containers that run, or try to.

use super::facts::{Facts, LogTail};
use super::finding::{Cause, Finding};
use crate::engine::Health;

/// The period in which exits count as parts of one crash loop, in seconds.
const LOOP_WINDOW_SECONDS: i64 = 600;
/// A run that is older than this is not part of a loop; the engine also resets its restart delay then.
const STEADY_AFTER_SECONDS: i64 = 10;
/// Exits of a running container that are mentioned, in seconds.
const RECENT_SECONDS: i64 = 3600;
/// Health probes that are shown.
const MAX_PROBES: usize = 3;

/// Detects a container that ends and is restarted, again and again. Its state is not enough: between
/// two exits it runs.
pub(super) fn crash_loop(facts: &Facts) -> Option<Finding> {
    let policy = &facts.details.host_config.restart_policy.name;
    if matches!(&**policy, "" | "no") {
        return None;
    }
    let restarts = facts.details.restart_count;
    let since = facts.now - LOOP_WINDOW_SECONDS;
    let exits = facts.exits().filter(|event| event.time >= since).count();
    let waits = facts.state().status == "restarting";
    let uptime = facts.uptime();
    let young = uptime.is_some_and(|uptime| uptime < STEADY_AFTER_SECONDS);
    let loops = (waits && restarts > 0)
        || facts.restarted_meanwhile
        || (young && restarts >= 2)
        || (facts.state().runs() && restarts >= 2 && exits >= 3);
    if !loops {
        return None;
    }
    let ending = match facts.last_end() {
        Some(end) if end.oom => "runs out of memory".to_owned(),
        Some(end) => format!("ends with exit code {}", end.code),
        None => "ends".to_owned(),
    };
    let sure = restarts >= 3 || facts.restarted_meanwhile;
    let summary =
        format!("It {ending} and is restarted, again and again: {restarts} restarts so far.");
    let fact = format!("Restart policy `{policy}`, RestartCount {restarts}.");
    let mut finding = Finding::high_if(sure, Cause::CrashLoop, summary).because(fact);
    if exits > 1 {
        let minutes = LOOP_WINDOW_SECONDS / 60;
        finding = finding.because(format!("It ended {exits} times within {minutes} minutes."));
    }
    if facts.last_end().is_some_and(|end| end.code == 0) {
        finding = finding.next(
            "Its command is not a service: keep it in the foreground, or give it no restart \
             policy.",
        );
    }
    Some(finding.next("stop_container ends the loop until the cause is fixed."))
}

/// Detects a failing health check.
pub(super) fn unhealthy(facts: &Facts) -> Option<Finding> {
    let state = facts.state();
    let health = state.health.as_ref()?;
    if !state.runs() || health.status != "unhealthy" {
        return None;
    }
    let check = facts.details.config.healthcheck.as_ref();
    let words = check.into_iter().flat_map(|check| &check.test);
    let words = words.map(String::as_str);
    let check = words.filter(|word| !matches!(*word, "CMD" | "CMD-SHELL"));
    let check = check.collect::<Vec<_>>().join(" ");
    let summary = format!(
        "It runs, and its health check has failed {} times in a row.",
        health.failing_streak
    );
    let mut finding =
        Finding::high(Cause::Unhealthy, summary).because(format!("The check: {check}"));
    let from = health.log.len().saturating_sub(MAX_PROBES);
    for probe in &health.log[from..] {
        let output = match probe.output.trim() {
            "" => "(no output)",
            output => output,
        };
        let code = probe.exit_code;
        finding = finding.because(format!("Probe with exit code {code}: {output}"));
    }
    Some(finding.next(check_advice(health)))
}

fn check_advice(health: &Health) -> &'static str {
    let Some(last) = health.log.last() else {
        return "Read its log: get_container_logs.";
    };
    let output = last.output.to_lowercase();
    if last.exit_code == 127 || output.contains("not found") {
        "The check itself cannot run: its program is not in the image. Use one that is."
    } else if output.contains("exceeded timeout") {
        "The check takes longer than its timeout: the application hangs, or the timeout is too short."
    } else {
        "The application does not do what the check asks for: read its log with get_container_logs."
    }
}

/// Detects a log that cannot be read back.
pub(super) fn no_logs(facts: &Facts) -> Option<Finding> {
    let driver = &facts.details.host_config.log_config.driver;
    let summary = "It has no log that could be read: its log driver keeps nothing.";
    matches!(facts.log, LogTail::NotKept).then(|| {
        Finding::high(Cause::NoLogs, summary)
            .because(format!("Log driver `{driver}`."))
            .next("Recreate it with the log driver `json-file` or `local`.")
    })
}

/// Detects a missing mount, the usual reason if the engine did not note why a start failed.
pub(super) fn missing_bind(facts: &Facts) -> Option<Finding> {
    let missing = facts.missing_binds.join("`, `");
    let summary = format!("A path of the host that it mounts does not exist: `{missing}`.");
    (!missing.is_empty()).then(|| {
        Finding::medium(Cause::BindSourceMissing, summary)
            .because("The engine is on this machine, and the path is not.")
            .next("Create the path, or recreate the container with the right one.")
    })
}

/// The finding if no problem was detected.
pub(super) fn no_problem(facts: &Facts) -> Finding {
    let state = facts.state();
    match &*state.status {
        "created" => Finding::high(Cause::NeverStarted, "It was created and never started.")
            .because("State `created`, without an error of the engine.")
            .next("start_container starts it and says why if that fails."),
        "paused" => Finding::high(Cause::Paused, "It is paused: its processes are frozen.")
            .because("State `paused`.")
            .next("Unpause it."),
        "running" => running(facts),
        other => Finding::medium(
            Cause::StartFailed,
            format!("The engine has it in the state `{other}`."),
        )
        .next("Remove it by force and recreate it if it stays so."),
    }
}

fn running(facts: &Facts) -> Finding {
    let health = facts.state().health.as_ref();
    let finding = Finding::high(Cause::Running, "It runs, and nothing seems wrong.");
    let finding = match health.map(|health| &*health.status) {
        Some("healthy") => finding.because("Its health check succeeds."),
        Some("starting") => finding
            .because("Its health check has no result yet.")
            .next("Check again when its health check has a result."),
        _ => finding.because("It has no health check, so it is only known that it runs."),
    };
    let since = facts.now - RECENT_SECONDS;
    match facts.exits().filter(|event| event.time >= since).count() {
        0 => finding,
        some => finding.because(format!("It ended {some} times within the last hour.")),
    }
}
