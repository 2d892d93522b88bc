//! Counts the instructions and allocations of one request: about the same on every run, so that a test can check them.

use std::iter;
use std::path::Path;

use super::callgrind::Callgrind;
use super::profile::Counts;
use super::row::{Limit, Row, median};
use super::server::{Bench, BenchServer, Cpu};
use crate::process::Program;
use crate::servers::Gateway;
use crate::test_server::{self, FIXTURE};

/// The way of a request to the server that is counted.
#[derive(Clone, Copy)]
enum Way {
    Http,
    Stdio,
    /// Through the gateway, which is counted, to a server over HTTP, which is not.
    Gateway,
}

/// A load, and what one `tools/call` of it may cost. Clients with an SDK open a session or speak 2026-07-28.
struct Load {
    work: &'static str,
    way: Way,
    words: &'static str,
    /// The most instructions. Where more is allowed than is aimed at, `aim` says so: it is that of a release build.
    most: Most,
    aim: &'static str,
    /// The most calls of the allocator. Five more if each event is a transaction of its own, as on a slow machine.
    most_allocations: Option<Most>,
}

impl Load {
    const fn new(work: &'static str, way: Way, words: &'static str, most: Most) -> Self {
        Self {
            work,
            way,
            words,
            most,
            aim: "",
            most_allocations: None,
        }
    }

    const fn aim(self, aim: &'static str) -> Self {
        Self { aim, ..self }
    }

    const fn most_allocations(self, most: Most) -> Self {
        Self {
            most_allocations: Some(most),
            ..self
        }
    }
}

const LOADS: [Load; 9] = [
    Load::new(
        "echo, unversioned",
        Way::Http,
        "echo",
        most(28_700.0, 252_000.0),
    )
    .aim(" (aim: 23,000)"),
    Load::new(
        "echo, session",
        Way::Http,
        "session-echo",
        most(33_900.0, 301_000.0),
    )
    .aim(" (aim: 27,000)"),
    Load::new(
        "echo, 2026-07-28",
        Way::Http,
        "modern-echo",
        most(38_200.0, 345_000.0),
    )
    .aim(" (aim: 30,000)"),
    Load::new(
        "echo, stdio, unversioned",
        Way::Stdio,
        "--body ECHO",
        most(13_500.0, 109_500.0),
    ),
    Load::new(
        "echo, stdio, session",
        Way::Stdio,
        "--initialize INITIALIZE --body ECHO",
        most(14_000.0, 112_500.0),
    ),
    Load::new(
        "echo, stdio, 2026-07-28",
        Way::Stdio,
        "--body MODERN-ECHO",
        most(19_200.0, 163_000.0),
    ),
    Load::new(
        "relayed echo, unversioned",
        Way::Gateway,
        "echo",
        most(100_000.0, 980_000.0),
    )
    .most_allocations(most(45.0, 58.0)),
    Load::new(
        "relayed echo, session",
        Way::Gateway,
        "session-echo",
        most(107_000.0, 1_050_000.0),
    )
    .aim(" (aim: 100,000)")
    .most_allocations(most(54.0, 65.0)),
    Load::new(
        "relayed echo, 2026-07-28",
        Way::Gateway,
        "modern-echo",
        most(120_000.0, 1_200_000.0),
    )
    .aim(" (aim: 100,000)")
    .most_allocations(most(60.0, 74.0)),
];

/// A value for each build of the programs.
#[derive(Clone, Copy)]
struct ByBuild<T> {
    release: T,
    debug: T,
}

impl<T> ByBuild<T> {
    fn value(self, bench: &Bench<'_>) -> T {
        match bench.is_release {
            true => self.release,
            false => self.debug,
        }
    }
}

/// The most instructions or allocations of one call.
type Most = ByBuild<f64>;

const fn most(release: f64, debug: f64) -> Most {
    Most { release, debug }
}

/// The requests of two loads; the difference leaves out what comes once. A call of a debug build has ten times the
/// instructions.
type Requests = ByBuild<[f64; 2]>;

/// Of a server that runs: a connection and a session come once.
const OF_SERVER: Requests = Requests {
    release: [500.0, 3_000.0],
    debug: [20.0, 120.0],
};
/// Of a child, whose start comes once. One start takes up to a million instructions more than another.
const OF_CHILD: Requests = Requests {
    release: [500.0, 8_500.0],
    debug: [50.0, 650.0],
};

/// The requests before a server is counted, and how often it is counted. Meanwhile the gateway may still fetch lists and
/// compare the tools of its backends, which is up to half of the work of so short a load: the median leaves it out.
const WARM_UP: f64 = 20.0;
const REPETITIONS: usize = 3;

/// Counts instructions with callgrind.
struct Counter<'a> {
    bench: &'a Bench<'a>,
    callgrind: Callgrind,
}

