//! `cargo xtask run-all`: from nothing to servers that answer, and back to nothing.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args::Options;
use crate::cargo;
use crate::console::{line, say};
use crate::discover::Source;
use crate::gateway::{self, Gateway};
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::Process;
use crate::servers::{self, SERVERS, Server};
use crate::table;

/// How long a server may take to notice that its service is there.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile: it counts its requests.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// A server and its service.
struct Part {
    server: &'static Server,
    source: Source,
    front: Option<Process>,
    backend: Option<Process>,
    // After the processes: they have to be gone when the instance is given back.
    instance: Instance,
}

impl Part {
    fn say(&self, text: impl Display) {
        say(self.server.name, text);
    }
}

/// Runs until Ctrl-C.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let mut parts = find_parts(layout, options);
    if parts.is_empty() {
        line("nothing to run");
        return Ok(ExitCode::FAILURE);
    }
    announce(layout, &parts);
    let result = bring_up(layout, options.release, &mut parts);
    let mut gateway = None;
    if result.is_ok() && !layout.stop.requested() {
        // The servers are of use without the gateway, so that its failure is only told.
        let servers = parts.iter().map(|part| part.server);
        let started = gateway::start(layout, &layout.binaries(options.release), servers);
        gateway = started
            .map_err(|error| say(gateway::NAME, format_args!("left out: {error:#}")))
            .ok();
        report(layout, &parts, gateway.is_some());
        watch(layout, &mut parts, &mut gateway);
    }
    stop_all(parts, gateway);
    result.map(|()| ExitCode::SUCCESS)
}

fn find_parts(layout: &Layout, options: &Options) -> Vec<Part> {
    let all = SERVERS
        .iter()
        .filter(|_| options.only.is_empty())
        .chain(options.only.iter().copied());
    let found = all.map(|server| {
        find_part(layout, server, !options.no_local)
            .map_err(|error| say(server.name, format_args!("left out: {error:#}")))
    });
    found.flatten().collect()
}

fn find_part(layout: &Layout, server: &'static Server, may_start: bool) -> anyhow::Result<Part> {
    // Before looking around: what a killed run left running is not the user's.
    let instance = Instance::take(layout, server.name, Purpose::RunAll, server.default_port)?;
    let Server { port, program, .. } = server;
    if !servers::port_is_free(*port) {
        bail!("port {port} is in use, and {program} needs it; end what listens there");
    }
    Ok(Part {
        server,
        source: Source::find(layout, server, &instance, may_start),
        front: None,
        backend: None,
        instance,
    })
}

/// Says what is used, what is missing, and what will be fetched and how large that is.
fn announce(layout: &Layout, parts: &[Part]) {
    for part in parts {
        let shown = part.source.shown();
        match (&part.source, part.server.service.to_fetch(layout)) {
            (Source::Configured(_) | Source::Found(_), _) => {
                part.say(format_args!("using {shown}"));
            }
            (Source::Local(_), Some(what)) => part.say(format_args!("will fetch {what}, once")),
            (Source::Local(_), None) => part.say(format_args!("will start {shown}")),
            (Source::Missing(_), _) => {}
        }
        if let Some(advice) = part.source.advice(part.server) {
            part.say(advice);
        }
    }
}

/// Builds and starts the servers while the local services are fetched and started.
fn bring_up(layout: &Layout, release: bool, parts: &mut [Part]) -> anyhow::Result<()> {
    let (report, started) = mpsc::channel();
    let (fronts, backends) = thread::scope(|scope| {
        for (index, part) in parts.iter().enumerate() {
            if matches!(part.source, Source::Local(_)) {
                let report = report.clone();
                scope.spawn(move || {
                    let service = part.server.service;
                    let process = service
                        .install(layout)
                        .and_then(|()| service.start(layout, &part.instance));
                    // Nobody listens any more when the servers could not be started.
                    let _ = report.send((index, process));
                });
            }
        }
        drop(report);
        let fronts = build(layout, release, parts)
            .and_then(|()| start_servers(layout, release, parts))
            // The services are of no use alone.
            .inspect_err(|_| layout.stop.request())?;
        let mut backends = Vec::new();
        for (index, process) in started {
            match process {
                Ok(process) => {
                    parts[index].say("ready");
                    backends.push((index, process));
                }
                Err(_) if layout.stop.requested() => {}
                Err(error) => parts[index].say(format_args!("not started: {error:#}")),
            }
        }
        anyhow::Ok((fronts, backends))
    })?;
    for (part, front) in parts.iter_mut().zip(fronts) {
        part.front = Some(front);
    }
    for (index, backend) in backends {
        parts[index].backend = Some(backend);
    }
    Ok(())
}

