//! `cargo xtask test`: all that a change can break on Linux, with the newest services. `cargo xtask nightly` tests
//! everything else.

mod promtool;
pub(crate) mod real_services;

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{anyhow, bail};

use crate::args::Options;
use crate::cargo::{BUILD, CLIPPY, DOC, DOC_FLAGS, FMT, exit_code};
use crate::checks;
use crate::conformance;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::layout::Layout;
use crate::nextest::Nextest;
use crate::process::Program;
use crate::services::Environment;

use real_services::{MAIN, RealServices};

const DOC_TESTS: &str = "test --workspace --doc --no-fail-fast";

/// Lines of a failed stage's output on the terminal.
const MAX_SHOWN_LINES: usize = 200;

/// The tests without a service.
const WITHOUT_SERVICES: &str = "not test(/^(n8n|openhands|docker)::real::/)";

/// Tells the tests that no service is wanted. Without it, and with `CI=true`, a test without its service fails.
const NO_SERVICES: &str = "MCP_TEST_WITHOUT_SERVICES";

/// A part of the tests that `--only` chooses: its name, the services that it needs, and its tests in the language of
/// nextest.
type Area = (&'static str, &'static [&'static str], &'static str);

const AREAS: [Area; 5] = [
    (
        "docker",
        &["docker-26"],
        "package(/^docker-/) | test(/^docker::/)",
    ),
    ("n8n", &["n8n"], "package(/^n8n-/) | test(/^n8n::/)"),
    (
        "openhands",
        &["openhands"],
        "package(/^openhands-/) | test(/^openhands::/)",
    ),
    (
        "gateway",
        &["n8n", "openhands", "docker-26", "postgres"],
        "package(/gateway/) | test(/^gateway::/)",
    ),
    (
        "protocol",
        &[],
        "not (package(/^(docker|n8n|openhands)-|gateway/) | test(/^(docker|n8n|openhands|gateway)::/))",
    ),
];

/// Runs all stages; the exit code says whether all of them passed.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut run = TestRun {
        layout,
        sum: TestCounts::default(),
    };
    let area = match &options.area {
        Some(name) => Some(area(name)?),
        None => None,
    };
    let is_wanted = |name: &str| match area {
        Some((_, services, _)) => services.contains(&name),
        None => !options.has("quick"),
    };
    let services: Vec<_> = MAIN
        .into_iter()
        .filter(|(service, _)| is_wanted(service.name()))
        .collect();
    let (built, real) = thread::scope(|scope| {
        // The first installation takes minutes: it runs beside the other stages.
        let real = scope.spawn(|| RealServices::start(layout, &services));
        let built = run.build(area.is_none());
        if built.is_err() {
            layout.shutdown.request();
        }
        (built, real.join())
    });
    let real = real.map_err(|_| anyhow!("the start of the services failed"))?;
    if built? {
        run.tests(&real, services.is_empty(), area)?;
        if area.is_none() {
            run.stage("doc-tests", DOC_TESTS, Vec::new())?;
        }
        if area.is_none() && !options.has("quick") {
            run.add("conformance", conformance::run_newest(layout))?;
        }
    }
    run.sum += real.missing_counts();
    if options.has("keep") {
        real.keep(layout)?;
    }
    drop(real);
    let logs = layout.backends().join("logs");
    let (seconds, logs) = (started.elapsed().as_secs(), layout.shown(&logs));
    print_line!("\nin {seconds} s, logs in {logs}");
    print_line!("{}", run.sum);
    Ok(exit_code(run.sum.failed == 0))
}

fn area(name: &str) -> anyhow::Result<Area> {
    let found = AREAS.into_iter().find(|(known, ..)| *known == name);
    let names = AREAS.map(|(name, ..)| name).join(", ");
    found.ok_or_else(|| anyhow!("there is no area `{name}`: {names}"))
}

struct TestRun<'a> {
    layout: &'a Layout,
    sum: TestCounts,
}

