//! The conclusions: findings about containers that run or try to, about those that could not be started (from the engine's
//! error message, whose wording has hardly changed since 2020), and about those that ran and exited; with hints about a
//! line of the log, from the container's settings and from the other container that it calls.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

use upstream::time::rfc3339;

use super::facts::{Facts, LogTail, RunEnd, is_oom};
use super::finding::{Cause, Confidence, Finding, Row, TellingLine};
use crate::compose;
use crate::engine::{ContainerSummary, EndpointSettings, Event, exit_meaning};
use crate::unix_time;

/// The period in which exits count as parts of one crash loop, in seconds.
const LOOP_WINDOW_SECONDS: i64 = 600;
/// A run that is older than this is not part of a loop; the engine also resets its restart delay then.
const STEADY_AFTER_SECONDS: i64 = 10;
/// Exits of a running container that are mentioned, in seconds.
const RECENT_SECONDS: i64 = 3600;
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

pub(super) fn unhealthy(facts: &Facts) -> Option<Finding> {
    let state = facts.state();
    let health = state.health.as_ref().filter(|_| state.is_unhealthy())?;
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
        return Some(match facts.throttled_percent {
            Some(percent) => finding.add("check_throttled", &[&percent]),
            None => finding.add("check_slow", &[]),
        });
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
    let owner = facts.details.network_owner()?;
    match facts.others.iter().find(|other| other.is_called(owner)) {
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
    if kills > 0 || events > 0 {
        return Some(Finding::named(
            "child_out_of_memory",
            &[&kills, &events, &limit],
        ));
    }
    let mut lines = facts.log_text().lines();
    if limit > 0 && lines.any(|line| line.trim() == "Killed") {
        return Some(Finding::named("child_said_killed", &[&limit]));
    }
    (refused > 0).then(|| Finding::named("forks_refused", &[&refused, &host_config.pids_limit]))
}

/// Detects a published port on which nothing listens, or only the container's own loopback interface.
pub(super) fn not_listening(facts: &Facts) -> Option<Finding> {
    let local = facts.local.as_ref()?;
    let port = local.dead_port(&facts.details)?;
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
        "created" => waits(facts).unwrap_or_else(|| Finding::named("never_started", &[])),
        "paused" => Finding::named("paused", &[]),
        "running" => running(facts),
        other => Finding::named("odd_state", &[&other]),
    }
}

