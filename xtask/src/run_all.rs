//! `cargo xtask run-all`: from nothing to servers that answer, and back to nothing.

use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::args::RunAll;
use crate::chores;
use crate::console::{line, say};
use crate::discover::Source;
use crate::layout::Layout;
use crate::process::Process;
use crate::servers;
use crate::services::Service;
use crate::table;

/// How long a server may take to notice that its service is there.
const NOTICE: Duration = Duration::from_secs(20);

struct Part {
    service: Service,
    source: Source,
    server: Option<Process>,
    backend: Option<Process>,
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
    if result.is_ok() && !layout.stop.requested() {
        report(&parts);
        watch(layout, &mut parts);
    }
    stop_all(parts);
    result.map(|()| ExitCode::SUCCESS)
}

fn find_parts(layout: &Layout, options: &RunAll) -> Vec<Part> {
    let mut parts = Vec::new();
    for &service in &options.services {
        if !servers::port_is_free(service) {
            let (server, port) = (service.server(), service.port());
            say(
                service.name(),
                format_args!(
                    "port {port} is in use, so {server} is left out; end what listens there and start again"
                ),
            );
            continue;
        }
        let source = Source::find(layout, service, options.local);
        parts.push(Part {
            service,
            source,
            server: None,
            backend: None,
        });
    }
    parts
}

/// Says what is used, what is missing, and what will be fetched and how large that is.
fn announce(layout: &Layout, parts: &[Part]) {
    for Part {
        service, source, ..
    } in parts
    {
        let name = service.name();
        match source {
            Source::Configured(_) | Source::Found(_) => {
                say(name, format_args!("using {}", source.shown(*service)))
            }
            Source::Local(_) => match service.to_fetch(layout) {
                Some(what) => say(name, format_args!("will fetch {what}, once")),
                None => say(
                    name,
                    format_args!("will start {}, fetched earlier", source.shown(*service)),
                ),
            },
            Source::Missing(_) => {}
        }
        if let Some(advice) = source.advice(*service) {
            say(name, advice);
        }
    }
}

/// Builds and starts the servers while the local services are fetched and started.
fn bring_up(layout: &Layout, options: &RunAll, parts: &mut [Part]) -> anyhow::Result<()> {
    let (ready, started) = mpsc::channel();
    thread::scope(|scope| {
        for (
            index,
            Part {
                service, source, ..
            },
        ) in parts.iter().enumerate()
        {
            if let Source::Local(place) = source {
                let ready = ready.clone();
                scope.spawn(move || {
                    let process = service
                        .install(layout)
                        .and_then(|()| service.start(layout, place));
                    ready.send((index, process))
                });
            }
        }
        drop(ready);
        let servers =
            build(layout, options, parts).and_then(|()| start_servers(layout, options, parts));
        if servers.is_err() {
            // The services are of no use alone.
            layout.stop.request();
        }
        let running = servers?;
        let mut backends = Vec::new();
        for (index, process) in started {
            let name = parts[index].service.name();
            match process {
                Ok(process) => {
                    say(name, "ready");
                    backends.push((index, process));
                }
                Err(_) if layout.stop.requested() => {}
                Err(error) => say(name, format_args!("not started: {error:#}")),
            }
        }
        Ok((running, backends))
    })
    .map(|(running, backends)| {
        for (index, server) in running {
            parts[index].server = Some(server);
        }
        for (index, backend) in backends {
            parts[index].backend = Some(backend);
        }
    })
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
    if chores::cargo(layout, &args, &[])? {
        Ok(())
    } else {
        anyhow::bail!("the servers do not build")
    }
}

fn start_servers(
    layout: &Layout,
    options: &RunAll,
    parts: &[Part],
) -> anyhow::Result<Vec<(usize, Process)>> {
    let mut running = Vec::new();
    for (
        index,
        Part {
            service, source, ..
        },
    ) in parts.iter().enumerate()
    {
        let env = source.environment(*service);
        running.push((
            index,
            servers::start(layout, *service, options.release, env, source.misleading())?,
        ));
    }
    for part in parts {
        let up = layout.stop.wait_until(Duration::from_secs(5), || {
            servers::status(part.service).is_some()
        });
        let (server, url) = (part.service.server(), servers::url(part.service));
        if up {
            say(
                part.service.name(),
                format_args!("{server} answers on {url}"),
            );
        } else {
            say(
                part.service.name(),
                format_args!("{server} does not answer on {url}"),
            );
        }
    }
    Ok(running)
}

fn report(parts: &[Part]) {
    let mut rows = vec![["server", "URL", "service", "state"].map(str::to_owned)];
    let mut example = None;
    for part in parts {
        let state = settled_status(part);
        if state == "online" || example.is_none() {
            example = example
                .filter(|(_, online)| *online)
                .or(Some((part.service, state == "online")));
        }
        rows.push([
            part.service.server().to_owned(),
            servers::url(part.service),
            part.source.shown(part.service),
            state,
        ]);
    }
    line(format_args!("\n{}", table::render(&rows)));
    if let Some((service, _)) = example {
        line(format_args!("{}\n", servers::curl(service)));
    }
    line("Ctrl-C stops what was started here.\n");
}

/// The server's state; a service that has just come up is given time to be noticed.
fn settled_status(part: &Part) -> String {
    let expected =
        part.backend.is_some() || matches!(part.source, Source::Configured(_) | Source::Found(_));
    let limit = if expected { NOTICE } else { Duration::ZERO };
    let mut status = None;
    crate::stop::Stop::default().wait_until(limit, || {
        status = servers::status(part.service);
        status.as_deref() == Some("online")
    });
    status.unwrap_or_else(|| "not running".to_owned())
}

/// Until Ctrl-C; says so when something ends on its own.
fn watch(layout: &Layout, parts: &mut [Part]) {
    while !layout.stop.requested() {
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

/// The servers first, so that none of them complains about a service that goes away.
fn stop_all(mut parts: Vec<Part>) {
    line("\nstopping …");
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
