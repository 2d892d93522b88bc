//! The real services of one test run: fresh, on ports of their own, gone afterwards.

use std::ffi::OsString;
use std::fmt::Write;
use std::thread;

use super::engines::Engines;
use crate::console::line;
use crate::layout::Layout;
use crate::process::Process;
use crate::secrets;
use crate::services::{Place, Purpose, Service, docker, n8n, openhands};

/// What there is to test against.
#[derive(Debug, Default)]
pub(crate) struct Real {
    running: Vec<Running>,
    /// What could not be had, and why.
    pub(crate) missing: Vec<(Service, String)>,
    /// A second n8n, of an older version; or why there is none.
    older: Option<Result<Running, String>>,
    engines: Engines,
}

/// A service that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) service: Service,
    pub(super) process: Process,
    pub(super) place: Place,
}

impl Real {
    /// Fetches and starts all three side by side, and n8n in two versions.
    pub(crate) fn start(layout: &Layout) -> anyhow::Result<Self> {
        let mut real = Self::default();
        let started = thread::scope(|scope| {
            let older = scope.spawn(move || start_older(layout));
            let engines = scope.spawn(move || Engines::start(layout));
            let threads =
                Service::ALL.map(|service| (service, scope.spawn(move || start(layout, service))));
            let started = threads.map(|(service, thread)| {
                (
                    service,
                    thread
                        .join()
                        .unwrap_or_else(|_| Err(anyhow::anyhow!("the start failed"))),
                )
            });
            let older = older
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("the start failed")));
            real.older = Some(older.map_err(|error| format!("{error:#}")));
            real.engines = engines.join().unwrap_or_default();
            started
        });
        for (service, result) in started {
            match result {
                Ok(running) => real.running.push(running),
                Err(error) => real.missing.push((service, format!("{error:#}"))),
            }
        }
        Ok(real)
    }

    /// The services that are not there, for whatever reason.
    pub(crate) fn absent(&self) -> impl Iterator<Item = Service> {
        Service::ALL.into_iter().filter(|service| {
            self.running
                .iter()
                .all(|running| running.service != *service)
        })
    }

    /// What the tests have to know to find them.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment: Vec<_> = self.running.iter().flat_map(Running::environment).collect();
        environment.extend(self.engines.environment());
        environment
    }

    /// The same with the older n8n in the place of the other; or why there is none. `None` where
    /// nothing was to be started.
    pub(crate) fn older_environment(&self) -> Option<Result<Vec<(&'static str, OsString)>, &str>> {
        let older = self.older.as_ref()?;
        Some(
            older
                .as_ref()
                .map(Running::environment)
                .map_err(|why| why.as_str()),
        )
    }

    /// Keeps them up until Ctrl-C and writes down how to reach them, with these variables beside.
    pub(crate) fn keep(
        &self,
        layout: &Layout,
        more: &[(&'static str, OsString)],
    ) -> anyhow::Result<()> {
        let mut script = format!(
            "export MCP_TEST_BIN_DIR='{}'\n",
            layout.binaries(false).display()
        );
        for (name, value) in self.environment().iter().chain(more) {
            writeln!(script, "export {name}='{}'", value.display())?;
        }
        let file = layout.backends().join("test/env");
        secrets::write(&file, &script)?;
        if let Some(Ok(older)) = self.older_environment() {
            for (name, value) in older {
                writeln!(script, "export {name}='{}'", value.display())?;
            }
            secrets::write(&layout.backends().join("test/env-n8n-1"), &script)?;
        }
        line("\nthe services stay up until Ctrl-C; in another terminal:");
        line(format_args!(
            "  source {} && cargo test --package tests",
            layout.shown(&file)
        ));
        layout.stop.wait();
        Ok(())
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let older = self.older.iter_mut().flatten();
        let mut engines: Vec<_> = self.engines.take().collect();
        self.running
            .iter_mut()
            .chain(older)
            .chain(&mut engines)
            .for_each(|running| running.process.ask_to_end());
        let older = self.older.take().and_then(Result::ok);
        for Running {
            service,
            process,
            place,
        } in self.running.drain(..).chain(older).chain(engines)
        {
            drop(process);
            if let Err(error) = place.clear() {
                line(format_args!("{}: {error:#}", service.name()));
            }
        }
    }
}

impl Running {
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Self { service, place, .. } = self;
        let secret = |name| OsString::from(secrets::read(&place.file(name)).unwrap_or_default());
        match service {
            Service::N8n => vec![
                ("MCP_TEST_N8N_URL", place.url().into()),
                ("MCP_TEST_N8N_API_KEY", secret(n8n::API_KEY)),
                ("MCP_TEST_N8N_MCP_TOKEN", secret(n8n::MCP_TOKEN)),
            ],
            Service::OpenHands => vec![
                ("MCP_TEST_OPENHANDS_URL", place.url().into()),
                ("MCP_TEST_OPENHANDS_API_KEY", secret(openhands::API_KEY)),
            ],
            Service::Docker => vec![("MCP_TEST_DOCKER_HOST", docker::host(place).into())],
        }
    }
}

fn start(layout: &Layout, service: Service) -> anyhow::Result<Running> {
    if let Some(obstacle) = service.obstacle(layout) {
        anyhow::bail!(obstacle);
    }
    service.install(layout)?;
    let place = Place::take(layout, service, Purpose::Test)?;
    place.clear()?;
    let process = service.start(layout, &place)?;
    Ok(Running {
        service,
        process,
        place,
    })
}

fn start_older(layout: &Layout) -> anyhow::Result<Running> {
    let release = n8n::Release::Older;
    if let Some(obstacle) = n8n::install::obstacle(layout, release) {
        anyhow::bail!(obstacle);
    }
    n8n::install::install(layout, release)?;
    let place = Place::take_older_n8n(layout)?;
    place.clear()?;
    let process = n8n::start(layout, &place, release)?;
    Ok(Running {
        service: Service::N8n,
        process,
        place,
    })
}
