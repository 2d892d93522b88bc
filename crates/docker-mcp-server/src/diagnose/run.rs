//! Findings about containers that run, or try to.

use std::fmt::Display;

use super::facts::{Facts, LogTail, is_oom};
use super::finding::{Cause, Confidence, Finding};
use super::refine::{advise, refine};
use crate::engine::ContainerSummary;

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
    // It was given other limits since, which may have ended the loop.
    let later = facts
        .events
        .iter()
        .rev()
        .take_while(|event| !event.is_exit());
    let is_updated = facts.state().runs() && later.clone().any(|event| event.action == "update");
    if !loops || is_updated {
        return None;
    }
    let ending = match facts.last_end() {
        Some(end) if end.oom => "runs out of memory".to_owned(),
        Some(end) => format!("ends with exit code {}", end.code),
        None => "ends".to_owned(),
    };
    let sure = restarts >= 3 || facts.restarted_meanwhile;
    let mut finding = Finding::named("loop", &[&ending, &restarts, policy]).sure_if(sure);
    if exits > 1 {
        finding = finding.add("many_exits", &[&exits, &(LOOP_WINDOW_SECONDS / 60)]);
    }
    if facts.last_end().is_some_and(|end| end.code == 0) {
        finding = finding.add("not_a_service", &[]);
    }
    Some(finding.add("end_the_loop", &[]))
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
    let mut finding = Finding::named("unhealthy", &[&health.failing_streak, &check]);
    let from = health.log.len().saturating_sub(MAX_PROBES);
    for probe in &health.log[from..] {
        let output = match probe.output.trim() {
            "" => "(no output)",
            output => output,
        };
        let code = probe.exit_code;
        finding = finding.because(format!("Probe with exit code {code}: {output}"));
    }
    let Some(last) = health.log.last() else {
        return Some(finding.next("Read its log: get_container_logs."));
    };
    let output = last.output.to_lowercase();
    let cannot_run = output.contains("exec: ") || output.contains("executable file not found");
    if last.exit_code == 127 || cannot_run {
        return Some(finding.add("check_missing", &[]));
    }
    if output.contains("exceeded timeout") {
        return Some(finding.add("check_slow", &[]));
    }
    let Some((telling, sign)) = facts.telling_probe() else {
        return Some(finding.add("check_fails", &[]));
    };
    let finding = finding.add("check_sign", &[&sign.text]);
    // Its own port, of all that a check asks for.
    let silent = facts
        .local
        .as_ref()
        .filter(|_| sign.cause == Cause::PeerUnreachable);
    let asked = silent.and_then(|local| {
        let mut words = check.split(|c: char| !c.is_ascii_alphanumeric() && !".:".contains(c));
        let port: u16 = words.find_map(|word| {
            word.strip_prefix("localhost:")
                .or_else(|| word.strip_prefix("127.0.0.1:"))?
                .parse()
                .ok()
        })?;
        (local.listens(port).is_none()).then_some((port, local.ports()))
    });
    Some(match asked {
        Some((port, others)) => finding.add("check_port", &[&port, &others]),
        None => advise(finding.next(sign.next), telling, facts),
    })
}

/// Detects a log that cannot be read back.
pub(super) fn no_logs(facts: &Facts) -> Option<Finding> {
    let driver = &facts.details.host_config.log_config.driver;
    matches!(facts.log, LogTail::NotKept).then(|| Finding::named("no_logs", &[driver]))
}

/// Detects that the container whose network it uses does not run.
pub(super) fn network_owner_gone(facts: &Facts) -> Option<Finding> {
    let owner = facts.network_owner()?;
    let is_owner =
        |other: &&ContainerSummary| other.id.starts_with(owner) || other.display_name() == owner;
    match facts.others.iter().find(is_owner) {
        Some(owner) if owner.state == "running" => None,
        Some(known) => {
            let values: [&dyn Display; 2] = [&known.display_name(), &known.status];
            Some(Finding::named("owner_down", &values))
        }
        None => Some(Finding::named("owner_gone", &[&owner])),
    }
}

/// Detects processes in a running container that its limits ended or prevented.
pub(super) fn limits_reached(facts: &Facts) -> Option<Finding> {
    if !facts.state().runs() {
        return None;
    }
    let local = facts.local.as_ref();
    let (kills, refused) = local.map_or((0, 0), |local| (local.oom_kills, local.refused_forks));
    let run = facts.last_run().iter();
    let events = run.filter(|event| is_oom(event)).count();
    let host_config = &facts.details.host_config;
    let limit = host_config.memory >> 20;
    let said_killed = limit > 0 && facts.log_text().lines().any(|line| line.trim() == "Killed");
    let is_sure = kills > 0 || events > 0;
    if is_sure || said_killed {
        let killed = kills.max(u64::from(said_killed));
        let finding = Finding::named("child_out_of_memory", &[&killed, &events, &limit]);
        return Some(finding.sure_if(is_sure));
    }
    (refused > 0).then(|| Finding::named("forks_refused", &[&refused, &host_config.pids_limit]))
}

/// Detects a published port on which nothing listens, or only the container's own loopback interface.
pub(super) fn not_listening(facts: &Facts) -> Option<Finding> {
    let local = facts.local.as_ref()?;
    let ports = facts.details.network_settings.ports.iter();
    let published = ports.filter(|(_, bindings)| !bindings.is_empty());
    let mut tcp = published.filter_map(|(port, _)| port.strip_suffix("/tcp")?.parse().ok());
    let port: u16 = tcp.find(|port| local.listens(*port) != Some(false))?;
    if local.listens(port) == Some(true) {
        return Some(Finding::named("only_loopback", &[&port]));
    }
    let mut finding = Finding::named("not_listening", &[&port, &local.ports()]);
    if facts.uptime() < Some(STEADY_AFTER_SECONDS) {
        finding.confidence = Confidence::Low;
    }
    Some(finding)
}

/// Detects a missing mount, the usual reason if the engine did not note why a start failed.
pub(super) fn missing_bind(facts: &Facts) -> Option<Finding> {
    let missing = facts.missing_binds.join("`, `");
    (!missing.is_empty()).then(|| Finding::named("bind_missing", &[&missing]))
}

/// The finding if no problem was detected.
pub(super) fn no_problem(facts: &Facts) -> Finding {
    match &*facts.state().status {
        "created" => Finding::named("never_started", &[]),
        "paused" => Finding::named("paused", &[]),
        "running" => running(facts),
        other => Finding::named("odd_state", &[&other]),
    }
}

fn running(facts: &Facts) -> Finding {
    let health = facts.state().health.as_ref();
    let mut finding = Finding::named("running", &[]);
    finding = match health.map(|health| &*health.status) {
        Some("healthy") => finding.add("healthy", &[]),
        Some("starting") => finding.add("health_unknown", &[]),
        _ => finding.add("no_health_check", &[]),
    };
    let since = facts.now - RECENT_SECONDS;
    let exits = facts.exits().filter(|event| event.time >= since).count();
    if exits > 0 {
        finding = finding.add("ended_recently", &[&exits]);
    }
    if let Some(telling) = facts.telling_line()
        && let Some(sign) = telling.sign
    {
        finding.summary = format!("It runs, and its log says that it {}.", sign.text);
        return refine(finding.sure_if(false), telling, facts);
    }
    finding
}