/// Detects a service of compose that waits for another one, which is not in the state that it asks for.
fn waits(facts: &Facts) -> Option<Finding> {
    let labels = &facts.details.config.labels;
    let project = compose::project_of(labels)?;
    // `db:service_healthy:false,cache:service_started:false`.
    let needed = labels.get(compose::DEPENDS_ON)?.split(',');
    let mut needed = needed.filter_map(|needed| {
        let mut parts = needed.split(':');
        Some((parts.next()?, parts.next()?))
    });
    needed.find_map(|(service, condition)| {
        let mut others = facts.others.iter();
        let other = others.find(|other| {
            compose::service(other) == service
                && compose::project_of(&other.labels) == Some(project)
        })?;
        let is_ready = match condition {
            "service_healthy" => other.status.contains("(healthy)"),
            "service_completed_successfully" => other.status.starts_with("Exited (0)"),
            _ => other.state == "running",
        };
        let values: [&dyn Display; 3] = [&other.display_name(), &condition, &other.status];
        (!is_ready).then(|| Finding::named("waits", &values))
    })
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

static MESSAGES: LazyLock<Vec<Row>> = LazyLock::new(|| Row::parse(include_str!("messages.txt")));

/// The finding of an engine's error when it could not create or start a container; `None` for an unknown error.
pub(super) fn known_start(error: &str, facts: Option<&Facts>) -> Option<Finding> {
    let lower = error.to_ascii_lowercase();
    let row = MESSAGES.iter().find(|row| row.matches(&lower))?;
    let known = match (row.cause, facts) {
        (Cause::PortTaken, _) => Some(port_taken(error, facts)),
        (Cause::NetworkOwnerGone, Some(facts)) => network_owner_gone(facts),
        (Cause::NotExecutable, Some(facts)) => wrong_platform(facts),
        _ => None,
    };
    Some(known.unwrap_or_else(|| Finding::new(row.cause, row.text).next(row.next)))
}

/// As [`known_start`], also for an unknown error.
pub(super) fn explain_start(error: &str, facts: Option<&Facts>) -> Finding {
    let finding = known_start(error, facts).unwrap_or_else(|| {
        Finding::new(Cause::StartFailed, "The engine could not start it.")
            .next("Fix what the engine names, then start it again.")
    });
    finding.because(format!("The engine said: {}", error.trim()))
}

/// The finding if the platforms of the image and the engine differ.
fn wrong_platform(facts: &Facts) -> Option<Finding> {
    let (image, engine) = facts.platforms.as_ref()?;
    (image != engine).then(|| Finding::named("platform", &[image, engine]))
}

fn port_taken(error: &str, facts: Option<&Facts>) -> Finding {
    let summary = match address(error) {
        Some(address) => format!("The host port that it publishes is taken: {address}."),
        None => "A host port that it publishes is taken.".to_owned(),
    };
    let finding = Finding::new(Cause::PortTaken, summary);
    let Some(facts) = facts else {
        // The containers were not listed.
        return finding.next(
            "list_containers shows which container publishes which port: stop that one, or publish another port.",
        );
    };
    match facts.port_holders().join("`, `") {
        none if none.is_empty() => finding.add("port_of_host", &[]),
        holders => finding.add("port_of_container", &[&holders]),
    }
}

/// The address in `Bind for 0.0.0.0:80 failed` or `listen tcp4 0.0.0.0:80: bind`.
fn address(error: &str) -> Option<&str> {
    let words = error.split([' ', ',']);
    let mut words = words.map(|word| word.trim_matches([':', '"']));
    words.find(|word| {
        let port = word.rsplit_once(':').map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok())
    })
}

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
    let meaning = exit_meaning(code, end.oom);
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
                135 => Finding::named("crashed", &[&7]).add("bus_error", &[]),
                129..=192 => Finding::named("crashed", &[&(code - 128)]),
                _ => app_error(code, facts),
            }),
    }
}

/// The exit codes of a shell whose command was not run.
fn not_run(code: i64, facts: &Facts) -> Option<Finding> {
    let finding = match code {
        126 => Finding::named("not_executable", &[]),
        127 => {
            let is_named = facts.log_text().contains("not found");
            Finding::named("command_missing", &[]).sure_if(is_named)
        }
        _ => return None,
    };
    Some(match facts.telling_line() {
        Some(telling) => finding.because(format!("Its log says: {}", telling.line)),
        None => finding,
    })
}

