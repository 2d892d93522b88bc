//! `cargo xtask run-all`: starts the servers and their services, and stops them at Ctrl-C.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::console::{Heartbeat, table};
use crate::instance::{Instance, Purpose};
use crate::process::{Process, Program};
use crate::servers::{self, Gateway, SERVERS, Server, ServiceSource};
use crate::shutdown;

/// The server that is built and started before the others: its service is there in seconds.
const FIRST: &str = "docker";

/// The time in which a server must notice that its service is up.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of the calls for a server's status, which it counts as requests.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// The time in which new programs build on two cores.
const BUILD_TIME: Duration = Duration::from_secs(180);

/// More than the installation of any service takes.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(7200);

/// Build and start the servers with the gateway in front of them, and the services that they need.
///
/// Services are those configured in the environment (N8N_URL + N8N_API_KEY, OPENHANDS_URL + OPENHANDS_API_KEY,
/// DOCKER_HOST), those found at their default addresses, and local ones for the rest.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this service: n8n, openhands or docker (may be repeated, or a list separated by commas). `--only docker`
    /// answers first, and a single one has no gateway in front of it.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Start no local service.
    #[arg(long)]
    no_local: bool,
    /// Build optimised servers.
    #[arg(long)]
    release: bool,
}

struct Pair {
    server: &'static Server,
    source: ServiceSource,
    process: OnceLock<Process>,
    /// The local service, once it is up, or `None` once it is known that there is none.
    service: OnceLock<Option<Process>>,
    // After the processes, which must end before the instance is unlocked.
    instance: Instance,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut pairs = find_pairs(options)?;
    ensure!(!pairs.is_empty(), "nothing to run");
    // Which services are used, missing, or downloaded, and how large that is.
    for Pair { server, source, .. } in &pairs {
        if let Some(line) = &source.line {
            print_as!(server.name, "{line}");
        }
    }
    let mut gateway = None;
    let result = start_all(options.release, &pairs, &mut gateway);
    if result.is_ok() && !shutdown::requested() {
        report(options.release, &pairs, gateway.is_some());
        watch(&mut pairs, &mut gateway);
    }
    stop_all(pairs, gateway);
    result
}

fn find_pairs(options: &Options) -> Result<Vec<Pair>> {
    let is_named = |server: &Server, name: &str| server.name == name || server.program == name;
    for name in &options.only {
        let is_known = SERVERS.iter().any(|server| is_named(server, name));
        let names: Vec<_> = SERVERS.iter().map(|server| server.name).collect();
        let names = names.join(", ");
        ensure!(is_known, "there is no service `{name}`: {names}");
    }
    let is_wanted = |server: &&Server| {
        options.only.is_empty() || options.only.iter().any(|name| is_named(server, name))
    };
    let mut wanted: Vec<_> = SERVERS.iter().filter(is_wanted).collect();
    wanted.sort_by_key(|server| server.name != FIRST);
    let found = wanted.into_iter().map(|server| {
        find_pair(server, !options.no_local)
            .inspect_err(|error| print_as!(server.name, "left out: {error:#}"))
    });
    Ok(found.flatten().collect())
}

fn find_pair(server: &'static Server, may_start: bool) -> Result<Pair> {
    // Before the search: a service that a killed run has left is not the user's.
    let instance = Instance::lock(server.name, Purpose::RunAll, server.service_port())?;
    let Server { port, program, .. } = server;
    if TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_err() {
        bail!("port {port} is in use, and {program} needs it; end the program that listens there");
    }
    Ok(Pair {
        server,
        source: ServiceSource::find(server, &instance, may_start),
        process: OnceLock::new(),
        service: OnceLock::new(),
        instance,
    })
}

/// Builds and starts the servers while the local services are installed and started. The first server answers while the
/// others are built, and each is announced when it is ready.
fn start_all(release: bool, pairs: &[Pair], gateway: &mut Option<Gateway>) -> Result<()> {
    let begun = Instant::now();
    let (first, others) = pairs.split_at(1);
    let mut programs: Vec<_> = pairs.iter().map(|pair| pair.server.program).collect();
    if !others.is_empty() {
        programs.push(Gateway::PROGRAM);
    }
    thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(|| pair.service.set(start_service(pair)));
        }
        let start = |pairs: &[Pair], some: &[&str]| -> Result<()> {
            build(release, &programs, some)?;
            for pair in pairs {
                let (server, instance) = (pair.server, &pair.instance);
                let process = server.start(release, instance, pair.source.is_local)?;
                pair.process.get_or_init(|| process);
            }
            Ok(())
        };
        let announce = |pairs| {
            for pair in pairs {
                scope.spawn(move || announce_ready(release, pair, begun));
            }
        };
        let started = start(first, &programs[..1]).and_then(|()| {
            announce(first);
            match others {
                [] => Ok(()),
                others => start(others, &programs[1..]),
            }
        });
        // The services alone are useless.
        started.inspect_err(|_| shutdown::request())?;
        if !others.is_empty() {
            announce(others);
            // Else the gateway warns of each that does not answer yet, and calls it again a second later.
            let answers = |pair: &Pair| servers::status(pair.server.port).is_some();
            shutdown::wait_until(servers::START_TIMEOUT, || pairs.iter().all(answers));
            // The servers are useful without the gateway, so its failure is only reported.
            let servers: Vec<_> = pairs.iter().map(|pair| pair.server).collect();
            *gateway = Gateway::start(release, &servers)
                .inspect_err(|error| print_as!(Gateway::NAME, "left out: {error:#}"))
                .ok();
        }
        // A download may take an hour; the servers answer meanwhile.
        let is_done = |pair: &Pair| pair.service.get().is_some();
        shutdown::wait_until(SERVICE_TIMEOUT, || pairs.iter().all(is_done));
        Ok(())
    })
}

