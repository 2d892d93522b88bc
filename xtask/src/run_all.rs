//! `cargo xtask run-all`: from nothing to servers that answer, and back to nothing.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args::RunAll;
use crate::chores;
use crate::console::{line, say};
use crate::discover::Source;
use crate::gateway;
use crate::layout::Layout;
use crate::process::Process;
use crate::servers;
use crate::services::{Place, Purpose, Service};
use crate::table;

/// How long a server may take to notice that its service is there.
const NOTICE: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(500);

struct Part {
    service: Service,
    source: Source,
    server: Option<Process>,
    backend: Option<Process>,
    // After the processes: they have to be gone when the place is given back.
    place: Place,
}

impl Part {
    fn say(&self, text: impl Display) {
        say(self.service.name(), text);
    }
}

/// Runs until Ctrl-C.
pub(crate) fn run(layout: &Layout, options: &RunAll) -> anyhow::Result<ExitCode> {
    let mut parts = find_parts(layout, options);
    if parts.is_empty() {
        line("nothing to run");
        return Ok(ExitCode::FAILURE);
    }
    announce(layout, &parts);
    let result = bring_up(layout, options, &mut parts);
    let mut front = None;
    if result.is_ok() && !layout.stop.requested() {
        front = start_gateway(layout, options, &parts);
        report(layout, &parts, front.is_some());
        watch(layout, &mut parts, &mut front);
    }
    stop_all(parts, front);
    result.map(|()| ExitCode::SUCCESS)
}

fn find_parts(layout: &Layout, options: &RunAll) -> Vec<Part> {
    let mut parts = Vec::new();
    for &service in &options.services {
        match find_part(layout, service, options.local) {
            Ok(part) => parts.push(part),
            Err(error) => say(service.name(), format_args!("left out: {error:#}")),
        }
    }
    parts
}

fn find_part(layout: &Layout, service: Service, local: bool) -> anyhow::Result<Part> {
    // Before looking around: what a killed run left running is not the user's.
    let place = Place::take(layout, service, Purpose::RunAll)?;
    if !servers::port_is_free(service) {
        let (port, server) = (service.port(), service.server());
        bail!("port {port} is in use, and {server} needs it; end what listens there");
    }
    let source = Source::find(layout, service, &place, local);
    Ok(Part {
        service,
        source,
        server: None,
        backend: None,
        place,
    })
}

/// Says what is used, what is missing, and what will be fetched and how large that is.
fn announce(layout: &Layout, parts: &[Part]) {
    for part in parts {
        let shown = part.source.shown();
        match (&part.source, part.service.to_fetch(layout)) {
            (Source::Configured(_) | Source::Found(_), _) => {
                part.say(format_args!("using {shown}"));
            }
            (Source::Local(_), Some(what)) => part.say(format_args!("will fetch {what}, once")),
            (Source::Local(_), None) => part.say(format_args!("will start {shown}")),
            (Source::Missing(_), _) => {}
        }
        if let Some(advice) = part.source.advice(part.service) {
            part.say(advice);
        }
    }
}

/// Builds and starts the servers while the local services are fetched and started.
fn bring_up(layout: &Layout, options: &RunAll, parts: &mut [Part]) -> anyhow::Result<()> {
    let (report, started) = mpsc::channel();
    let (running, backends) = thread::scope(|scope| {
        for (index, part) in parts.iter().enumerate() {
            if matches!(part.source, Source::Local(_)) {
                let report = report.clone();
                scope.spawn(move || {
                    let process = part.service.install(layout);
                    let process = process.and_then(|()| part.service.start(layout, &part.place));
                    // Nobody listens any more when the servers could not be started.
                    let _ = report.send((index, process));
                });
            }
        }
        drop(report);
        let servers = build(layout, options, parts)
            .and_then(|()| start_servers(layout, options, parts))
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
        anyhow::Ok((servers, backends))
    })?;
    for (part, server) in parts.iter_mut().zip(running) {
        part.server = Some(server);
    }
    for (index, backend) in backends {
        parts[index].backend = Some(backend);
    }
    Ok(())
}

fn build(layout: &Layout, options: &RunAll, parts: &[Part]) -> anyhow::Result<()> {
    line("building the servers …");
    let mut args = vec!["build", "--quiet"];
    if options.release {
        args.push("--release");
    }
    for part in parts {
        args.extend(["--package", part.service.server()]);
    }
    args.extend(["--package", gateway::SERVER]);
    if chores::cargo(layout, &args, &[])? {
        Ok(())
    } else {
        bail!("the servers do not build")
    }
}