/// Counts them.
///
/// # Errors
/// `Unavailable` without valgrind.
pub(super) fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Row>> {
    let callgrind = Callgrind::install(bench.layout)?;
    let counter = Counter { bench, callgrind };
    let load = "--header JSON --body ECHO --path /150";
    let floor = counter.of_server("bench-floor", "", load)?;
    let rows = LOADS.iter().map(|load| counter.rows(load, floor));
    let rows: anyhow::Result<Vec<_>> = rows.collect();
    Ok(rows?.into_iter().flatten().collect())
}

impl Counter<'_> {
    /// Counts a load. Returns its rows.
    fn rows(&self, load: &Load, floor: Counts) -> anyhow::Result<Vec<Row>> {
        print_as!("bench", "counting {}", load.work);
        let ours = match load.way {
            Way::Http => self.of_server(FIXTURE, "--token bench-with-a-token", load.words),
            Way::Stdio => {
                self.per_request(OF_CHILD, |requests| self.of_child(load.words, requests))
            }
            Way::Gateway => self.of_gateway(load.words),
        }?;
        let floor = matches!(load.way, Way::Http).then_some(floor.instructions);
        let at_most = |most: Most| Limit::AtMost(most.value(self.bench));
        let work = format!("instructions per {}{}", load.work, load.aim);
        let instructions = Row::absolute(&work, ours.instructions, floor, at_most(load.most));
        // Of a program without symbols, only those of SQLite are seen: less than one for each call.
        let most_allocations = load.most_allocations.filter(|_| ours.allocations > 1.0);
        let allocations = most_allocations.map(|most| {
            let work = format!("allocations per {} (aim: 45)", load.work);
            Row::absolute(&work, ours.allocations, None, at_most(most))
        });
        Ok(iter::once(instructions).chain(allocations).collect())
    }

    /// Returns the cost of one request; `count` counts a load with some requests.
    fn per_request(
        &self,
        requests: Requests,
        mut count: impl FnMut(f64) -> anyhow::Result<Counts>,
    ) -> anyhow::Result<Counts> {
        let [few, many] = requests.value(self.bench);
        Ok((count(many)? - count(few)?) / (many - few))
    }

    /// Counts a child over stdio, with its start.
    fn of_child(&self, load: &str, requests: f64) -> anyhow::Result<Counts> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let child = self.command(&profile, FIXTURE).join(" ");
        let load = format!(
            "stdio {load} --expect OK --window 1 --millis 60000 --requests {requests} \
             -- {child} --stdio --log error"
        );
        self.bench.load(Cpu::Any, &load, 0)?;
        Counts::read(&profile)
    }

    /// Counts a server over HTTP.
    fn of_server(&self, name: &str, words: &str, load: &str) -> anyhow::Result<Counts> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.program(&profile, name)?.words(words).words("--port 0");
        let server = self
            .bench
            .launch(Cpu::Own, program, test_server::listens_on)?;
        self.of_running(&server, &profile, load)
    }

    /// Counts the gateway, in front of a server over HTTP.
    fn of_gateway(&self, load: &str) -> anyhow::Result<Counts> {
        let profile = self.bench.layout.fresh_log("bench-callgrind")?;
        let program = self.program(&profile, Gateway::PROGRAM)?;
        let backend = self.bench.fixture(Cpu::Load)?;
        let gateway = self.bench.gateway_over_http(program, backend)?;
        self.of_running(&gateway, &profile, load)
    }

    /// Counts a server that answers: the median of several times.
    fn of_running(
        &self,
        server: &BenchServer,
        profile: &Path,
        load: &str,
    ) -> anyhow::Result<Counts> {
        let send = |requests| {
            let load = format!("http {load} --millis 60000 --requests {requests}");
            server.load(self.bench, &load, 0)
        };
        let control = |command| {
            let layout = self.bench.layout;
            self.callgrind.control(layout, server.pid, command)
        };
        send(WARM_UP)?;
        let mut profiles = (1..).map(|number| format!("{}.{number}", profile.display()));
        let mut count = |requests| {
            control("zero")?;
            send(requests)?;
            control("dump")?;
            Counts::read(Path::new(&profiles.next().unwrap_or_default()))
        };
        let counts = (0..REPETITIONS).map(|_| self.per_request(OF_SERVER, &mut count));
        let counts: Vec<Counts> = counts.collect::<anyhow::Result<_>>()?;
        let median_of = |field: fn(&Counts) -> f64| median(counts.iter().map(field).collect());
        Ok(Counts {
            instructions: median_of(|counts| counts.instructions),
            allocations: median_of(|counts| counts.allocations),
        })
    }

    /// Returns one of our programs that is counted, on a processor of its own.
    fn program(&self, profile: &Path, name: &str) -> anyhow::Result<Program> {
        let command = self.command(profile, name);
        let program = self.bench.program(Cpu::Own, &command[0])?;
        Ok(program.args(&command[1..]))
    }

    fn command(&self, profile: &Path, name: &str) -> Vec<String> {
        self.callgrind.command(profile, self.bench.binary(name))
    }
}
