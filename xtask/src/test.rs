//! `cargo xtask test`: everything that has to hold, the real services included.

mod engines;
mod real;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::args;
use crate::clients::{self, Servers};
use crate::conformance::{self, Outcome};
use crate::console::{Heartbeat, line};
use crate::images;
use crate::layout::Layout;
use crate::process::Program;
use crate::services::n8n;
use crate::services::postgres::Postgres;
use crate::tally::Tally;

use real::Real;

/// The look at the format.
pub(crate) const FMT: [&str; 6] = ["fmt", "--all", "--", "--check", "--color", "never"];

/// The look at the lints.
pub(crate) const CLIPPY: [&str; 6] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Every program of the workspace.
pub(crate) const BUILD: [&str; 3] = ["build", "--workspace", "--bins"];
const UNIT: [&str; 5] = [
    "test",
    "--workspace",
    "--exclude",
    "tests",
    "--no-fail-fast",
];

/// Enough of a failed stage's output to see what is wrong.
const SHOWN_LINES: usize = 200;

/// Runs all stages; the exit code says whether all of them were good.
pub(crate) fn run(layout: &Layout, options: args::Test) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let ci = in_ci();
    let mut run = Run {
        layout,
        sum: Tally::default(),
    };
    // Fetching and starting services takes minutes at first: it runs beside the other stages.
    let services = (!options.quick).then(|| {
        let layout = layout.clone();
        thread::spawn(move || Real::start(&layout))
    });
    let others = (!options.quick).then(|| {
        let layout = layout.clone();
        thread::spawn(move || clients::servers(&layout))
    });
    let stages = run.stages();
    if stages.is_err() {
        layout.stop.request();
    }
    let real = match services.map(|services| {
        services
            .join()
            .map_err(|_| anyhow::anyhow!("the start of the services failed"))
    }) {
        Some(real) => real??,
        None => Real::default(),
    };
    let others = others.map(|others| {
        others
            .join()
            .map_err(|_| anyhow::anyhow!("the installation of servers of others failed"))
    });
    let others = others.transpose()?.unwrap_or_default();
    if stages? {
        run.whole_programs(&real, &others)?;
        run.older_n8n(&real, ci)?;
        if !options.quick {
            run.project()?;
            run.shared_events(ci)?;
            run.conformance(ci)?;
            run.sum += clients::run(layout, ci)?;
        }
    }
    for (service, why) in &real.missing {
        line(format_args!("skipped  {}: {why}", service.name()));
        if ci {
            run.sum.failed += 1;
        }
    }
    for (kit, why) in &others.missing {
        line(format_args!("skipped  gateway before {kit}: {why}"));
        run.sum.failed += u64::from(ci);
    }
    if options.keep {
        real.keep(layout, &others.environment)?;
    }
    drop(real);
    line(format_args!(
        "\nin {} s, logs in {}",
        started.elapsed().as_secs(),
        layout.shown(&layout.backends().join("logs"))
    ));
    line(run.sum);
    Ok(if run.sum.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// True where nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1")
}

struct Run<'a> {
    layout: &'a Layout,
    sum: Tally,
}

