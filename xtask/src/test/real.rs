//! The real services of one test run: fresh, on ports of their own, gone afterwards.

use std::fmt::Write;
use std::path::PathBuf;
use std::thread;

use anyhow::{anyhow, bail};

use crate::console::line;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::parallel;
use crate::process::Process;
use crate::secrets;
use crate::services::docker::podman::Podman;
use crate::services::docker::{Engine, NewerEngine, install_compose};
use crate::services::openhands::OpenHands;
use crate::services::postgres::Postgres;
use crate::services::{Environment, Service, n8n};

/// What the tests do without a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Those of its server are left out.
    Main,
    /// A few tests have nothing to do.
    Beside,
    /// A stage of its own is left out.
    Stage,
}

/// All services, and what each is for.
static SERVICES: [(&dyn Service, Role); 7] = [
    (&n8n::CURRENT, Role::Main),
    (&OpenHands, Role::Main),
    (&Engine, Role::Main),
    (&n8n::OLDER, Role::Stage),
    (&NewerEngine, Role::Beside),
    (&Podman, Role::Beside),
    (&Postgres, Role::Stage),
];

/// What there is to test against.
#[derive(Debug, Default)]
pub(crate) struct Real {
    running: Vec<Running>,
    /// The services that could not be had, and why.
    pub(crate) missing: Vec<(&'static str, String)>,
    compose: Option<PathBuf>,
}

/// A service that runs.
#[derive(Debug)]
struct Running {
    name: &'static str,
    role: Role,
    environment: Environment,
    process: Process,
    instance: Instance,
}

impl Real {
    /// Fetches and starts all of them side by side.
    pub(crate) fn start(layout: &Layout) -> Self {
        let mut real = Self::default();
        let (started, compose) = thread::scope(|scope| {
            let compose = scope.spawn(|| install_compose(layout));
            let start =
                |(service, role): &(&dyn Service, Role)| Running::start(layout, *service, *role);
            (parallel::map(&SERVICES, start), compose.join())
        });
        for (&(service, role), result) in SERVICES.iter().zip(started) {
            match result {
                Ok(running) => real.running.push(running),
                Err(why) if role == Role::Beside => not_tested(service.name(), &why),
                Err(why) => real.missing.push((service.name(), format!("{why:#}"))),
            }
        }
        match compose.unwrap_or_else(|_| Err(anyhow!("it broke off"))) {
            Ok(folder) => real.compose = Some(folder),
            Err(why) => not_tested("compose", &why),
        }
        real
    }

    /// Returns the modules of tests that have no service, for whatever reason.
    pub(crate) fn absent(&self) -> impl Iterator<Item = String> {
        let main = SERVICES.iter().filter(|(_, role)| *role == Role::Main);
        let absent = main.filter(|(service, _)| self.find(service.name()).is_none());
        // The tests that need a service lie in a module `real` under the one of its name.
        absent.map(|(service, _)| format!("{}::real", service.name()))
    }

    /// Returns what the tests have to know to find the services.
    pub(crate) fn environment(&self) -> Environment {
        let shared = self
            .running
            .iter()
            .filter(|running| running.role != Role::Stage);
        let mut environment: Environment = shared
            .flat_map(|running| running.environment.clone())
            .collect();
        let compose = self.compose.iter();
        environment.extend(compose.map(|folder| ("MCP_TEST_COMPOSE_DIR", folder.into())));
        environment
    }

    /// Returns what a stage of its own has to know to find its service, where that is there.
    pub(crate) fn environment_of(&self, service: &dyn Service) -> Option<Environment> {
        let running = self.find(service.name())?;
        Some(running.environment.clone())
    }

    fn find(&self, name: &str) -> Option<&Running> {
        self.running.iter().find(|running| running.name == name)
    }

    /// Keeps them up until Ctrl-C and writes down how to reach them, with these variables beside.
    pub(crate) fn keep(&self, layout: &Layout, more: &Environment) -> anyhow::Result<()> {
        let file = layout.backends().join("test/env");
        let binaries = ("MCP_TEST_BIN_DIR", layout.binaries(false).into());
        let environment = self.environment();
        let mut script = String::new();
        for (name, value) in [binaries].iter().chain(&environment).chain(more) {
            writeln!(script, "export {name}='{}'", value.display())?;
        }
        secrets::write(&file, &script)?;
        if let Some(older) = self.environment_of(&n8n::OLDER) {
            for (name, value) in older {
                writeln!(script, "export {name}='{}'", value.display())?;
            }
            secrets::write(&layout.backends().join("test/env-n8n-1"), &script)?;
        }
        let file = layout.shown(&file);
        line("\nthe services stay up until Ctrl-C; in another terminal:");
        line(format_args!(
            "  source {file} && cargo test --package tests"
        ));
        layout.stop.wait();
        Ok(())
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for running in &mut self.running {
            running.process.ask_to_end();
        }
        for Running {
            name,
            process,
            instance,
            ..
        } in self.running.drain(..)
        {
            drop(process);
            if let Err(error) = instance.clear() {
                line(format_args!("{name}: {error:#}"));
            }
        }
    }
}

impl Running {
    fn start(layout: &Layout, service: &dyn Service, role: Role) -> anyhow::Result<Self> {
        if let Some(obstacle) = service.obstacle(layout) {
            bail!(obstacle);
        }
        service.install(layout)?;
        let instance = Instance::take(layout, service.name(), Purpose::Test, 0)?;
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

fn not_tested(who: &str, why: &anyhow::Error) {
    line(format_args!("{who}: not tested, {why:#}"));
}