/// Problems whose sign in the log says more than the exit code, which confirms it.
fn known_end(code: i64, facts: &Facts) -> Option<Finding> {
    let telling = facts.telling_line()?;
    let sign = telling.sign?;
    let finding = match (code, sign.cause) {
        (127, Cause::MissingLibrary) => Finding::named("library_missing", &[]),
        (3 | 134, Cause::HeapExhausted) => Finding::named("heap_used_up", &[]),
        (126 | 127, Cause::NotExecutable | Cause::CommandNotFound) => {
            Finding::new(sign.cause, format!("It {}.", sign.text))
        }
        _ => return None,
    };
    Some(refine(finding, telling, facts))
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
        let other = wrong_platform(facts);
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

/// Adds the telling line and what the container's settings say about it, with the next steps.
fn refine(finding: Finding, telling: TellingLine<'_>, facts: &Facts) -> Finding {
    let Some(sign) = telling.sign else {
        return finding;
    };
    let finding = finding
        .because(format!("Its log says: {}", telling.line))
        .next(sign.next);
    advise(finding, telling, facts)
}

/// Adds what the container's settings say about a line with a sign.
fn advise(finding: Finding, telling: TellingLine<'_>, facts: &Facts) -> Finding {
    let Some(sign) = telling.sign else {
        return finding;
    };
    let line = telling.line;
    let details = &facts.details;
    let mounts = details.mounts.iter().map(|mount| &mount.destination);
    let mounts = mounts.chain(details.host_config.tmpfs.keys());
    let mount = mounts
        .filter(|path| line.contains(path.as_str()))
        .max_by_key(|path| path.len());
    let (limit, tmpfs) = (details.host_config.pids_limit, &details.host_config.tmpfs);
    match (sign.cause, mount) {
        (Cause::NameResolution | Cause::PeerUnreachable, _) => call_explained(finding, line, facts),
        (Cause::PidsLimit, _) if limit > 0 => finding.add("process_limit", &[&limit]),
        (Cause::DiskFull, Some(path)) => match tmpfs.get(path) {
            Some(options) => finding.add("tmpfs_full", &[path, options]),
            None => finding.add("mount_full", &[path]),
        },
        (Cause::AppError, Some(path)) if is_read_only(path, facts) => {
            finding.add("mount_read_only", &[path])
        }
        (Cause::AppError, Some(path)) if sign.text == "lacks a permission" => {
            let user = match &*details.config.user {
                "" => "root",
                user => user,
            };
            finding.add("mount_owner", &[&user, path])
        }
        (Cause::MountMismatch | Cause::AppError, Some(path)) => finding.add("mount", &[path]),
        _ => named_variable(finding, line, sign.next, facts),
    }
}

fn is_read_only(path: &str, facts: &Facts) -> bool {
    let mut mounts = facts.details.mounts.iter();
    mounts.any(|mount| mount.destination == path && !mount.writable)
}

/// Adds the first environment variable that the line names, and whether it is set. One that is not set is only named
/// if `advice` is about variables: other words look the same.
fn named_variable(finding: Finding, line: &str, advice: &str, facts: &Facts) -> Finding {
    let may_be_missing = advice.contains("the variable");
    for word in variables(line) {
        let mut env = facts.details.config.env.iter();
        match env.find(|set| set.split('=').next() == Some(word)) {
            Some(set) => return finding.add("variable", &[&word, set]),
            None if may_be_missing && word.contains('_') => {
                return finding.add("variable_missing", &[&word]);
            }
            None => {}
        }
    }
    finding
}

/// The whole words of a line that may be names of environment variables.
fn variables(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_name = |word: &&str| {
        let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        // Codes of Node.js: `ERR_INVALID_ARG_TYPE`.
        let is_code = word.starts_with("ERR_");
        word.len() > 2
            && !is_code
            && !word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(is_upper)
    };
    line.split(move |c| !is_part(c)).filter(is_name)
}

/// Words before a host name in messages of libraries.
const BEFORE_HOST: &str = "lookup|enotfound|eai_again|host|host:|name|unknownhostexception:|address|resolve|resolve:|to|at|upstream";

/// Of these words, those that are followed by nothing else; after the others only a quoted word is surely a host.
const ONLY_BEFORE_HOST: &str = "lookup|enotfound|eai_again|host:|unknownhostexception:|resolve:";
/// Further words before a host with a port: elsewhere `word:7` is a process, a line of a file or a part of a time.
const BEFORE_PORT: &str = "tcp|tcp4|tcp6|on|connect|connect:|connecting|connection|connection:|server|broker|\
    econnrefused|econnreset|etimedout|ehostunreach|enetunreach|serverselectiontimeouterror:";
/// Words after these that are no hosts.
const NO_HOST: &str =
    "not|found|failed|failure|error|the|a|an|of|for|in|on|is|was|by|be|timed|timeout|unknown";

/// A host, and a port if the line names one.
type Address<'a> = (&'a str, Option<u16>);

