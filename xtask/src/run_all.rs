//! `cargo xtask run-all`: starts the servers and their services, and stops them at Ctrl-C.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args::Options;
use crate::console::{Heartbeat, table};
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::{Process, Program};
use crate::servers::{self, Gateway, SERVERS, Server, ServiceSource};

/// The server that is built and started before the others: its service is there in seconds.
const FIRST: &str = "docker";

/// The time in which a server must notice that its service is up.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);

/// The time in which servers usually answer after their start.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of the calls for a server's status, which it counts as requests.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// More than the installation of any service takes.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(7200);

struct Pair {
    server: &'static Server,
    source: ServiceSource,
    server_process: Option<Process>,
    service_process: Option<Process>,
    /// The local service, once it is up, or `None` once it is known that there is none.
    service: OnceLock<Option<Process>>,
    // After the processes, which must end before the instance is unlocked.
    instance: Instance,
}

pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let mut pairs = find_pairs(layout, options);
    if pairs.is_empty() {
        print_line!("nothing to run");
        return Ok(ExitCode::FAILURE);
    }
    announce(layout, &pairs);
    let mut gateway = None;
    let result = start_all(layout, options.has("release"), &mut pairs, &mut gateway);
    if result.is_ok() && !layout.shutdown.requested() {
        report(&pairs, gateway.is_some());
        watch(layout, &mut pairs, &mut gateway);
    }
    stop_all(pairs, gateway);
    result.map(|()| ExitCode::SUCCESS)
}

fn find_pairs(layout: &Layout, options: &Options) -> Vec<Pair> {
    let all = SERVERS.iter().filter(|_| options.only.is_empty());
    let found = all.chain(options.only.iter().copied()).map(|server| {
        find_pair(layout, server, !options.has("no-local"))
            .map_err(|error| print_as!(server.name, "left out: {error:#}"))
    });
    let mut pairs: Vec<_> = found.flatten().collect();
    pairs.sort_by_key(|pair| pair.server.name != FIRST);
    pairs
}

fn find_pair(layout: &Layout, server: &'static Server, may_start: bool) -> anyhow::Result<Pair> {
    // Before the search: a service that a killed run has left is not the user's.
    let instance = Instance::lock(layout, server.name, Purpose::RunAll, server.default_port())?;
    let Server { port, program, .. } = server;
    if !servers::port_is_free(*port) {
        bail!("port {port} is in use, and {program} needs it; end the program that listens there");
    }
    Ok(Pair {
        server,
        source: ServiceSource::find(layout, server, &instance, may_start),
        server_process: None,
        service_process: None,
        service: OnceLock::new(),
        instance,
    })
}

/// Prints which services are used, missing, or downloaded and how large that is.
fn announce(layout: &Layout, pairs: &[Pair]) {
    for Pair { server, source, .. } in pairs {
        let shown = source.shown();
        let text = match (source, server.service.to_fetch(layout)) {
            (ServiceSource::Configured(_) | ServiceSource::Found(_), _) => format!("using {shown}"),
            (ServiceSource::Local(_), Some(what)) => format!("will download {what}, once"),
            (ServiceSource::Local(_), None) => format!("will start {shown}"),
            (ServiceSource::Missing(_), _) => String::new(),
        };
        let lines = [text].into_iter().chain(source.advice(server));
        lines
            .filter(|line| !line.is_empty())
            .for_each(|line| print_as!(server.name, "{}", line));
    }
}

