//! `cargo xtask nightly`: what `cargo xtask test` leaves out, because it takes long or rarely breaks.

use std::fs;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::console::table;
use crate::counts::TestCounts;
use crate::process::Program;
use crate::services::Service;
use crate::services::openhands::{OLDEST, OpenHands, OpenHandsApp, VERSION_OF_APP};
use crate::test::real_services::{ALL, RealServices};
use crate::{
    bench, checks, clients, conformance, install, layout, package, replicas, shutdown, soak,
};

/// Everything else that can be tested, and a table of it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these parts:
    /// services: other engines, Podman, servers of others behind the gateway.
    /// openhands-versions: agent servers of older versions.
    /// openhands-app: the V1 app server, openhands-ai from PyPI (1.4 GB) with its sandboxes as processes;
    /// xtask/backends/openhands-app/start.py says how.
    /// conformance: the official suites against the fixture server, alone and behind the gateway, and against our client.
    /// clients: real third-party clients, and a web page in Chromium.
    /// bench: speed beside rmcp, a bare hyper server and nginx, memory, and the time of a start, with optimised programs.
    /// replicas: three gateways on one PostgreSQL, behind nginx: an upgrade under load, and what fails when one of them,
    /// or the database, is killed or away.
    /// soak: 100 clients of all eras call three backends through the gateway for five minutes; each gets its own answers,
    /// and memory does not grow.
    /// package: all packages, each installed and called.
    /// windows: everything compiled for Windows.
    /// modules: modules of a crate that use each other in a circle.
    /// mutants: changes in the modules that keep people out or apart, one expression at a time, of which their unit tests
    /// must notice 90 %.
    /// msrv: everything compiled with the `rust-version` of Cargo.toml.
    /// docs: the book of `docs` in target/book, and its links, those into the web where there is a network.
    /// advisories: known vulnerabilities of the dependencies.
    #[arg(value_name = "PART", verbatim_doc_comment)]
    parts: Vec<String>,
}

