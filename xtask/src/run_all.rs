//! `cargo xtask run-all`: starts the servers and their services, and stops them at Ctrl-C.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args::Options;
use crate::cargo;
use crate::console::table;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::Process;
use crate::servers::{self, Gateway, SERVERS, Server, ServiceSource};

/// The time in which a server must notice that its service is up.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of the calls for a server's status, which it counts as requests.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

struct Pair {
    server: &'static Server,
    source: ServiceSource,
    server_process: Option<Process>,
    service_process: Option<Process>,
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
    let result = start_all(layout, options.has("release"), &mut pairs);
    let mut gateway = None;
    if result.is_ok() && !layout.shutdown.requested() {
        let servers = pairs.iter().map(|pair| pair.server);
        let binaries = layout.binaries(options.has("release"));
        // The servers are useful without the gateway, so its failure is only reported.
        gateway = Gateway::start(layout, &binaries, servers)
            .map_err(|error| print_as!(Gateway::NAME, "left out: {error:#}"))
            .ok();
        report(layout, &pairs, gateway.is_some());
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
    found.flatten().collect()
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

/// Builds and starts the servers while the local services are installed and started.
fn start_all(layout: &Layout, release: bool, pairs: &mut [Pair]) -> anyhow::Result<()> {
    let (servers, services) = thread::scope(|scope| {
        let start = |pair| scope.spawn(move || start_service(layout, pair));
        let services: Vec<_> = pairs.iter().map(start).collect();
        let servers = build(layout, release, pairs)
            .and_then(|()| start_servers(layout, release, pairs))
            // The services alone are useless.
            .inspect_err(|_| layout.shutdown.request());
        let services: Vec<_> = services.into_iter().map(|service| service.join()).collect();
        (servers, services)
    });
    for ((pair, server), service) in pairs.iter_mut().zip(servers?).zip(services) {
        pair.server_process = Some(server);
        pair.service_process = service.ok().flatten();
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
            print_as!(name, "ready");
            return Some(process);
        }
        Err(_) if layout.shutdown.requested() => {}
        Err(error) => print_as!(name, "not started: {error:#}"),
    }
    None
}

fn build(layout: &Layout, release: bool, pairs: &[Pair]) -> anyhow::Result<()> {
    print_line!("building the servers …");
    let programs = pairs.iter().map(|pair| pair.server.program);
    let programs: Vec<_> = programs.chain([Gateway::PROGRAM]).collect();
    let profile = if release { "--release" } else { "" };
    let words = format!(
        "build --quiet {profile} --package {}",
        programs.join(" --package ")
    );
    if !cargo::run(layout, &words, &[])? {
        bail!("the servers do not build");
    }
    Ok(())
}

fn start_servers(layout: &Layout, release: bool, pairs: &[Pair]) -> anyhow::Result<Vec<Process>> {
    let binaries = layout.binaries(release);
    let start = |pair: &Pair| {
        let is_local = matches!(pair.source, ServiceSource::Local(_));
        let local = is_local.then(|| (pair.server.local)(&pair.instance));
        pair.server.start(&binaries, &pair.instance, local)
    };
    let running: Vec<_> = pairs.iter().map(start).collect::<anyhow::Result<_>>()?;
    for Pair { server, .. } in pairs {
        servers::announce(layout, server.name, server.program, server.port);
    }
    Ok(running)
}

fn report(layout: &Layout, pairs: &[Pair], has_gateway: bool) {
    let row = |program: &str, port: u16, service: String, status: Option<String>| {
        let status = status.unwrap_or_else(|| "not running".to_owned());
        [program.to_owned(), servers::url(port), service, status]
    };
    let statuses = pairs.iter().map(|pair| settled_status(layout, pair));
    let statuses: Vec<_> = statuses.collect();
    let mut rows = vec![["server", "URL", "service", "state"].map(str::to_owned)];
    for (Pair { server, source, .. }, status) in pairs.iter().zip(&statuses) {
        rows.push(row(
            server.program,
            server.port,
            source.shown(),
            status.clone(),
        ));
    }
    if has_gateway {
        let status = servers::status(Gateway::PORT);
        let all = "all of them".to_owned();
        rows.push(row(Gateway::PROGRAM, Gateway::PORT, all, status));
    }
    print_line!("\n{}", table(&rows));

    let is_online = |status: &Option<String>| status.as_deref() == Some("online");
    let online = statuses.iter().position(is_online);
    match online.or_else(|| statuses.iter().position(Option::is_some)) {
        Some(best) => print_line!("{}", servers::curl(pairs[best].server.port) + "\n"),
        None => print_line!("no server answers; the lines above say why\n"),
    }
    print_line!("Ctrl-C stops everything that was started here.\n");
}

/// Returns the server's status, after it had time to notice a service that has just come up.
fn settled_status(layout: &Layout, pair: &Pair) -> Option<String> {
    let is_up = match pair.source {
        ServiceSource::Configured(_) | ServiceSource::Found(_) => true,
        _ => pair.service_process.is_some(),
    };
    let timeout = if is_up {
        NOTICE_TIMEOUT
    } else {
        Duration::ZERO
    };
    let mut status = servers::status(pair.server.port);
    let mut next = Instant::now() + STATUS_INTERVAL;
    layout.shutdown.wait_until(timeout, || {
        if Instant::now() >= next {
            status = servers::status(pair.server.port);
            next = Instant::now() + STATUS_INTERVAL;
        }
        status.as_deref() == Some("online")
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
            for (what, process) in [
                ("its server", &mut pair.server_process),
                ("its service", &mut pair.service_process),
            ] {
                if process.as_mut().is_some_and(Process::ended) {
                    print_as!(pair.server.name, "{what} has ended by itself");
                    *process = None;
                }
            }
        }
        layout.shutdown.wait_until(Duration::from_secs(1), || false);
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