/// Builds and starts the servers while the local services are installed and started. The first server
/// answers while the others are built, and each is announced when it is ready.
fn start_all(
    layout: &Layout,
    release: bool,
    pairs: &mut [Pair],
    gateway: &mut Option<Gateway>,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let shared: &[Pair] = pairs;
    let servers = thread::scope(|scope| {
        for pair in shared {
            scope.spawn(move || pair.service.set(start_service(layout, pair)));
        }
        let mut running = Vec::new();
        let (first, others) = shared.split_at(1);
        let start = |pairs: &'_ [Pair], running: &mut Vec<Option<Process>>| -> anyhow::Result<()> {
            for pair in pairs {
                running.push(Some(start_server(layout, release, pair)?));
            }
            Ok(())
        };
        let mut programs: Vec<_> = shared.iter().map(|pair| pair.server.program).collect();
        if !others.is_empty() {
            programs.push(Gateway::PROGRAM);
        }
        let started = build(layout, release, &programs, &programs[..1])
            .and_then(|()| start(first, &mut running))
            .map(|()| scope.spawn(move || announce_ready(layout, release, &first[0], begun)));
        let started = started.and_then(|_| {
            if others.is_empty() {
                return Ok(());
            }
            build(layout, release, &programs, &programs[1..])?;
            start(others, &mut running)?;
            for pair in others {
                scope.spawn(move || announce_ready(layout, release, pair, begun));
            }
            // Else the gateway warns of each that does not answer yet, and calls it again a second later.
            layout.shutdown.wait_until(ANSWER_TIMEOUT, || {
                shared
                    .iter()
                    .all(|pair| servers::status(pair.server.port).is_some())
            });
            // The servers are useful without the gateway, so its failure is only reported.
            let servers = shared.iter().map(|pair| pair.server);
            *gateway = Gateway::start(layout, &layout.binaries(release), servers)
                .map_err(|error| print_as!(Gateway::NAME, "left out: {error:#}"))
                .ok();
            Ok(())
        });
        // The services alone are useless.
        started.inspect_err(|_| layout.shutdown.request())?;
        // A download may take an hour; the servers answer meanwhile.
        layout.shutdown.wait_until(SERVICE_TIMEOUT, || {
            for (pair, server) in shared.iter().zip(&mut running) {
                tell_if_ended(pair.server.name, "its server", server);
            }
            shared.iter().all(|pair| pair.service.get().is_some())
        });
        anyhow::Ok(running)
    });
    for pair in pairs.iter_mut() {
        pair.service_process = pair.service.take().flatten();
    }
    for (pair, server) in pairs.iter_mut().zip(servers?) {
        pair.server_process = server;
    }
    Ok(())
}

/// Starts the local service of a pair, if it has one.
fn start_service(layout: &Layout, pair: &Pair) -> Option<Process> {
    if !matches!(pair.source, ServiceSource::Local(_)) {
        return None;
    }
    let Server { name, service, .. } = pair.server;
    let installed = service.install(layout);
    match installed.and_then(|()| service.start(layout, &pair.instance)) {
        Ok(process) => {
            print_as!(name, "its service is up");
            return Some(process);
        }
        Err(_) if layout.shutdown.requested() => {}
        Err(error) => print_as!(name, "not started: {error:#}"),
    }
    None
}

/// Builds some of these programs. With the features that all of them need, so that what they share is built once.
fn build(layout: &Layout, release: bool, all: &[&str], some: &[&str]) -> anyhow::Result<()> {
    let profile = if release { "--release" } else { "" };
    let words = format!(
        "build --quiet {profile} --package {} --bin {}",
        all.join(" --package "),
        some.join(" --bin ")
    );
    let heartbeat = Heartbeat::start("build", some.join(", "));
    let cargo = Program::new("cargo")?.words(&words).dir(&layout.root);
    if !cargo.succeeds(&layout.shutdown, Some(heartbeat))? {
        bail!("{} does not build", some.join(", "));
    }
    Ok(())
}

fn start_server(layout: &Layout, release: bool, pair: &Pair) -> anyhow::Result<Process> {
    let is_local = matches!(pair.source, ServiceSource::Local(_));
    let local = is_local.then(|| (pair.server.local)(&pair.instance));
    let binaries = layout.binaries(release);
    pair.server.start(&binaries, &pair.instance, local)
}

/// Waits until the server answers, then until its service is up, and prints a call to try.
fn announce_ready(layout: &Layout, release: bool, pair: &Pair, begun: Instant) {
    let Server {
        name,
        program,
        port,
        ..
    } = pair.server;
    if !servers::announce(layout, name, program, *port) {
        return;
    }
    let status = settled_status(layout, pair);
    if layout.shutdown.requested() {
        return;
    }
    match status.as_deref() {
        Some("online") => {
            let seconds = begun.elapsed().as_secs();
            let curl = servers::curl(*port, pair.server.first_call);
            let connect = servers::connect(layout, release, program, *port);
            print_as!(
                name,
                "{program} is online after {seconds} s. Try it:\n\n{curl}\n\nConnect Claude Code to it (--dry-run shows \
                 the change, --undo takes it back):\n\n{connect}\n"
            );
        }
        Some(status) => print_as!(name, "{program} is {status}; GET /readyz says why"),
        None => {}
    }
}