fn start_servers(
    layout: &Layout,
    options: &RunAll,
    parts: &[Part],
) -> anyhow::Result<Vec<Process>> {
    let start = |part: &Part| {
        servers::start(
            layout,
            part.service,
            options.release,
            &part.source,
            &part.place,
        )
    };
    let running = parts
        .iter()
        .map(start)
        .collect::<anyhow::Result<Vec<_>>>()?;
    for part in parts {
        let up = || servers::status(part.service).is_some();
        let answers = layout.stop.wait_until(Duration::from_secs(5), up);
        let verb = if answers {
            "answers"
        } else {
            "does not answer"
        };
        let (server, url) = (part.service.server(), servers::url(part.service));
        part.say(format_args!("{server} {verb} on {url}"));
    }
    Ok(running)
}

/// The servers are of use without the gateway, so that its failure is only told.
fn start_gateway(layout: &Layout, options: &RunAll, parts: &[Part]) -> Option<Process> {
    let services: Vec<Service> = parts.iter().map(|part| part.service).collect();
    match gateway::start(layout, options.release, &services) {
        Ok(process) => process,
        Err(error) => {
            say(gateway::NAME, format_args!("not started: {error:#}"));
            None
        }
    }
}

fn report(layout: &Layout, parts: &[Part], has_gateway: bool) {
    let states: Vec<_> = parts
        .iter()
        .map(|part| settled_status(layout, part))
        .collect();
    let mut rows = vec![["server", "URL", "service", "state"].map(str::to_owned)];
    for (part, state) in parts.iter().zip(&states) {
        let (server, url) = (part.service.server().to_owned(), servers::url(part.service));
        let state = state.clone().unwrap_or_else(|| "not running".to_owned());
        rows.push([server, url, part.source.shown(), state]);
    }
    if has_gateway {
        let state = servers::status_at(gateway::PORT).unwrap_or_else(|| "not running".to_owned());
        let (server, service) = (gateway::SERVER.to_owned(), "all of them".to_owned());
        rows.push([server, gateway::url(), service, state]);
    }
    line(format_args!("\n{}", table::render(&rows)));

    let online = states
        .iter()
        .position(|state| state.as_deref() == Some("online"));
    match online.or_else(|| states.iter().position(Option::is_some)) {
        Some(best) => line(format_args!(
            "{}\n",
            servers::curl(&servers::url(parts[best].service))
        )),
        None => line("no server answers; the lines above say why\n"),
    }
    line("Ctrl-C stops what was started here.\n");
}

/// The server's state; a service that has just come up is given time to be noticed.
fn settled_status(layout: &Layout, part: &Part) -> Option<String> {
    let there = matches!(part.source, Source::Configured(_) | Source::Found(_));
    let limit = if there || part.backend.is_some() {
        NOTICE
    } else {
        Duration::ZERO
    };
    let mut status = servers::status(part.service);
    let mut next = Instant::now() + ASK_EVERY;
    layout.stop.wait_until(limit, || {
        // Not at every look: the server counts its requests.
        if Instant::now() >= next {
            status = servers::status(part.service);
            next = Instant::now() + ASK_EVERY;
        }
        status.as_deref() == Some("online")
    });
    status
}

/// Until Ctrl-C; says so when something ends on its own.
fn watch(layout: &Layout, parts: &mut [Part], front: &mut Option<Process>) {
    while !layout.stop.requested() {
        if front.as_mut().is_some_and(Process::ended) {
            say(gateway::NAME, "has ended by itself");
            *front = None;
        }
        for part in parts.iter_mut() {
            for (what, process) in [
                ("its server", &mut part.server),
                ("its service", &mut part.backend),
            ] {
                if process.as_mut().is_some_and(Process::ended) {
                    say(
                        part.service.name(),
                        format_args!("{what} has ended by itself"),
                    );
                    *process = None;
                }
            }
        }
        layout.stop.wait_until(Duration::from_secs(1), || false);
    }
}

/// From the front to the back, so that nobody complains about a service that goes away.
fn stop_all(mut parts: Vec<Part>, mut front: Option<Process>) {
    line("\nstopping …");
    front.iter_mut().for_each(Process::ask_to_end);
    drop(front);
    for field in [
        |part: &mut Part| part.server.take(),
        |part: &mut Part| part.backend.take(),
    ] {
        let mut processes: Vec<_> = parts.iter_mut().filter_map(field).collect();
        processes.iter_mut().for_each(Process::ask_to_end);
        drop(processes);
    }
    line("everything that was started here is stopped");
}