impl TestRun<'_> {
    /// Runs the stages that need no service, with the `checks` of the sources; returns true if the programs are built.
    fn build(&mut self, checks: bool) -> anyhow::Result<bool> {
        if checks {
            self.stage("format", FMT, Vec::new())?;
            self.stage("lints", CLIPPY, Vec::new())?;
            let flags = vec![("RUSTDOCFLAGS", DOC_FLAGS.into())];
            self.stage("docs", DOC, flags)?;
            let layout = self.layout;
            self.step("spelling", || checks::spelling(layout))?;
            self.step("workflows", || checks::workflows(layout))?;
            self.step("dependencies", || checks::dependencies(layout))?;
        }
        self.stage("build", BUILD, Vec::new())
    }

    fn tests(
        &mut self,
        real: &RealServices,
        without_services: bool,
        area: Option<Area>,
    ) -> anyhow::Result<()> {
        let mut filter = match area {
            Some((.., filter)) => format!("({filter})"),
            None => "all()".to_owned(),
        };
        for module in real.modules_without_service() {
            filter.push_str(&format!(" & not test(/^{module}::/)"));
        }
        let mut env = real.environment();
        if without_services {
            filter.push_str(&format!(" & ({WITHOUT_SERVICES})"));
            env.push((NO_SERVICES, "1".into()));
        }
        let layout = self.layout;
        let nextest = Nextest::install(layout);
        let counts = nextest.and_then(|it| it.run(layout, "tests", ("", &filter), &env));
        self.add("tests", counts)
    }

    /// Does a part of the work that is no call of cargo, with one line about it.
    fn step(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        let result = work();
        let is_done = result.is_ok();
        self.add(name, result.map(|()| TestCounts::PASSED))?;
        if is_done {
            let seconds = started.elapsed().as_secs_f32();
            print_line!("ok       {name} ({seconds:.1} s)");
        }
        Ok(())
    }

    /// Adds the counts of a part of the work.
    fn add(&mut self, name: &str, counts: anyhow::Result<TestCounts>) -> anyhow::Result<()> {
        if self.layout.shutdown.requested() {
            bail!("stopped");
        }
        self.sum += TestCounts::from_result(name, counts);
        Ok(())
    }

    /// Calls cargo, with one line about it; prints its output if it fails.
    fn stage(&mut self, name: &'static str, words: &str, env: Environment) -> anyhow::Result<bool> {
        let started = Instant::now();
        let (is_good, counts, output) = self.cargo(name, words, &env)?;
        if counts.failed > 0 {
            let lines: Vec<_> = output.lines().collect();
            let first = lines.len().saturating_sub(MAX_SHOWN_LINES);
            print_line!("{}", lines[first..].join("\n"));
        }
        let shown = match words.starts_with("test ") {
            true => format!(": {counts}"),
            false => String::new(),
        };
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        let seconds = started.elapsed().as_secs_f32();
        print_line!("{verdict:<8} {name}{shown} ({seconds:.1} s)");
        self.add(name, Ok(counts))?;
        Ok(is_good)
    }

    /// Calls cargo. Returns whether it succeeded, its counts and its output.
    fn cargo(
        &self,
        name: &str,
        words: &str,
        env: &Environment,
    ) -> anyhow::Result<(bool, TestCounts, String)> {
        let log = self.layout.fresh_log(&format!("test-{name}"))?;
        let heartbeat = Heartbeat::start("test", name);
        let cargo = Program::new("cargo")?
            .words(words)
            .envs([("CARGO_TERM_COLOR", "never")])
            .envs(env.iter().map(|(key, value)| (key, value)))
            .dir(&self.layout.root)
            .log_to(&log)?;
        let is_good = cargo.succeeds(&self.layout.shutdown, Some(heartbeat))?;
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut counts = TestCounts::from_cargo(&output);
        if words.starts_with("test ") {
            // A filter that matches no test any more must not pass.
            counts = counts.or_failed(is_good);
        } else if !is_good {
            counts.failed = 1;
        }
        Ok((is_good, counts, output))
    }
}