fn report(pairs: &[Pair], has_gateway: bool) {
    let row = |program: &str, port: u16, service: String| {
        let status = servers::status(port).unwrap_or_else(|| "not running".to_owned());
        [program.to_owned(), servers::url(port), service, status]
    };
    let mut rows = vec![["server", "URL", "service", "state"].map(str::to_owned)];
    for Pair { server, source, .. } in pairs {
        rows.push(row(server.program, server.port, source.shown()));
    }
    if has_gateway {
        rows.push(row(
            Gateway::PROGRAM,
            Gateway::PORT,
            "all of them".to_owned(),
        ));
    }
    print_line!("\n{}", table(&rows));
    if has_gateway {
        let curl = servers::curl(Gateway::PORT, Gateway::FIRST_CALL);
        print_line!("The state of all of them, from the gateway:\n\n{curl}\n");
    }
    let page = servers::page(match has_gateway {
        true => Gateway::PORT,
        false => pairs[0].server.port,
    });
    let how = match servers::has_token() {
        true => "; sign in with the token",
        false => "",
    };
    print_line!("The page, for a browser{how}: {page}\n");
    print_line!("Ctrl-C stops everything that was started here.\n");
}

/// Returns the server's status, after its service was started and it had time to notice that.
fn settled_status(layout: &Layout, pair: &Pair) -> Option<String> {
    let (mut status, mut next, mut end) = (None, Instant::now(), None);
    layout.shutdown.wait_until(SERVICE_TIMEOUT, || {
        let now = Instant::now();
        if now >= next {
            status = servers::status(pair.server.port);
            next = now + STATUS_INTERVAL;
        }
        if let Some(service) = pair.service.get() {
            let is_up = match pair.source {
                ServiceSource::Configured(_) | ServiceSource::Found(_) => true,
                _ => service.is_some(),
            };
            let timeout = if is_up {
                NOTICE_TIMEOUT
            } else {
                Duration::ZERO
            };
            end.get_or_insert(now + timeout);
        }
        status.as_deref() == Some("online") || end.is_some_and(|end| now >= end)
    });
    status
}

/// Waits for Ctrl-C; prints a line when a process ends by itself.
fn watch(layout: &Layout, pairs: &mut [Pair], gateway: &mut Option<Gateway>) {
    while !layout.shutdown.requested() {
        if gateway
            .as_mut()
            .is_some_and(|gateway| gateway.process.ended())
        {
            print_as!(Gateway::NAME, "has ended by itself");
            *gateway = None;
        }
        for pair in pairs.iter_mut() {
            let name = pair.server.name;
            tell_if_ended(name, "its server", &mut pair.server_process);
            tell_if_ended(name, "its service", &mut pair.service_process);
        }
        layout.shutdown.wait_until(Duration::from_secs(1), || false);
    }
}

/// Prints a line if this process of a pair has ended by itself, once.
fn tell_if_ended(name: &str, what: &str, process: &mut Option<Process>) {
    if process.as_mut().is_some_and(Process::ended) {
        print_as!(name, "{what} has ended by itself");
        *process = None;
    }
}

/// Stops the gateway, then the servers, then the services, so that no server reports a lost service.
fn stop_all(mut pairs: Vec<Pair>, gateway: Option<Gateway>) {
    print_line!("\nstopping …");
    drop(gateway);
    for field in [
        |pair: &mut Pair| pair.server_process.take(),
        |pair: &mut Pair| pair.service_process.take(),
    ] {
        let mut processes: Vec<_> = pairs.iter_mut().filter_map(field).collect();
        processes.iter_mut().for_each(Process::ask_to_end);
        drop(processes);
    }
    print_line!("everything that was started here is stopped");
}
