//! The services that run on this machine for our servers and their tests.

pub(crate) mod docker;
pub(crate) mod n8n;
pub(crate) mod openhands;
pub(crate) mod postgres;

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::instance::{Instance, Purpose};
use crate::process::Process;

pub(crate) type Environment = Vec<(&'static str, OsString)>;

/// A service that can be installed and started on this machine.
pub(crate) trait Service: Sync {
    /// Returns the prefix of its lines on the terminal, and the name of its instances' folder.
    fn name(&self) -> &'static str;

    /// Returns why this machine cannot have it, and a remedy, as far as that is known before the installation.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Returns the downloads that its start needs, with their size.
    fn to_fetch(&self) -> Option<String> {
        None
    }

    fn install(&self) -> Result<()>;

    /// Starts the installed service and returns when it is ready.
    fn start(&self, instance: &Instance) -> Result<Process>;

    /// Returns the variables with which the tests find it.
    fn test_environment(&self, instance: &Instance) -> Environment;
}

/// A service that runs for one run of tests: new, on a free port, removed afterwards.
pub(crate) struct RunningService {
    pub(crate) environment: Environment,
    pub(crate) process: Process,
    pub(crate) instance: Instance,
}

impl RunningService {
    pub(crate) fn start(service: &dyn Service) -> Result<Self> {
        if let Some(obstacle) = service.obstacle() {
            bail!(obstacle);
        }
        service.install()?;
        let instance = Instance::lock(service.name(), Purpose::Test, 0)?;
        instance.clear()?;
        let process = service.start(&instance)?;
        Ok(Self {
            environment: service.test_environment(&instance),
            process,
            instance,
        })
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        self.process.stop();
        if let Err(error) = self.instance.clear() {
            print_line!("{error:#}");
        }
    }
}
