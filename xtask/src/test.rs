//! `cargo xtask test`: all that a change can break on Linux, with the newest services. `cargo xtask nightly` tests
//! everything else.

pub(crate) mod real_services;

use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::counts::TestCounts;
use crate::services::Service;
use crate::{checks, conformance, layout, shutdown};

use real_services::{MAIN, RealServices};

const DOC_TESTS: &str = "test --quiet --workspace --doc --no-fail-fast";

/// The tests that do nothing without a service, or one of its programs.
const WITH_SERVICES: &str = "test(/::real::|^seed_001::|::promtool_/) \
     - test(/::(every_tool_has_a_row|unknown_members_of_a_newer_engine|requests_name_the_version_of_the_engine)/) \
     | test(/^openhands::/) - test(/^openhands::(faults|mcp_servers::invalid_options)/) \
     | package(gateway-store) & test(/postgres_|^shared::tests::task_of_a_gateway/)";

/// Tells the tests that no service is wanted: then one that asks for its service fails, since it should not run. Without
/// it, and with `CI=true`, a test without its service fails.
const NO_SERVICES: &str = "MCP_TEST_WITHOUT_SERVICES";

/// A part of the tests: its name, the services that it needs, and its tests in the language of nextest.
type Area = (&'static str, &'static [&'static str], &'static str);

const AREAS: [Area; 5] = [
    (
        "docker",
        &["docker-26"],
        "package(/^docker-/) | test(/^docker::|^readme::curl::docker::|^seed_001::docker$/)",
    ),
    (
        "n8n",
        &["n8n"],
        "package(/^n8n-/) | test(/^n8n::|^readme::curl::n8n::|^seed_001::n8n$/)",
    ),
    (
        "openhands",
        &["openhands"],
        "package(/^openhands-/) | test(/^readme::curl::openhands::|^seed_001::openhands$/) \
         | test(/^openhands::/) - test(/task_runs_an_n8n|task_restarts_a_container/)",
    ),
    (
        "gateway",
        &["n8n", "openhands", "docker-26", "postgres"],
        "package(/gateway/) | test(/^gateway::|^readme::recipes::|^hosts::doctor::real::/) \
         | test(/task_runs_an_n8n|task_restarts_a_container/)",
    ),
    // The others: those of the protocol, of the commands and of the files that programs share.
    ("protocol", &[], ""),
];

/// Format, lints, documentation, spelling, dependencies, then all tests with the newest services, and the newest official
/// suite.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only the tests that need no service; `cargo xtask check` has the lints.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Only the tests of docker, n8n, openhands, gateway or protocol, with the services that these need.
    #[arg(long, value_name = "AREA")]
    only: Option<String>,
    /// Afterwards keep the services up until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let started = Instant::now();
    let area = options.only.as_deref().map(area).transpose()?;
    let is_whole = area.is_none() && !options.quick;
    let is_wanted = |service: &&dyn Service| match area {
        Some((_, services, _)) => services.contains(&service.name()),
        None => !options.quick,
    };
    let services: Vec<_> = MAIN.into_iter().filter(is_wanted).collect();
    let mut sum = TestCounts::default();
    let (built, real) = thread::scope(|scope| {
        // The first installation takes minutes: it runs beside the other stages.
        let real = scope.spawn(|| RealServices::start(&services));
        let mut check_and_build = || {
            if is_whole {
                sum += checks::all()?;
            }
            checks::stage("build", &format!("{} --quiet", checks::BUILD))
        };
        let built = check_and_build().inspect_err(|_| shutdown::request());
        (built, real.join())
    });
    let real = real.map_err(|_| anyhow!("the start of the services failed"))?;
    let built = built?;
    sum += built;
    if built.failed == 0 {
        let counts = tests(&real, services.is_empty(), area);
        sum += TestCounts::from_result("tests", counts);
        if area.is_none() {
            sum += checks::stage("doc-tests", DOC_TESTS)?;
        }
        if is_whole {
            sum += TestCounts::from_result("conformance", conformance::run_newest());
        }
    }
    ensure!(!shutdown::requested(), "stopped");
    sum += real.missing_counts();
    if options.keep {
        real.keep()?;
    }
    drop(real);
    let logs = layout::backends().join("logs");
    let (seconds, logs) = (started.elapsed().as_secs(), layout::shown(&logs));
    print_line!("\nin {seconds} s, logs in {logs}");
    sum.print_sum()
}

fn area(name: &str) -> Result<Area> {
    let found = AREAS.into_iter().find(|(known, ..)| *known == name);
    let names = AREAS.map(|(name, ..)| name).join(", ");
    found.with_context(|| format!("there is no area `{name}`: {names}"))
}

/// Returns the tests of an area, in the language of nextest.
fn filter(area: Option<Area>) -> String {
    match area {
        None => "all()".to_owned(),
        Some((_, _, "")) => {
            let others = AREAS.iter().filter(|(.., tests)| !tests.is_empty());
            let others: Vec<_> = others.map(|(.., tests)| format!("({tests})")).collect();
            format!("not ({})", others.join(" | "))
        }
        Some((.., tests)) => format!("({tests})"),
    }
}

fn tests(real: &RealServices, without_services: bool, area: Option<Area>) -> Result<TestCounts> {
    let mut filter = filter(area);
    for (name, _) in &real.missing {
        let module = name.trim_end_matches("-26");
        filter.push_str(&format!(" - (test(/^{module}::/) & ({WITH_SERVICES}))"));
    }
    let mut env = real.environment();
    if without_services {
        filter.push_str(&format!(" - ({WITH_SERVICES})"));
        env.push((NO_SERVICES, "1".into()));
    }
    checks::nextest("tests", ("", &filter), &env)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn quick_tests_are_of_no_area() {
        let parse = |words: &str| {
            let command = Options::augment_args(clap::Command::new("test").no_binary_name(true));
            command.try_get_matches_from(words.split(' ')).is_ok()
        };
        assert!(parse("--quick") && parse("--only n8n --keep"));
        assert!(!parse("--quick --only n8n"));
    }

    #[test]
    fn each_area_has_its_tests_and_the_last_one_the_others() {
        let filters = AREAS.map(|area| filter(Some(area)));
        let [services @ .., others] = &filters;
        assert_eq!(*others, format!("not ({})", services.join(" | ")));
        assert!(area("nothing").is_err_and(|error| error.to_string().contains("openhands")));
    }
}
