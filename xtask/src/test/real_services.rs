//! The real services of one test run: new, on free ports, removed afterwards.

use std::fmt::Write;
use std::thread;

use anyhow::bail;

use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::parallel;
use crate::process::Process;
use crate::secrets;
use crate::services::docker::{DOCKER, DOCKER_26, PODMAN, install_test_programs};
use crate::services::postgres::Postgres;
use crate::services::{Environment, Service, n8n, openhands};

use super::promtool;

/// The tests that need a service, and the consequence of its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The module `real` of its server's tests; that is skipped.
    Main,
    /// A few tests, which then have nothing to do.
    Additional,
    /// A stage of its own; that is skipped.
    OwnStage,
}

static SERVICES: [(&dyn Service, Role); 8] = [
    (&n8n::CURRENT, Role::Main),
    (&openhands::CURRENT, Role::Main),
    (&DOCKER, Role::Main),
    (&n8n::OLDER, Role::OwnStage),
    (&openhands::OF_APP, Role::OwnStage),
    (&DOCKER_26, Role::Additional),
    (&PODMAN, Role::Additional),
    (&Postgres, Role::OwnStage),
];

#[derive(Debug, Default)]
pub(crate) struct RealServices {
    running: Vec<RunningService>,
    /// The missing services, with the reasons.
    pub(crate) missing: Vec<(&'static str, String)>,
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
    pub(crate) fn start(layout: &Layout) -> Self {
        let mut services = Self::default();
        let (started, programs) = thread::scope(|scope| {
            let programs = scope.spawn(|| {
                let mut programs = install_test_programs(layout);
                programs.push(promtool::install(layout));
                programs
            });
            let started = parallel::map(&SERVICES, |(service, role)| {
                RunningService::start(layout, *service, *role)
            });
            (started, programs.join())
        });
        for (&(service, role), result) in SERVICES.iter().zip(started) {
            match result {
                Ok(running) => services.running.push(running),
                Err(why) if role == Role::Additional => print_untested(service.name(), &why),
                Err(why) => services.missing.push((service.name(), format!("{why:#}"))),
            }
        }
        for (variable, installed) in programs.unwrap_or_default() {
            match installed {
                Ok(path) => services.programs.push((variable, path.into())),
                Err(why) => print_untested(variable, &why),
            }
        }
        services
    }

    /// Returns the modules of tests that lack their service: `real` below the service's name.
    pub(crate) fn modules_without_service(&self) -> impl Iterator<Item = String> {
        let main = SERVICES.iter().filter(|(_, role)| *role == Role::Main);
        let missing = main.filter(|(service, _)| self.find(service.name()).is_none());
        missing.map(|(service, _)| format!("{}::real", service.name()))
    }

    /// Returns the variables with which the tests find the services.
    pub(crate) fn environment(&self) -> Environment {
        let running = self.running.iter();
        let shared = running.filter(|running| running.role != Role::OwnStage);
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

    /// Writes their variables and these to a file, and keeps them running until Ctrl-C.
    pub(crate) fn keep(&self, layout: &Layout, more: &Environment) -> anyhow::Result<()> {
        let file = layout.backends().join("test/env");
        let binaries = ("MCP_TEST_BIN_DIR", layout.binaries(false).into());
        let environment = self.environment();
        let mut script = String::new();
        for (name, value) in [binaries].iter().chain(&environment).chain(more) {
            writeln!(script, "export {name}='{}'", value.display())?;
        }
        secrets::write(&file, &script)?;
        let others = self.running.iter();
        for other in others.filter(|other| other.role == Role::OwnStage) {
            let mut script = script.clone();
            for (name, value) in &other.environment {
                writeln!(script, "export {name}='{}'", value.display())?;
            }
            let file = format!("test/env-{}", other.name);
            secrets::write(&layout.backends().join(file), &script)?;
        }
        let file = layout.shown(&file);
        print_line!("\nthe services stay up until Ctrl-C; in another terminal:");
        print_line!("  source {file} && cargo test --package tests");
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

fn print_untested(who: &str, why: &anyhow::Error) {
    print_line!("{who}: not tested, {why:#}");
}
