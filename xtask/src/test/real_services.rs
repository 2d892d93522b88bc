//! The real services of one test run: new, on free ports, removed afterwards.

use anyhow::Result;

use crate::counts::TestCounts;
use crate::install::debian::{self, DebianPackages};
use crate::process::in_parallel;
use crate::services::docker::{DOCKER, DOCKER_26, DOCKER_28, PODMAN, install_test_programs};
use crate::services::postgres::Postgres;
use crate::services::{Environment, RunningService, Service, n8n, openhands};
use crate::{layout, secrets, shutdown};

/// Its package of the server has `promtool`, which checks metrics, alert rules and the expressions of the dashboard.
const PROMETHEUS: DebianPackages = DebianPackages("prometheus", "", "prometheus");

/// The newest versions.
pub(crate) const MAIN: [&dyn Service; 4] = [&n8n::N8n, &openhands::CURRENT, &DOCKER_26, &Postgres];

/// The newest versions, and other engines.
pub(crate) const ALL: [&dyn Service; 7] = [
    MAIN[0], MAIN[1], MAIN[2], MAIN[3], &DOCKER, &DOCKER_28, &PODMAN,
];

#[derive(Default)]
pub(crate) struct RealServices {
    running: Vec<RunningService>,
    /// The missing services and programs, with the reasons.
    pub(crate) missing: Vec<(&'static str, anyhow::Error)>,
    /// Programs that tests start themselves.
    programs: Environment,
}

impl RealServices {
    /// Starts these services, and installs the programs that the tests of engines start.
    pub(crate) fn start(wanted: &[&dyn Service]) -> Self {
        let mut services = Self::default();
        let started = in_parallel(wanted, |service| RunningService::start(*service));
        for (service, result) in wanted.iter().zip(started) {
            match result {
                Ok(running) => services.running.push(running),
                Err(why) => services.missing.push((service.name(), why)),
            }
        }
        if !wanted.iter().any(|service| service.name() == "docker-26") {
            return services;
        }
        let promtool = debian::installed_or(&PROMETHEUS, "promtool", "usr/bin/promtool");
        let promtool = ("MCP_TEST_PROMTOOL", promtool.map(|(program, _)| program));
        for (variable, installed) in install_test_programs().into_iter().chain([promtool]) {
            match installed {
                Ok(path) => services.programs.push((variable, path.into())),
                Err(why) => services.missing.push((variable, why)),
            }
        }
        services
    }

    /// Prints a line for each missing service and program.
    pub(crate) fn missing_counts(&self) -> TestCounts {
        let missing = self.missing.iter();
        missing.map(|(name, why)| TestCounts::skip(name, why)).sum()
    }

    pub(crate) fn environment(&self) -> Environment {
        let mut all = self.programs.clone();
        for (name, value) in self.running.iter().flat_map(|running| &running.environment) {
            match all.iter_mut().find(|(known, _)| known == name) {
                // Several engines are in one variable.
                Some((_, known)) => {
                    known.push(" ");
                    known.push(value);
                }
                None => all.push((name, value.clone())),
            }
        }
        all
    }

    /// Writes their variables to a file, and keeps them running until Ctrl-C.
    pub(crate) fn keep(&self) -> Result<()> {
        let file = layout::backends().join("test/env");
        let binaries = ("MCP_TEST_BIN_DIR", layout::binaries(false).into());
        let variables = [binaries].into_iter().chain(self.environment());
        let lines = variables.map(|(name, value)| format!("export {name}='{}'\n", value.display()));
        secrets::write(&file, &lines.collect::<String>())?;
        let file = layout::shown(&file);
        print_line!("\nthe services stay up until Ctrl-C; in another terminal:");
        print_line!("  source {file} && cargo nextest run --workspace NAME");
        shutdown::wait();
        Ok(())
    }
}

impl Drop for RealServices {
    fn drop(&mut self) {
        // All at the same time.
        let running = self.running.iter_mut();
        running.for_each(|service| service.process.ask_to_end());
    }
}
