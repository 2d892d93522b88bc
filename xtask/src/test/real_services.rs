//! The real services of one test run: new, on free ports, removed afterwards.

use std::fmt::Write;
use std::thread;

use anyhow::bail;

use crate::counts::TestCounts;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::parallel;
use crate::process::Process;
use crate::secrets;
use crate::services::docker::{DOCKER, DOCKER_26, PODMAN, install_test_programs};
use crate::services::postgres::Postgres;
use crate::services::{Environment, Service, n8n, openhands};

use super::promtool;

/// The use of a service by the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// In one run with the others.
    Shared,
    /// In a run of its own, in place of another version.
    Alone,
}

pub(crate) type WantedService = (&'static dyn Service, Role);

/// The newest versions.
pub(crate) const MAIN: [WantedService; 4] = [
    (&n8n::CURRENT, Role::Shared),
    (&openhands::CURRENT, Role::Shared),
    (&DOCKER_26, Role::Shared),
    (&Postgres, Role::Shared),
];

/// The newest versions, and others.
pub(crate) const ALL: [WantedService; 7] = [
    MAIN[0],
    MAIN[1],
    MAIN[2],
    MAIN[3],
    (&DOCKER, Role::Shared),
    (&PODMAN, Role::Shared),
    (&openhands::OF_APP, Role::Alone),
];

#[derive(Debug, Default)]
pub(crate) struct RealServices {
    running: Vec<RunningService>,
    /// The missing services and programs, with the reasons.
    missing: Vec<(&'static str, String)>,
    /// Programs that tests start themselves.
    programs: Environment,
}

#[derive(Debug)]
struct RunningService {
    name: &'static str,
    role: Role,
    environment: Environment,
    process: Process,
    instance: Instance,
}

impl RealServices {
    /// Starts these services, and installs the programs that their tests start.
    pub(crate) fn start(layout: &Layout, wanted: &[WantedService]) -> Self {
        let mut services = Self::default();
        if wanted.is_empty() {
            return services;
        }
        let (started, programs) = thread::scope(|scope| {
            let programs = scope.spawn(|| {
                let mut programs = install_test_programs(layout);
                programs.push(promtool::install(layout));
                programs
            });
            let started = parallel::map(wanted, |(service, role)| {
                RunningService::start(layout, *service, *role)
            });
            (started, programs.join())
        });
        for ((service, _), result) in wanted.iter().zip(started) {
            match result {
                Ok(running) => services.running.push(running),
                Err(why) => services.missing.push((service.name(), format!("{why:#}"))),
            }
        }
        let Ok(programs) = programs else {
            let why = "their installation panicked".to_owned();
            services.missing.push(("programs of tests", why));
            return services;
        };
        for (variable, installed) in programs {
            match installed {
                Ok(path) => services.programs.push((variable, path.into())),
                Err(why) => services.missing.push((variable, format!("{why:#}"))),
            }
        }
        services
    }

    /// A line for each missing service and program. With `CI=true` each is a failure.
    pub(crate) fn missing_counts(&self) -> TestCounts {
        let mut sum = TestCounts::default();
        for (name, why) in &self.missing {
            sum += TestCounts::skip(name, why);
        }
        sum
    }

    /// Returns the modules of tests that lack their service: `real` below the service's name.
    pub(crate) fn modules_without_service(&self) -> impl Iterator<Item = String> {
        let servers = [
            ("n8n", "n8n"),
            ("openhands", "openhands"),
            ("docker-26", "docker"),
        ];
        let is_missing = |name: &str| self.missing.iter().any(|(missing, _)| *missing == name);
        let missing = servers
            .into_iter()
            .filter(move |(name, _)| is_missing(name));
        missing.map(|(_, module)| format!("{module}::real"))
    }

    /// Returns the variables with which the tests find the services.
    pub(crate) fn environment(&self) -> Environment {
        let running = self.running.iter();
        let shared = running.filter(|running| running.role == Role::Shared);
        let shared = shared.flat_map(|running| running.environment.clone());
        shared.chain(self.programs.clone()).collect()
    }

    /// Returns the variables for one service, if it is running.
    pub(crate) fn environment_of(&self, service: &dyn Service) -> Option<Environment> {
        let running = self.find(service.name())?;
        Some(running.environment.clone())
    }

    fn find(&self, name: &str) -> Option<&RunningService> {
        self.running.iter().find(|running| running.name == name)
    }

    /// Writes their variables to a file, and keeps them running until Ctrl-C.
    pub(crate) fn keep(&self, layout: &Layout) -> anyhow::Result<()> {
        let file = layout.backends().join("test/env");
        let binaries = ("MCP_TEST_BIN_DIR", layout.binaries(false).into());
        let mut script = String::new();
        for (name, value) in [binaries].iter().chain(&self.environment()) {
            writeln!(script, "export {name}='{}'", value.display())?;
        }
        secrets::write(&file, &script)?;
        let file = layout.shown(&file);
        print_line!("\nthe services stay up until Ctrl-C; in another terminal:");
        print_line!("  source {file} && cargo nextest run --workspace NAME");
        layout.shutdown.wait();
        Ok(())
    }
}

impl Drop for RealServices {
    fn drop(&mut self) {
        for running in &mut self.running {
            running.process.ask_to_end();
        }
        for running in self.running.drain(..) {
            drop(running.process);
            if let Err(error) = running.instance.clear() {
                print_line!("{}: {error:#}", running.name);
            }
        }
    }
}

impl RunningService {
    fn start(layout: &Layout, service: &dyn Service, role: Role) -> anyhow::Result<Self> {
        if let Some(obstacle) = service.obstacle(layout) {
            bail!(obstacle);
        }
        service.install(layout)?;
        let instance = Instance::lock(layout, service.name(), Purpose::Test, 0)?;
        instance.clear()?;
        let process = service.start(layout, &instance)?;
        Ok(Self {
            name: service.name(),
            role,
            environment: service.test_environment(layout, &instance),
            process,
            instance,
        })
    }
}