/// Adds what is known about the service that `line` could not reach, and advises accordingly.
fn call_explained(finding: Finding, line: &str, facts: &Facts) -> Finding {
    let (addresses, is_sure) = addresses(line);
    let named = addresses
        .iter()
        .find_map(|address| Some((*address, find(address.0, facts)?)));
    if let Some((address, peer)) = named {
        return with_peer(finding, address, peer, facts);
    }
    let is_unknown_name = finding.cause == Cause::NameResolution;
    match addresses.first() {
        Some((host @ ("localhost" | "127.0.0.1" | "::1" | "0.0.0.0"), _)) => {
            finding.add("peer_is_itself", &[host])
        }
        Some((host, _)) if is_unknown_name && is_sure && !host.contains('.') => {
            finding.add("peer_unknown", &[host])
        }
        _ => finding,
    }
}

fn with_peer(
    finding: Finding,
    (host, port): Address<'_>,
    peer: &ContainerSummary,
    facts: &Facts,
) -> Finding {
    let (name, status) = (peer.display_name(), &peer.status);
    if peer.state != "running" {
        return finding.add("peer_down", &[&host, &name, status]);
    }
    let own = &facts.details.network_settings.networks;
    let theirs = &peer.network_settings.networks;
    let Some(shared) = own.keys().rfind(|network| theirs.contains_key(*network)) else {
        let list = |networks: &BTreeMap<String, EndpointSettings>| {
            let names = networks.keys().map(|name| format!("`{name}`"));
            match names.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "no network".to_owned(),
                names => names,
            }
        };
        return finding.add("peer_elsewhere", &[&name, &list(theirs), &list(own)]);
    };
    if shared == "bridge" && finding.cause == Cause::NameResolution {
        return finding.add("peer_without_dns", &[&name]);
    }
    let port = port.map_or_else(|| "the port".to_owned(), |port| format!("port {port}"));
    finding.add("peer_up", &[&name, status, shared, &port])
}

/// The container with this name, compose service or address; not the diagnosed one.
fn find<'a>(host: &str, facts: &'a Facts) -> Option<&'a ContainerSummary> {
    let mut others = facts
        .others
        .iter()
        .filter(|other| other.id != facts.details.id);
    let project = compose::project_of(&facts.details.config.labels);
    let is_service = |other: &ContainerSummary| {
        project.is_some()
            && compose::service(other) == host
            && compose::project_of(&other.labels) == project
    };
    others.find(|other| {
        let mut endpoints = other.network_settings.networks.values();
        other.display_name() == host
            || is_service(other)
            || endpoints.any(|at| at.ip_address == host)
    })
}

/// How surely a word of a line is a host, the surest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// After a word that only hosts follow.
    Certain,
    /// With a port, in a URL or after a word that may be followed by a host.
    Port,
    Quoted,
    Possible,
}