/// The name of a part, and its function.
type Part = (&'static str, fn() -> Result<()>);

const PARTS: [Part; 15] = [
    ("services", services),
    ("openhands-versions", || {
        openhands(&OpenHands(OLDEST), AGENT_SERVER_TESTS)?;
        openhands(&OpenHands(VERSION_OF_APP), AGENT_SERVER_TESTS)
    }),
    ("openhands-app", || {
        openhands(&OpenHandsApp, "test(/^openhands::app_server::/)")
    }),
    ("conformance", conformance::run),
    ("clients", clients::run),
    ("bench", bench::run),
    ("replicas", replicas::run),
    ("soak", soak::run),
    ("package", || {
        let options = package::Options {
            check: true,
            ..package::Options::default()
        };
        package::run(&options)
    }),
    ("windows", checks::windows),
    ("modules", modules),
    ("mutants", mutants),
    ("msrv", msrv),
    ("docs", checks::book),
    ("advisories", checks::advisories),
];

/// Of the tests in `tests`, those with other engines and servers of others.
const ENGINES: &str = "test(/^docker::/) | test(/^gateway::(replicas|real)::/)";

/// All tests of the OpenHands server but those that need another service, too.
const AGENT_SERVER_TESTS: &str = "test(/^openhands::/) - test(/^openhands::app_server::/) \
     - test(/task_runs_an_n8n|task_restarts_a_container/)";

pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = package::chosen("no part", &options.parts, &PARTS.map(|(name, _)| name))?;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (name, perform) in PARTS.into_iter().filter(|(name, _)| chosen.contains(name)) {
        let started = Instant::now();
        print_line!("\nnightly  | {name}");
        let outcome = perform();
        ensure!(!shutdown::requested(), "stopped");
        let verdict = match outcome {
            Ok(()) => "ok",
            Err(error) => {
                print_line!("FAILED   {name}: {error:#}");
                failed.push(name);
                "FAILED"
            }
        };
        let time = format!("{} s", started.elapsed().as_secs());
        rows.push([name.to_owned(), verdict.to_owned(), time]);
    }
    let heading = ["part", "result", "time"];
    print_line!("\n{}", table(heading, &rows).trim_end());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Other versions of the services, Podman, and servers of others behind the gateway.
fn services() -> Result<()> {
    checks::build()?;
    let real = RealServices::start(&ALL);
    let (others, missing) = clients::install_servers();
    let env = [real.environment(), others].concat();
    let mut sum = real.missing_counts();
    sum += missing;
    sum += checks::nextest("engines", ("--profile nightly", ENGINES), &env)?;
    sum.print_sum()
}

/// Tests of the OpenHands server on a service that is started for them.
fn openhands(service: &dyn Service, tests: &str) -> Result<()> {
    checks::build()?;
    let real = RealServices::start(&[service]);
    let mut sum = real.missing_counts();
    if sum == TestCounts::default() {
        let words = ("--profile nightly", tests);
        sum = checks::nextest(service.name(), words, &real.environment())?;
    }
    sum.print_sum()
}

/// Prints the top modules of the crate `$1` that use each other in a circle, each with all that is in it. `$2` has the
/// edges that are known.
const ORDER: &str = r#"
    graph=$("$0" modules dependencies --package "$1" --lib --no-externs --no-sysroot --no-fns --no-traits --no-types \
        --no-owns) || echo "tsort: $1 cannot be read"
    printf '%s\n' "$graph" | awk -F'"' '
        /->/ { split($2, from, "::"); split($4, to, "::") }
        /->/ && from[2] != to[2] && from[2] && to[2] { print from[1] "::" from[2], to[1] "::" to[2] }' |
        sort -u | grep -vxF "$2" | tsort 2>&1 > /dev/null
"#;

/// The edges that close the circles which are left. What other modules implement for a type of `mcp_core::registry` counts
/// as used by it.
const KNOWN_EDGES: &str = "\
gateway_store::database gateway_store::events
gateway_store::database gateway_store::state
mcp_core::registry mcp_core::method
mcp_core::registry mcp_core::prompt
mcp_core::registry mcp_core::resource
mcp_core::registry mcp_core::tool
mcp_gateway::gateway mcp_gateway::page
mcp_gateway::gateway mcp_gateway::tools";

/// Reads the modules of each crate with cargo-modules, whose own `--acyclic` also counts a type and its functions.
fn modules() -> Result<()> {
    let reader = install::compiled("nightly", "cargo-modules", "0.26.0")?.join("cargo-modules");
    let mut circles = String::new();
    for folder in fs::read_dir(layout::root().join("crates"))? {
        let name = folder?.file_name();
        let order = Program::new("sh")
            .args(["-c", ORDER])
            .args([reader.as_os_str(), &name, KNOWN_EDGES.as_ref()])
            .dir(layout::root())
            .logged("modules", None)?;
        let lines = order.output.lines();
        let found = lines.filter(|line| line.starts_with("tsort: "));
        circles.extend(found.map(|line| format!("{line}\n")));
        print_as!("modules", "{}: read", name.display());
    }
    ensure!(circles.is_empty(), "\n{circles}");
    Ok(())
}

/// Changes the modules of `.cargo/mutants.toml`, one expression at a time: their unit tests must notice nine of ten.
fn mutants() -> Result<()> {
    let programs = install::compiled("nightly", "cargo-mutants", "27.1.0")?;
    let outcomes = layout::target().join("mutants.out");
    // Of an earlier run, which would be taken for this one's if it fails.
    let _ = fs::remove_dir_all(&outcomes);
    Program::new(programs.join("cargo-mutants"))
        .words("mutants --colors never --output")
        .args([layout::target()])
        .dir(layout::root())
        .succeeds(None)?;
    let count = |kind: &str| {
        let list = fs::read_to_string(outcomes.join(kind)).unwrap_or_default();
        list.lines().count()
    };
    // A mutant that makes its tests hang is noticed, too.
    let noticed = count("caught.txt") + count("timeout.txt");
    let missed = count("missed.txt");
    print_line!("{noticed} mutants noticed, {missed} missed");
    ensure!(noticed > 0 && noticed >= 9 * missed, "too many are missed");
    Ok(())
}

/// Compiles everything with the `rust-version` of Cargo.toml, in a target folder of its own.
fn msrv() -> Result<()> {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let check = Program::new("rustup")
        .args(["run", "--install", oldest, "cargo"])
        .words("check --workspace --all-targets --all-features --locked")
        .envs([("CARGO_TARGET_DIR", layout::backends().join("msrv"))])
        .dir(layout::root());
    ensure!(check.succeeds(None)?, "cargo check");
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn every_part_is_explained_and_runs_each_night() {
        let parts = PARTS.map(|(name, _)| name);
        let command = Options::augment_args(clap::Command::new("nightly"));
        let help = command.get_arguments().next().unwrap().get_help();
        let help = help.unwrap().to_string();
        let explained = help.lines().filter_map(|line| line.split_once(": "));
        let explained: Vec<_> = explained.map(|(name, _)| name).collect();
        assert_eq!(explained, parts);
        let workflow = layout::root().join(".github/workflows/nightly.yml");
        let workflow = fs::read_to_string(workflow).unwrap();
        let listed = workflow
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- nightly "));
        assert_eq!(listed.collect::<Vec<_>>(), parts);
    }
}