fn build(layout: &Layout, release: bool, parts: &[Part]) -> anyhow::Result<()> {
    line("building the servers …");
    let mut words = format!("build --quiet --package {}", gateway::PROGRAM);
    for part in parts {
        words.push_str(" --package ");
        words.push_str(part.server.program);
    }
    if release {
        words.push_str(" --release");
    }
    if !cargo::run(layout, &words, &[])? {
        bail!("the servers do not build");
    }
    Ok(())
}

fn start_servers(layout: &Layout, release: bool, parts: &[Part]) -> anyhow::Result<Vec<Process>> {
    let binaries = layout.binaries(release);
    let start = |part: &Part| {
        let local = part.source.environment(part.server, &part.instance);
        part.server.start(&binaries, &part.instance, local)
    };
    let running: Vec<_> = parts.iter().map(start).collect::<anyhow::Result<_>>()?;
    for Part { server, .. } in parts {
        servers::announce(layout, server.name, server.program, server.port);
    }
    Ok(running)
}

fn report(layout: &Layout, parts: &[Part], has_gateway: bool) {
    let states: Vec<_> = parts
        .iter()
        .map(|part| settled_status(layout, part))
        .collect();
    let mut rows = vec![["server", "URL", "service", "state"].map(str::to_owned)];
    let mut push = |program: &str, port, service, state: Option<String>| {
        let state = state.unwrap_or_else(|| "not running".to_owned());
        rows.push([program.to_owned(), servers::url(port), service, state]);
    };
    for (Part { server, source, .. }, state) in parts.iter().zip(&states) {
        push(server.program, server.port, source.shown(), state.clone());
    }
    if has_gateway {
        let state = servers::status(gateway::PORT);
        push(
            gateway::PROGRAM,
            gateway::PORT,
            "all of them".to_owned(),
            state,
        );
    }
    line(format_args!("\n{}", table::render(&rows)));

    let is_online = |state: &Option<String>| state.as_deref() == Some("online");
    let online = states.iter().position(is_online);
    match online.or_else(|| states.iter().position(Option::is_some)) {
        Some(best) => {
            let curl = servers::curl(&parts[best].server.url());
            line(format_args!("{curl}\n"));
        }
        None => line("no server answers; the lines above say why\n"),
    }
    line("Ctrl-C stops what was started here.\n");
}

/// Returns the server's state; a service that has just come up is given time to be noticed.
fn settled_status(layout: &Layout, part: &Part) -> Option<String> {
    let is_there = matches!(part.source, Source::Configured(_) | Source::Found(_));
    let timeout = if is_there || part.backend.is_some() {
        NOTICE_TIMEOUT
    } else {
        Duration::ZERO
    };
    let mut status = servers::status(part.server.port);
    let mut next = Instant::now() + STATUS_INTERVAL;
    layout.stop.wait_until(timeout, || {
        if Instant::now() >= next {
            status = servers::status(part.server.port);
            next = Instant::now() + STATUS_INTERVAL;
        }
        status.as_deref() == Some("online")
    });
    status
}

/// Waits for Ctrl-C; says so when something ends on its own.
fn watch(layout: &Layout, parts: &mut [Part], gateway: &mut Option<Gateway>) {
    while !layout.stop.requested() {
        if gateway
            .as_mut()
            .is_some_and(|gateway| gateway.process.ended())
        {
            say(gateway::NAME, "has ended by itself");
            *gateway = None;
        }
        for part in parts.iter_mut() {
            for (what, process) in [
                ("its server", &mut part.front),
                ("its service", &mut part.backend),
            ] {
                if process.as_mut().is_some_and(Process::ended) {
                    let text = format_args!("{what} has ended by itself");
                    say(part.server.name, text);
                    *process = None;
                }
            }
        }
        layout.stop.wait_until(Duration::from_secs(1), || false);
    }
}

/// Stops from the front to the back, so that nobody complains about a service that goes away.
fn stop_all(mut parts: Vec<Part>, gateway: Option<Gateway>) {
    line("\nstopping …");
    drop(gateway);
    for field in [
        |part: &mut Part| part.front.take(),
        |part: &mut Part| part.backend.take(),
    ] {
        let mut processes: Vec<_> = parts.iter_mut().filter_map(field).collect();
        processes.iter_mut().for_each(Process::ask_to_end);
        drop(processes);
    }
    line("everything that was started here is stopped");
}
