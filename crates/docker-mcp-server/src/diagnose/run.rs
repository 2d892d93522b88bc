//! Findings about containers that run, or try to.

use super::facts::{Facts, LogTail, is_oom};
use super::finding::{Cause, Confidence, Finding};
use super::refine::refine;
use crate::engine::{ContainerSummary, Health};

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

/// Detects that the container whose network it uses does not run.
pub(super) fn network_owner_gone(facts: &Facts) -> Option<Finding> {
    let owner = facts.network_owner()?;
    let is_owner =
        |other: &&ContainerSummary| other.id.starts_with(owner) || other.display_name() == owner;
    let known = facts.others.iter().find(is_owner);
    if known.is_some_and(|owner| owner.state == "running") {
        return None;
    }
    let confidence = if known.is_some() {
        Confidence::High
    } else {
        Confidence::Medium
    };
    let summary = "It uses the network of another container, which does not run.";
    let finding = Finding::new(confidence, Cause::NetworkOwnerGone, summary);
    Some(match known.map(|owner| (owner.display_name(), &owner.status)) {
        Some((name, status)) => finding
            .because(format!("Its network is that of `{name}`, whose status is: {status}."))
            .next(format!("Start `{name}` first, then restart this container; if `{name}` was recreated, recreate this one, too.")),
        None => finding
            .because(format!("Its network is that of the container {owner}, which does not exist any more or is not visible."))
            .next("Recreate it with the network of an existing container."),
    })
}

/// Detects processes in a running container that its limits ended or prevented.
pub(super) fn limits_reached(facts: &Facts) -> Option<Finding> {
    if !facts.state().runs() {
        return None;
    }
    let (kills, refused) = facts
        .local
        .as_ref()
        .map_or((0, 0), |local| (local.oom_kills, local.refused_forks));
    let events = facts
        .last_run()
        .iter()
        .filter(|event| is_oom(event))
        .count();
    let limit = facts.details.host_config.memory >> 20;
    let said_killed = limit > 0 && facts.log_text().lines().any(|line| line.trim() == "Killed");
    if kills > 0 || events > 0 || said_killed {
        let summary =
            "It runs, and the kernel killed one of its processes because it ran out of memory.";
        let finding = Finding::high_if(kills > 0 || events > 0, Cause::OomKilled, summary);
        return Some(
            finding
                .because(format!("Since its start: {} processes killed, {events} events `oom`; its memory limit is {limit} MiB (0: none).", kills.max(u64::from(said_killed))))
                .next("Raise its memory limit (update_container), or have its processes use less: get_container_stats with seconds shows the peak."),
        );
    }
    let summary = "It runs, and could not start more processes: it reached its limit.";
    (refused > 0).then(|| {
        let limit = facts.details.host_config.pids_limit;
        Finding::high(Cause::PidsLimit, summary)
            .because(format!(
                "The kernel refused {refused} processes; its limit is {limit}."
            ))
            .next("Raise pids_limit (update_container), or find what starts so many processes.")
    })
}

/// Detects a published port on which nothing listens, or only the container's own loopback interface.
pub(super) fn not_listening(facts: &Facts) -> Option<Finding> {
    let local = facts.local.as_ref()?;
    let ports = facts.details.network_settings.ports.iter();
    let published = ports.filter(|(_, bindings)| !bindings.is_empty());
    let tcp = published.filter_map(|(port, _)| port.strip_suffix("/tcp")?.parse().ok());
    let (port, on) = tcp
        .map(|port| (port, local.listens(port)))
        .find(|(_, on)| *on != Some(false))?;
    if on == Some(true) {
        let summary = format!(
            "It publishes port {port}, and listens on it only on 127.0.0.1, where nobody outside of it arrives."
        );
        return Some(
            Finding::high(Cause::NotListening, summary)
                .because(format!("Its socket of port {port} is bound to the loopback interface."))
                .next("Let the application listen on 0.0.0.0: its bind address or host is an argument or a variable."),
        );
    }
    let others: Vec<_> = local
        .listening
        .iter()
        .map(|(port, _)| port.to_string())
        .collect();
    let others = if others.is_empty() {
        "no port".to_owned()
    } else {
        others.join(", ")
    };
    let settled = facts.uptime() >= Some(STEADY_AFTER_SECONDS);
    let confidence = if settled {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    let summary = format!("It publishes port {port}, and nothing in it listens there.");
    Some(
        Finding::new(confidence, Cause::NotListening, summary)
            .because(format!("It listens on {others}."))
            .next("If it is still starting, ask again. Otherwise publish the port that it listens on, or correct the application's port."),
    )
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
    let finding = match facts.exits().filter(|event| event.time >= since).count() {
        0 => finding,
        some => finding.because(format!("It ended {some} times within the last hour.")),
    };
    match facts.telling_line() {
        Some(telling) if let Some(sign) = telling.sign => refine(
            Finding {
                confidence: Confidence::Medium,
                summary: format!("It runs, and its log says that it {}.", sign.text),
                ..finding
            },
            telling,
            facts,
        ),
        _ => finding,
    }
}
