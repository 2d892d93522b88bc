//! Containers that run, or try to.

use super::facts::{Facts, LastWords};
use super::finding::{Cause, Confidence, Finding};
use crate::engine::{Event, Health};

use Confidence::{High, Medium};

/// How far back deaths count as being of the same loop, in seconds.
const LOOP_WINDOW: i64 = 600;
/// A run that is older than this, in seconds, is no longer one of a loop: the engine thinks so too
/// and starts its pauses anew.
const STEADY: i64 = 10;
/// Health probes that are shown.
const PROBES: usize = 3;

/// It ends and is restarted, again and again. Its state alone does not tell: between two ends it
/// runs.
pub(super) fn crash_loop(facts: &Facts) -> Option<Finding> {
    let policy = &facts.details.host_config.restart_policy.name;
    if matches!(&**policy, "" | "no") {
        return None;
    }
    let restarts = facts.details.restart_count;
    let since = facts.now - LOOP_WINDOW;
    let deaths = facts.events.iter().filter(|event| event.is_death());
    let deaths = deaths.filter(|event| event.time >= since).count();
    let waits = facts.state().status == "restarting";
    let young = facts.uptime().is_some_and(|uptime| uptime < STEADY);
    let loops = (waits && restarts > 0)
        || facts.restarted_meanwhile
        || (young && restarts >= 2)
        || (facts.state().runs() && restarts >= 2 && deaths >= 3);
    if !loops {
        return None;
    }
    let ending = match facts.last_end() {
        Some(end) if end.oom => "runs out of memory".to_owned(),
        Some(end) => format!("ends with exit code {}", end.code),
        None => "ends".to_owned(),
    };
    let sure = restarts >= 3 || facts.restarted_meanwhile;
    let mut finding = Finding::new(
        Cause::CrashLoop,
        if sure { High } else { Medium },
        format!("It {ending} and is restarted, again and again: {restarts} restarts so far."),
    )
    .because(format!(
        "Restart policy `{policy}`, RestartCount {restarts}."
    ));
    if deaths > 1 {
        let minutes = LOOP_WINDOW / 60;
        finding = finding.because(format!("It ended {deaths} times within {minutes} minutes."));
    }
    if facts.last_end().is_some_and(|end| end.code == 0) {
        finding = finding.next(
            "Its command is no service: have it stay in the foreground, or give it no restart policy.",
        );
    }
    Some(finding.next("stop_container ends the loop while the cause is mended."))
}

/// Its health check fails.
pub(super) fn unhealthy(facts: &Facts) -> Option<Finding> {
    let state = facts.state();
    let health = state.health.as_ref()?;
    if !state.runs() || health.status != "unhealthy" {
        return None;
    }
    let check = &facts.details.config.healthcheck;
    let check = check.as_ref().map_or(String::new(), |check| {
        let test = check.test.iter().map(String::as_str);
        test.filter(|word| !matches!(*word, "CMD" | "CMD-SHELL"))
            .collect::<Vec<_>>()
            .join(" ")
    });
    let mut finding = Finding::new(
        Cause::Unhealthy,
        High,
        format!(
            "It runs, and its health check has failed {} times in a row.",
            health.failing_streak
        ),
    )
    .because(format!("The check: {check}"));
    let from = health.log.len().saturating_sub(PROBES);
    for probe in &health.log[from..] {
        let output = probe.output.trim();
        finding = finding.because(format!(
            "Probe with exit code {}: {}",
            probe.exit_code,
            if output.is_empty() {
                "(no output)"
            } else {
                output
            }
        ));
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

/// Its log cannot be read back.
pub(super) fn no_logs(facts: &Facts) -> Option<Finding> {
    let driver = &facts.details.host_config.log_config.driver;
    matches!(facts.log, LastWords::NotKept).then(|| {
        Finding::new(
            Cause::NoLogs,
            High,
            "It has no log that could be read: its log driver keeps nothing.",
        )
        .because(format!("Log driver `{driver}`."))
        .next("Recreate it with the log driver `json-file` or `local`.")
    })
}

/// It could not be started, and the engine did not note why: a mount is the usual reason.
pub(super) fn missing_bind(facts: &Facts) -> Option<Finding> {
    let missing = facts.missing_binds.join("`, `");
    (!missing.is_empty()).then(|| {
        Finding::new(
            Cause::BindSourceMissing,
            Medium,
            format!("A path of the host that it mounts does not exist: `{missing}`."),
        )
        .because("The engine is on this machine, and the path is not.")
        .next("Create the path, or recreate the container with the right one.")
    })
}

/// Nothing of the above.
pub(super) fn as_it_is(facts: &Facts) -> Finding {
    let state = facts.state();
    match &*state.status {
        "created" => Finding::new(
            Cause::NeverStarted,
            High,
            "It was created and never started.",
        )
        .because("State `created`, without an error of the engine.")
        .next("start_container starts it and says why where that fails."),
        "paused" => Finding::new(
            Cause::Paused,
            High,
            "It is paused: its processes are frozen.",
        )
        .because("State `paused`.")
        .next("Unpause it."),
        "running" => running(facts),
        other => Finding::new(
            Cause::StartFailed,
            Medium,
            format!("The engine has it in the state `{other}`."),
        )
        .next("Remove it by force and recreate it where it stays so."),
    }
}

fn running(facts: &Facts) -> Finding {
    let health = facts.state().health.as_ref();
    let finding = Finding::new(Cause::Running, High, "It runs, and nothing seems wrong.");
    let finding = match health.map(|health| &*health.status) {
        Some("healthy") => finding.because("Its health check succeeds."),
        Some("starting") => finding
            .because("Its health check has not decided yet.")
            .next("Look again when its health check has decided."),
        _ => finding.because("It has no health check, so that it runs is all that is known."),
    };
    let deaths = facts.events.iter().filter(|event| Event::is_death(event));
    match deaths.count() {
        0 => finding,
        some => finding.because(format!("It ended {some} times within the last hour.")),
    }
}
