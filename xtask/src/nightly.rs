//! `cargo xtask nightly`: what `cargo xtask test` leaves out, because it takes long or rarely breaks.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{bail, ensure};

use crate::args::Options;
use crate::cargo::{self, exit_code};
use crate::console::table;
use crate::counts::TestCounts;
use crate::layout::Layout;
use crate::nextest::Nextest;
use crate::process::Program;
use crate::services::openhands;
use crate::test::real_services::{ALL, RealServices};
use crate::{
    bench, checks, clients, conformance, images, openhands_versions, package, replicas, soak,
};

/// The name of a part, and its function.
type Part = (&'static str, fn(&Layout) -> anyhow::Result<ExitCode>);

const PARTS: [Part; 14] = [
    ("services", services),
    ("openhands-versions", |layout| {
        openhands_versions::run(layout, &Options::default())
    }),
    ("openhands-app", openhands_versions::run_app),
    ("conformance", conformance::command),
    ("clients", clients::command),
    ("images", images::check),
    ("bench", bench::run),
    ("replicas", |layout| {
        replicas::run(layout, &Options::default())
    }),
    ("soak", |layout| soak::run(layout, &Options::default())),
    ("package", |layout| {
        package::run(layout, &Options::with_flag("check"))
    }),
    ("windows", cargo::check_windows),
    ("mutants", mutants),
    ("msrv", msrv),
    ("docs", checks::book),
];

/// Of the tests in `tests`, those with other engines and servers of others.
const ENGINES: &str = "test(/^docker::/) | test(/^gateway::(replicas|real|approvals::docker)::/) | test(/^hosts::connect::/)";

/// With the agent server that `openhands-ai` brings: the modules that depend on its version. The part
/// `openhands-versions` runs all.
const OLDER_OPENHANDS: &str =
    "test(/^openhands::(tasks|errors|confirmation|parallel|files|mcp_servers|read_tools)::/)";

/// Runs the parts that are named in the command line, or all, and prints a table of them.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let names = PARTS.map(|(name, _)| name);
    if let Some(unknown) = options.words.iter().find(|word| !names.contains(&&***word)) {
        bail!("there is no part `{unknown}`: {}", names.join(", "));
    }
    let is_wanted =
        |name| options.words.is_empty() || options.words.iter().any(|word| word == name);
    let mut rows = vec![["part", "result", "time"].map(str::to_owned)];
    let mut is_good = true;
    for (name, perform) in PARTS.into_iter().filter(|(name, _)| is_wanted(*name)) {
        let started = Instant::now();
        print_line!("\nnightly  | {name}");
        let outcome = perform(layout);
        if layout.shutdown.requested() {
            bail!("stopped");
        }
        if let Err(error) = &outcome {
            print_line!("FAILED   {name}: {error:#}");
        }
        let has_passed = outcome.is_ok_and(|code| code == ExitCode::SUCCESS);
        is_good &= has_passed;
        let verdict = if has_passed { "ok" } else { "FAILED" };
        let time = format!("{} s", started.elapsed().as_secs());
        rows.push([name.to_owned(), verdict.to_owned(), time]);
    }
    print_line!("\n{}", table(&rows).trim_end());
    Ok(exit_code(is_good))
}

/// Other versions of the services, Podman, and servers of others behind the gateway.
fn services(layout: &Layout) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let nextest = Nextest::install(layout)?;
    let real = RealServices::start(layout, &ALL);
    let others = clients::install_servers(layout);
    let mut env = real.environment();
    env.extend(others.environment.iter().cloned());
    let mut sum = real.missing_counts();
    for (sdk, why) in &others.missing {
        sum += TestCounts::skip(&format!("gateway with {sdk}"), why);
    }
    let profile = "--profile nightly";
    sum += nextest.run(layout, "engines", (profile, ENGINES), &env)?;
    if let Some(other) = real.environment_of(&openhands::OF_APP) {
        let env = [env, other].concat();
        let filter = (profile, OLDER_OPENHANDS);
        sum += nextest.run(layout, "openhands-of-app", filter, &env)?;
    }
    print_line!("{sum}");
    Ok(exit_code(sum.failed == 0))
}

/// Changes the modules of `.cargo/mutants.toml`, one expression at a time: their unit tests must notice nine of ten
/// changes.
fn mutants(layout: &Layout) -> anyhow::Result<ExitCode> {
    let programs = layout.backends().join("mutants");
    let install = Program::new("cargo")?
        .words("install cargo-mutants --version 27.1.0 --locked --debug --root")
        .args([&programs]);
    ensure!(
        install.succeeds(&layout.shutdown, None)?,
        "cargo-mutants cannot be compiled"
    );
    let outcomes = layout.target.join("mutants.out");
    // Of an earlier run, which would be taken for this one's if it fails.
    let _ = fs::remove_dir_all(&outcomes);
    // Fails if a mutant is missed.
    Program::new(programs.join("bin/cargo-mutants"))?
        .words("mutants --colors never --output")
        .args([&layout.target])
        .dir(&layout.root)
        .succeeds(&layout.shutdown, None)?;
    let count = |kind: &str| {
        let list = fs::read_to_string(outcomes.join(kind)).unwrap_or_default();
        list.lines().count()
    };
    // A mutant that makes its tests hang is noticed, too.
    let noticed = count("caught.txt") + count("timeout.txt");
    let missed = count("missed.txt");
    print_line!("{noticed} mutants noticed, {missed} missed");
    Ok(exit_code(noticed > 0 && noticed >= 9 * missed))
}

/// Compiles everything with the `rust-version` of Cargo.toml, in a target folder of its own.
fn msrv(layout: &Layout) -> anyhow::Result<ExitCode> {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let check = Program::new("rustup")?
        .args(["run", "--install", oldest, "cargo"])
        .words("check --workspace --all-targets --all-features --locked")
        .envs([("CARGO_TARGET_DIR", layout.backends().join("msrv"))])
        .dir(&layout.root);
    Ok(exit_code(check.succeeds(&layout.shutdown, None)?))
}