/// The hosts that the line may mean, the most likely first. Also whether the first is surely one.
fn addresses(line: &str) -> (Vec<Address<'_>>, bool) {
    // A proxy names its client and the request, too.
    let (text, request) = line.split_once(", client: ").unwrap_or((line, ""));
    let upstream = request.split_once("upstream: ").unwrap_or_default().1;
    let upstream = upstream.split(", host: ").next().unwrap_or_default();
    let is_between = |c: char| c.is_whitespace() || "\"'`()<>,;=".contains(c);
    let words = text.split(is_between).chain(upstream.split(is_between));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut found: Vec<(Place, Address<'_>)> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (is_url, word) = word
            .split_once("://")
            .map_or((false, *word), |(_, rest)| (true, rest));
        let word = word.rsplit_once('@').map_or(word, |(_, rest)| rest);
        let word = word.split('/').next().unwrap_or_default();
        let word = word
            .trim_matches(['[', ']', '{', '}'])
            .trim_end_matches(['.', ':']);
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                match port.parse() {
                    Ok(port) => (host, Some(port)),
                    Err(_) => continue,
                }
            }
            // The last part of an IPv6 address is no port.
            _ => (word, None),
        };
        let host = host.trim_matches(['[', ']']);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || host.parse::<u16>().is_ok() {
            continue;
        }
        let before = at.checked_sub(1).map(|at| words[at].to_lowercase());
        let before = before.unwrap_or_default();
        // Also as the last part of a name: `java.net.UnknownHostException:`.
        let is_one_of = |word: &str, words: &str| {
            let word = word.rsplit('.').next().unwrap_or(word);
            words.split('|').any(|cue| cue == word)
        };
        let is_after = |words: &str| is_one_of(&before, words);
        let is_quoted = || {
            ['"', '\'', '`'].iter().any(|quote| {
                let mut quoted = line.split(*quote).skip(1).step_by(2);
                quoted.any(|text| text == host)
            })
        };
        // In `host name "db"` the name is the last word.
        let is_word = is_one_of(host, BEFORE_HOST) || is_one_of(&host.to_lowercase(), NO_HOST);
        let place = match port {
            // The engine's own DNS server.
            Some(_) if host == "127.0.0.11" => continue,
            None if is_word => continue,
            _ if is_after(ONLY_BEFORE_HOST) => Place::Certain,
            Some(_) if is_url || is_after(BEFORE_HOST) || is_after(BEFORE_PORT) => Place::Port,
            None if is_after(BEFORE_HOST) && is_quoted() => Place::Quoted,
            None if is_after(BEFORE_HOST) => Place::Possible,
            _ => continue,
        };
        found.push((place, (host, port)));
    }
    // The sort is stable.
    found.sort_by_key(|(place, _)| *place);
    let is_sure = found
        .first()
        .is_some_and(|(place, _)| *place < Place::Possible);
    (
        found.into_iter().map(|(_, address)| address).collect(),
        is_sure,
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::parsed;
    use super::*;

    #[test]
    fn error_messages_of_all_engines_are_recognized() {
        for row in include_str!("messages_cases.txt").lines() {
            let (cause, error) = row.split_once(": ").unwrap();
            let error = error
                .replace("OCI:", "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process:")
                .replace("DRIVER:", "driver failed programming external connectivity on endpoint b (32):");
            let finding = explain_start(&error, None);
            assert_eq!(Some(finding.cause), parsed(cause), "{error}");
            assert!(!finding.next_steps.is_empty() && finding.evidence[0].contains(&error));
        }
    }

    #[test]
    fn the_taken_port_is_named() {
        let error = "Bind for 0.0.0.0:18080 failed: port is already allocated";
        assert!(explain_start(error, None).summary.contains("0.0.0.0:18080"));
        let error = "listen tcp4 127.0.0.1:80: bind: address already in use";
        let finding = explain_start(error, None);
        assert!(finding.summary.contains("127.0.0.1:80"));
        assert!(
            finding.next_steps[0].contains("list_containers"),
            "nothing is known of others"
        );
        let mut holders = Facts::default();
        let json = r#"{"Id":"b","Names":["/web"],"Ports":[{"PublicPort":80}]}"#;
        holders.others.push(serde_json::from_str(json).unwrap());
        let bindings = serde_json::from_str(r#"{"80/tcp":[{"HostPort":"80"}]}"#).unwrap();
        holders.details.host_config.port_bindings = bindings;
        let finding = explain_start(error, Some(&holders));
        assert!(finding.next_steps[0].contains("Stop `web`"));
    }

    #[test]
    fn names_of_variables_are_whole_words() {
        for (line, expected) in [
            ("KeyError: 'DB_PASSWORD'", "DB_PASSWORD"),
            ("environment variable API_URL is not set", "API_URL"),
            ("/lib/x86_64-linux-gnu/libc.so.6: not found", ""),
            ("TypeError [ERR_INVALID_ARG_TYPE]: Expected", ""),
            ("aDB_URL DB_URLs 9_A", ""),
        ] {
            let found: Vec<_> = variables(line).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
    }

    /// `GLIBC_2` looks like a variable.
    #[test]
    fn only_a_line_about_variables_names_a_missing_one() {
        let named = |advice: &str| {
            let finding = Finding::named("running", &[]);
            let finding = named_variable(finding, "needs GLIBC_2.34", advice, &Facts::default());
            finding.evidence.join(" ").contains("GLIBC_2")
        };
        assert!(!named("Use another image."));
        assert!(named(
            "Correct the variable or the argument that the line names."
        ));
    }

    /// A line of a log is no count of the kernel.
    #[test]
    fn word_of_a_shell_is_no_measured_kill() {
        let mut facts = Facts {
            log: LogTail::Text("sh: start\nKilled\n".to_owned()),
            ..Facts::default()
        };
        facts.details.state.status = "running".to_owned();
        assert!(limits_reached(&facts).is_none(), "it has no limit");
        facts.details.host_config.memory = 64 << 20;
        let finding = limits_reached(&facts).unwrap();
        let [evidence] = &finding.evidence[..] else {
            panic!("{:?}", finding.evidence);
        };
        assert!(
            evidence.contains("`Killed`") && evidence.contains("64 MiB"),
            "{evidence}"
        );
        assert_eq!(finding.confidence, Confidence::Low);
    }

    /// A message, and the host and port that it names.
    const MESSAGES: &str = "\
        FATAL: cannot connect to db:5432: connection refused -> db 5432
        dial tcp: lookup db on 127.0.0.11:53: no such host -> db
        getaddrinfo ENOTFOUND db -> db
        wget: bad address 'db' -> db
        psql: could not translate host name \"db\" to address: x -> db
        curl: (6) Could not resolve host: db -> db
        java.net.UnknownHostException: db -> db
        connect to postgres://u:p@db:5432/x failed -> db 5432
        connect ECONNREFUSED 127.0.0.1:6379 -> 127.0.0.1 6379
        dial tcp [::1]:5432: connect: connection refused -> ::1 5432
        connection to server at \"localhost\" (::1), port 5432 failed: Connection refused -> localhost
        nginx: [emerg] host not found in upstream \"api\" in /etc/nginx/x.conf:3 -> api
        (node:33) UnhandledPromiseRejectionWarning: Error: getaddrinfo ENOTFOUND db -> db
        [pid:9] worker:1 app.js:33 12:00:01 could not resolve host -> ?
        at node:internal/dns:1 server.js:7: EAI_AGAIN -> ?
        dial tcp: lookup db on 10.0.0.2:53: no such host -> db
        wget: bad address 'db:80' -> db 80
        MongoNetworkError: failed to connect to server [db:27017] on first connect -> db 27017
        connect() failed (111: Connection refused) while connecting to upstream, client: 10.0.0.9:7, server: x, request: \"GET /\", upstream: \"http://10.0.0.5:80/\", host: \"localhost:8080\" -> 10.0.0.5 80
        api could not be resolved (3: Host not found), client: 10.0.0.9, server: x, host: \"localhost:8080\" -> ?
        could not resolve the host of this -> ?
        DNS lookup failed: no such host -> ?
        Host not found -> ?
        connection refused -> ?";

    #[test]
    fn addresses_are_found_in_messages_of_many_libraries() {
        for row in MESSAGES.lines() {
            let (line, expected) = row.split_once(" -> ").unwrap();
            let (found, is_sure) = addresses(line.trim());
            let found = found.first().filter(|_| is_sure);
            let found = found.map(|(host, port)| match port {
                Some(port) => format!("{host} {port}"),
                None => (*host).to_owned(),
            });
            assert_eq!(found.as_deref().unwrap_or("?"), expected, "{line}");
        }
    }
}
