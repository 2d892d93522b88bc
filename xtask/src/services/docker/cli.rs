//! The docker command, which comes with the engine.

use std::ffi::OsString;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

use super::{host, install};
use crate::layout::Layout;
use crate::services::Place;

/// The docker command for the engine of a place.
#[derive(Debug)]
pub(crate) struct Cli {
    environment: Vec<(&'static str, OsString)>,
}

impl Cli {
    /// For the engine of `place`, whichever the environment names.
    pub(crate) fn new(layout: &Layout, place: &Place) -> anyhow::Result<Self> {
        let mut environment = install::environment(layout)?;
        environment.push(("DOCKER_HOST", host(place).into()));
        Ok(Self { environment })
    }

    /// The command without arguments.
    pub(crate) fn command(&self) -> Command {
        self.program("docker")
    }

    /// Another program that speaks to the same engine.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .envs(self.environment.iter().cloned())
            // They would send it elsewhere, or to the same place by another way.
            .env_remove("DOCKER_CONTEXT")
            .env_remove("DOCKER_TLS_VERIFY")
            .stdin(Stdio::null());
        command
    }

    /// What came of it.
    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        self.command()
            .args(args)
            .output()
            .context("the docker command is missing beside the engine")
    }

    /// What it prints; an error, with what it says, unless it succeeds.
    pub(crate) fn expect(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.run(args)?;
        if !output.status.success() {
            bail!(
                "docker {}: {}",
                args.first().unwrap_or(&""),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