/// Starts the local service of a pair, if it has one.
fn start_service(pair: &Pair) -> Option<Process> {
    let local = pair.server.local.as_ref().filter(|_| pair.source.is_local);
    let (name, service) = (pair.server.name, local?.service);
    let installed = service.install();
    let started = installed.and_then(|()| service.start(&pair.instance));
    match &started {
        Ok(_) => print_as!(name, "its service is up"),
        Err(_) if shutdown::requested() => {}
        Err(error) => print_as!(name, "not started: {error:#}"),
    }
    started.ok()
}

/// Builds some of these programs. With the features that all of them need, so that what they share is built once.
fn build(release: bool, all: &[&str], some: &[&str]) -> Result<()> {
    let cargo = Program::cargo("build --quiet")
        .args(release.then_some("--release"))
        .args(all.iter().flat_map(|program| ["--package", program]))
        .args(some.iter().flat_map(|program| ["--bin", program]));
    let names = some.join(", ");
    let heartbeat = Heartbeat::start("build", &*names).expecting(BUILD_TIME);
    let is_built = cargo.succeeds(Some(heartbeat))?;
    ensure!(is_built, "{names} does not build");
    Ok(())
}

/// Waits until the server answers, then until its service is up, and prints a call to try.
fn announce_ready(release: bool, pair: &Pair, begun: Instant) {
    let (name, program, port) = (pair.server.name, pair.server.program, pair.server.port);
    if !servers::announce(name, program, port) {
        return;
    }
    let status = settled_status(pair);
    match status.as_deref().filter(|_| !shutdown::requested()) {
        Some("online") => {
            let seconds = begun.elapsed().as_secs();
            let tool = pair.server.local.as_ref().map(|local| local.first_call);
            let try_it = servers::first_steps(release, program, port, tool);
            print_as!(
                name,
                "{program} is online after {seconds} s. Try it:\n\n{try_it}"
            );
        }
        Some(status) => print_as!(name, "{program} is {status}; GET /readyz says why"),
        None => {}
    }
}

fn report(release: bool, pairs: &[Pair], has_gateway: bool) {
    let row = |program: &str, port: u16, service: &str| {
        let status = servers::status(port);
        let status = status.as_deref().unwrap_or("not running");
        [program, &servers::url(port), service, status].map(str::to_owned)
    };
    let rows = pairs.iter();
    let rows = rows.map(|pair| row(pair.server.program, pair.server.port, &pair.source.shown));
    let gateway = has_gateway.then(|| row(Gateway::PROGRAM, Gateway::PORT, "all of them"));
    let rows: Vec<_> = rows.chain(gateway).collect();
    let heading = ["server", "URL", "service", "state"];
    print_line!("\n{}", table(heading, &rows));
    let mut port = pairs[0].server.port;
    if has_gateway {
        port = Gateway::PORT;
        let tool = Some(Gateway::FIRST_CALL);
        let try_it = servers::first_steps(release, Gateway::PROGRAM, port, tool);
        print_line!("The state of all of them, from the gateway:\n\n{try_it}");
    }
    let how = servers::token().map_or("", |_| "; sign in with the token");
    print_line!("The page, for a browser{how}: http://127.0.0.1:{port}/\n");
    print_line!("Ctrl-C stops everything that was started here.\n");
}

/// Returns the server's status, after its service was started and it had time to notice that.
fn settled_status(pair: &Pair) -> Option<String> {
    let has_service = || pair.service.get().is_some();
    shutdown::wait_until(SERVICE_TIMEOUT, has_service);
    let has_none = pair.service.get().is_none_or(Option::is_none);
    let is_missing = pair.source.is_missing || pair.source.is_local && has_none;
    let end = Instant::now() + NOTICE_TIMEOUT;
    loop {
        let status = servers::status(pair.server.port);
        let is_over = is_missing || shutdown::requested() || Instant::now() >= end;
        if is_over || status.as_deref() == Some("online") {
            return status;
        }
        shutdown::wait_until(STATUS_INTERVAL, || false);
    }
}

/// Waits for Ctrl-C; prints a line when a process ends by itself.
fn watch(pairs: &mut [Pair], gateway: &mut Option<Gateway>) {
    while !shutdown::requested() {
        let ended = gateway.take_if(|gateway| gateway.process.ended());
        if ended.is_some() {
            print_as!(Gateway::NAME, "has ended by itself");
        }
        for pair in pairs.iter_mut() {
            let name = pair.server.name;
            if pair.process.get_mut().is_some_and(Process::ended) {
                print_as!(name, "its server has ended by itself");
                pair.process.take();
            }
            let service = pair.service.get_mut().and_then(Option::as_mut);
            if service.is_some_and(Process::ended) {
                print_as!(name, "its service has ended by itself");
                pair.service.take();
            }
        }
        shutdown::wait_until(Duration::from_secs(1), || false);
    }
}

/// Stops the gateway, then the servers, then the services, so that no server reports a lost service.
fn stop_all(mut pairs: Vec<Pair>, gateway: Option<Gateway>) {
    print_line!("\nstopping …");
    drop(gateway);
    for field in [
        |pair: &mut Pair| pair.process.take(),
        |pair: &mut Pair| pair.service.take().flatten(),
    ] {
        let mut processes: Vec<_> = pairs.iter_mut().filter_map(field).collect();
        processes.iter_mut().for_each(Process::ask_to_end);
        drop(processes);
    }
    print_line!("everything that was started here is stopped");
}
