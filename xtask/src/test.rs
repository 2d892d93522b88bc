//! `cargo xtask test`: all checks and tests, also against the real services.

mod promtool;
mod real_services;
mod repeat;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{anyhow, bail};

use crate::args::Options;
use crate::bench;
use crate::cargo::{BUILD, CLIPPY, FMT, exit_code};
use crate::clients::{self, OtherServers};
use crate::conformance;
use crate::console::Heartbeat;
use crate::counts::TestCounts;
use crate::deny;
use crate::images;
use crate::layout::Layout;
use crate::process::Program;
use crate::services::postgres::Postgres;
use crate::services::{Environment, n8n, openhands};

use real_services::RealServices;
use repeat::Repetition;

const UNIT: &str = "test --workspace --exclude tests --no-fail-fast";

/// The servers as programs, with the services that are available, and servers of others.
const SERVERS: &str = "test --package tests --no-fail-fast --";

/// The same with an n8n of the oldest version that the server supports. The README's calls name the
/// example by an id, and n8n 1 takes no ids.
const OLDER_N8N: &str = "test --package tests --no-fail-fast -- n8n::real --skip readme";

/// The same with the agent server that `openhands-ai` brings: modules that depend on its version. The chore
/// `openhands-versions` runs all.
const OLDER_OPENHANDS: &str = "test --package tests --no-fail-fast -- openhands::tasks \
     openhands::errors openhands::confirmation openhands::parallel openhands::files \
     openhands::mcp_servers openhands::read_tools";

/// The event log of the gateway, and the tables of its replicas, in a real PostgreSQL.
const SHARED_STORE: &str = "test --package gateway-store --lib --no-fail-fast -- \
     events::tests::postgres events::postgres::hosts replicas::tests replicas::tasks::tests \
     replicas::reports::tests replicas::placements::tests";

/// Lines of a failed stage's output on the terminal.
const MAX_SHOWN_LINES: usize = 200;

/// Runs all stages; the exit code says whether all of them passed.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut run = TestRun {
        layout,
        sum: TestCounts::default(),
    };
    let is_full = !options.has("quick");
    let (stages, real, others) = thread::scope(|scope| {
        // The first installation takes minutes: it runs beside the other stages.
        let real = is_full.then(|| scope.spawn(|| RealServices::start(layout)));
        let others = is_full.then(|| scope.spawn(|| clients::install_servers(layout)));
        let stages = run.stages();
        if stages.is_err() {
            layout.shutdown.request();
        }
        let real = real.map(|real| real.join()).transpose();
        let others = others.map(|others| others.join()).transpose();
        (stages, real, others)
    });
    let panicked = |_| anyhow!("the start of the services failed");
    let real = real.map_err(panicked)?.unwrap_or_default();
    let others = others.map_err(panicked)?.unwrap_or_default();
    if stages? {
        run.servers(&real, &others)?;
        if is_full {
            run.extra_stage("n8n-1", OLDER_N8N, real.environment_of(&n8n::OLDER))?;
            run.extra_stage(
                "openhands-app",
                OLDER_OPENHANDS,
                real.environment_of(&openhands::OF_APP),
            )?;
            run.step("instructions", || bench::check_instructions(layout))?;
            run.step("compose", || images::check::run_linked(layout))?;
            run.extra_stage("postgres", SHARED_STORE, real.environment_of(&Postgres))?;
            run.add("conformance", conformance::run(layout))?;
            run.sum += clients::run(layout)?;
        }
    }
    for (service, why) in &real.missing {
        run.sum += TestCounts::skip(service, why);
    }
    for (sdk, why) in &others.missing {
        run.sum += TestCounts::skip(&format!("gateway with {sdk}"), why);
    }
    if options.has("keep") {
        real.keep(layout, &others.environment)?;
    }
    drop(real);
    let logs = layout.backends().join("logs");
    let (seconds, logs) = (started.elapsed().as_secs(), layout.shown(&logs));
    print_line!("\nin {seconds} s, logs in {logs}");
    print_line!("{}", run.sum);
    Ok(exit_code(run.sum.failed == 0))
}

struct TestRun<'a> {
    layout: &'a Layout,
    sum: TestCounts,
}

impl TestRun<'_> {
    /// Runs the stages that need no service; returns true if the programs are built.
    fn stages(&mut self) -> anyhow::Result<bool> {
        self.stage("format", FMT, Vec::new())?;
        self.stage("lints", CLIPPY, Vec::new())?;
        let layout = self.layout;
        self.step("deny", || deny::check(layout))?;
        let built = self.stage("build", BUILD, Vec::new())?;
        self.stage("unit", UNIT, Vec::new())?;
        Ok(built)
    }

    fn servers(&mut self, real: &RealServices, others: &OtherServers) -> anyhow::Result<()> {
        let mut words = SERVERS.to_owned();
        for module in real.modules_without_service() {
            words.push_str(" --skip ");
            words.push_str(&module);
        }
        let mut env = real.environment();
        env.extend(others.environment.iter().cloned());
        env.push(self.binaries());
        self.stage("servers", &words, env)?;
        Ok(())
    }

    fn binaries(&self) -> (&'static str, OsString) {
        ("MCP_TEST_BIN_DIR", self.layout.binaries(false).into())
    }

    /// Runs some tests again, in another environment, if that is available.
    fn extra_stage(
        &mut self,
        name: &'static str,
        words: &str,
        env: Option<Environment>,
    ) -> anyhow::Result<()> {
        if let Some(mut env) = env {
            env.push(self.binaries());
            let skipped = self.sum.skipped;
            self.stage(name, words, env)?;
            // The others ran before.
            self.sum.skipped = skipped;
        }
        Ok(())
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
        let (is_good, mut counts, output) = self.cargo(name, words, &env)?;
        if counts.failed > 0 {
            let lines: Vec<_> = output.lines().collect();
            let first = lines.len().saturating_sub(MAX_SHOWN_LINES);
            print_line!("{}", lines[first..].join("\n"));
        }
        let repetition = Repetition::from_output(words, &output, counts.failed);
        if let Some(Repetition { words, tests }) = repetition {
            let again = format!("{name}-again");
            let (_, repeated, _) = self.cargo(&again, &words, &env)?;
            if repeated.failed == 0 && repeated.passed == counts.failed {
                counts = TestCounts::new(counts.passed + counts.failed, 0, counts.skipped);
                for test in tests {
                    print_line!("repeated {test}: failed beside the others, passed alone");
                }
            }
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
