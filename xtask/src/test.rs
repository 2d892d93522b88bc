//! `cargo xtask test`: everything that has to hold, the real services included.

mod real;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{anyhow, bail};

use crate::args::Options;
use crate::cargo::{BUILD, CLIPPY, FMT, exit_code};
use crate::clients::{self, Servers};
use crate::conformance;
use crate::console::{Heartbeat, line};
use crate::deny;
use crate::images;
use crate::layout::Layout;
use crate::process::Program;
use crate::services::postgres::Postgres;
use crate::services::{Environment, n8n};
use crate::tally::Tally;

use real::Real;

const UNIT: &str = "test --workspace --exclude tests --no-fail-fast";

/// The servers as programs, against the services that are there, and beside servers of others.
const REAL: &str = "test --package tests --no-fail-fast --";

/// The same against an n8n of the oldest version that the server speaks with. The README's calls name
/// the example by an id that n8n 1 does not let be chosen.
const OLDER_N8N: &str = "test --package tests --no-fail-fast -- n8n::real --skip readme";

/// The event log of the gateway in a real PostgreSQL, which only a feature links.
const SHARED_EVENTS: &str = "test --package mcp-gateway --features postgres --lib --no-fail-fast -- \
     events::tests::shared";

/// Enough of a failed stage's output to see what is wrong.
const MAX_SHOWN_LINES: usize = 200;

/// Runs all stages; the exit code says whether all of them were good.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let mut run = Run {
        layout,
        sum: Tally::default(),
    };
    let (stages, real, others) = thread::scope(|scope| {
        // Fetching and starting services takes minutes at first: it runs beside the other stages.
        let real = (!options.quick).then(|| scope.spawn(|| Real::start(layout)));
        let others = (!options.quick).then(|| scope.spawn(|| clients::servers(layout)));
        let stages = run.stages();
        if stages.is_err() {
            layout.stop.request();
        }
        let real = real.map(|real| real.join()).transpose();
        let others = others.map(|others| others.join()).transpose();
        (stages, real, others)
    });
    let broken = |_| anyhow!("the start of the services failed");
    let (real, others) = (real.map_err(broken)?, others.map_err(broken)?);
    let (real, others) = (real.unwrap_or_default(), others.unwrap_or_default());
    if stages? {
        run.whole_programs(&real, &others)?;
        if !options.quick {
            run.extra("n8n-1", OLDER_N8N, real.environment_of(&n8n::OLDER))?;
            run.part("compose", || images::check::linked(layout))?;
            run.extra("postgres", SHARED_EVENTS, real.environment_of(&Postgres))?;
            let conformance = conformance::run(layout);
            run.add("conformance", conformance)?;
            run.sum += clients::run(layout)?;
        }
    }
    for (service, why) in &real.missing {
        run.sum += Tally::left_out(service, why);
    }
    for (sdk, why) in &others.missing {
        run.sum += Tally::left_out(&format!("gateway before {sdk}"), why);
    }
    if options.keep {
        real.keep(layout, &others.environment)?;
    }
    drop(real);
    let logs = layout.backends().join("logs");
    let (seconds, logs) = (started.elapsed().as_secs(), layout.shown(&logs));
    line(format_args!("\nin {seconds} s, logs in {logs}"));
    line(run.sum);
    Ok(exit_code(run.sum.failed == 0))
}

struct Run<'a> {
    layout: &'a Layout,
    sum: Tally,
}

impl Run<'_> {
    /// Runs what needs no service; true when there are programs to go on with.
    fn stages(&mut self) -> anyhow::Result<bool> {
        self.stage("format", FMT, Vec::new())?;
        self.stage("lints", CLIPPY, Vec::new())?;
        let layout = self.layout;
        self.part("deny", || match deny::check(layout)? {
            Some(faults) => bail!(faults),
            None => Ok(()),
        })?;
        let built = self.stage("build", BUILD, Vec::new())?;
        self.stage("unit", UNIT, Vec::new())?;
        Ok(built)
    }

    fn whole_programs(&mut self, real: &Real, others: &Servers) -> anyhow::Result<()> {
        let mut words = REAL.to_owned();
        for module in real.absent() {
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

    /// Runs a few tests once more, where what they need is there.
    fn extra(
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
    fn part(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        let done = work();
        let is_done = done.is_ok();
        let tally = done.map(|()| Tally::PASSED);
        self.add(name, tally)?;
        if is_done {
            let seconds = started.elapsed().as_secs_f32();
            line(format_args!("ok       {name} ({seconds:.1} s)"));
        }
        Ok(())
    }

    /// Adds what came of a part of the work.
    fn add(&mut self, name: &str, tally: anyhow::Result<Tally>) -> anyhow::Result<()> {
        if self.layout.stop.requested() {
            bail!("stopped");
        }
        self.sum += Tally::from_result(name, tally);
        Ok(())
    }

    /// Calls cargo, with one line about it; its output is shown when it fails.
    fn stage(&mut self, name: &'static str, words: &str, env: Environment) -> anyhow::Result<bool> {
        let log = self.layout.fresh_log(&format!("test-{name}"))?;
        let started = Instant::now();
        let mut beat = Heartbeat::start("test", name);
        let cargo = Program::new("cargo")?
            .words(words)
            .envs([("CARGO_TERM_COLOR", "never")])
            .envs(env)
            .dir(&self.layout.root)
            .log_to(&log)?
            .spawn()?;
        let is_good = cargo.wait(&self.layout.stop, || beat.beat())?.success();
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut tally = Tally::from_cargo(&output);
        if !is_good {
            tally.failed = tally.failed.max(1);
            let lines: Vec<_> = output.lines().collect();
            line(lines[lines.len().saturating_sub(MAX_SHOWN_LINES)..].join("\n"));
        }
        let counts = if words.starts_with("test ") {
            format!(": {tally}")
        } else {
            String::new()
        };
        let (verdict, seconds) = (tally.verdict(), started.elapsed().as_secs_f32());
        line(format_args!("{verdict:<8} {name}{counts} ({seconds:.1} s)"));
        self.add(name, Ok(tally))?;
        Ok(is_good)
    }
}