impl Run<'_> {
    /// What needs no service; true when there are programs to go on with.
    fn stages(&mut self) -> anyhow::Result<bool> {
        self.stage("format", &FMT, Vec::new())?;
        self.stage("lints", &CLIPPY, Vec::new())?;
        let built = self.stage("build", &BUILD, Vec::new())?;
        self.stage("unit", &UNIT, Vec::new())?;
        Ok(built)
    }

    /// The servers as programs, against the services that are there, and beside servers of others.
    fn whole_programs(&mut self, real: &Real, others: &Servers) -> anyhow::Result<()> {
        let mut args = vec!["test", "--package", "tests", "--no-fail-fast", "--"];
        // The tests that need a service lie in a module `real` under the one of its name.
        let absent: Vec<_> = real
            .absent()
            .map(|service| format!("{}::real", service.name()))
            .collect();
        args.extend(absent.iter().flat_map(|module| ["--skip", module.as_str()]));
        let mut env = real.environment();
        env.extend(others.environment.iter().cloned());
        env.push(("MCP_TEST_BIN_DIR", self.layout.binaries(false).into()));
        self.stage("servers", &args, env)?;
        Ok(())
    }

    /// The tests of n8n once more, against its older version.
    fn older_n8n(&mut self, real: &Real, ci: bool) -> anyhow::Result<()> {
        let mut env = match real.older_environment() {
            Some(Ok(env)) => env,
            Some(Err(why)) => {
                let version = n8n::Release::Older.version();
                line(format_args!("skipped  n8n {version}: {why}"));
                self.sum.failed += u64::from(ci);
                return Ok(());
            }
            None => return Ok(()),
        };
        env.push(("MCP_TEST_BIN_DIR", self.layout.binaries(false).into()));
        let args = [
            "test",
            "--package",
            "tests",
            "--no-fail-fast",
            "--",
            "n8n::real",
            // Its calls name the example by an id that n8n 1 does not let be chosen.
            "--skip",
            "readme",
        ];
        let skipped = self.sum.skipped;
        self.stage("n8n-1", &args, env)?;
        // The others ran before.
        self.sum.skipped = skipped;
        Ok(())
    }

    /// The project of docker-compose.yml, from images of the programs that were built.
    fn project(&mut self) -> anyhow::Result<()> {
        if let Some(why) = images::check::obstacle(self.layout) {
            line(format_args!("skipped  compose: {why}"));
            self.sum.skipped += 1;
            return Ok(());
        }
        let started = Instant::now();
        let checked = images::check::linked(self.layout);
        let verdict = match &checked {
            Ok(()) => "ok",
            Err(error) => {
                line(format_args!("{error:#}"));
                "FAILED"
            }
        };
        let seconds = started.elapsed().as_secs_f32();
        line(format_args!("{verdict:<8} compose ({seconds:.1} s)"));
        self.sum.passed += u64::from(checked.is_ok());
        self.sum.failed += u64::from(checked.is_err());
        Ok(())
    }

    /// The event log of the gateway in a real PostgreSQL, which only a feature links.
    fn shared_events(&mut self, ci: bool) -> anyhow::Result<()> {
        let database = match Postgres::start(self.layout) {
            Ok(database) => database,
            Err(why) => {
                line(format_args!("skipped  postgres: {why:#}"));
                self.sum.failed += u64::from(ci);
                return Ok(());
            }
        };
        let args = [
            "test",
            "--package",
            "mcp-gateway",
            "--features",
            "postgres",
            "--lib",
            "--no-fail-fast",
            "--",
            "events::tests::shared",
        ];
        let skipped = self.sum.skipped;
        let env = vec![
            ("MCP_TEST_POSTGRES_URL", database.url.clone().into()),
            ("SSL_CERT_FILE", database.authority.clone().into()),
        ];
        self.stage("postgres", &args, env)?;
        // The others ran before.
        self.sum.skipped = skipped;
        Ok(())
    }

    /// The official suite, with a line for each of its sets.
    fn conformance(&mut self, ci: bool) -> anyhow::Result<()> {
        match conformance::run(self.layout)? {
            Outcome::Ran(tally) => self.sum += tally,
            Outcome::Skipped(why) => {
                line(format_args!("skipped  conformance: {why}"));
                self.sum.failed += u64::from(ci);
            }
        }
        Ok(())
    }

    /// One call of cargo with one line about it; its output is shown when it fails.
    fn stage(
        &mut self,
        name: &'static str,
        args: &[&str],
        env: Vec<(&'static str, OsString)>,
    ) -> anyhow::Result<bool> {
        let log = self.layout.fresh_log(&format!("test-{name}"))?;
        let started = Instant::now();
        let mut beat = Heartbeat::start("test", name);
        let cargo = Program::guarded("cargo", Duration::from_secs(5), None)?
            .args(args)
            .envs([("CARGO_TERM_COLOR", "never")])
            .envs(env)
            .dir(&self.layout.root)
            .log_to(&log)?
            .spawn()?;
        let good = cargo.wait(&self.layout.stop, || beat.beat())?.success();
        let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut tally = Tally::of(&output);
        if !good && tally.failed == 0 {
            tally.failed = 1;
        }
        if !good {
            let lines: Vec<_> = output.lines().collect();
            line(lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"));
        }
        let verdict = if good { "ok" } else { "FAILED" };
        let counts = if args.contains(&"test") {
            format!(": {tally}")
        } else {
            String::new()
        };
        line(format_args!(
            "{verdict:<8} {name}{counts} ({:.1} s)",
            started.elapsed().as_secs_f32()
        ));
        self.sum += tally;
        if self.layout.stop.requested() {
            bail!("stopped");
        }
        Ok(good)
    }
}
