//! The docker command, which comes with the engine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};

use super::{Environment, environment, host};
use crate::instance::Instance;
use crate::layout::{Layout, on_path};

/// The docker command for one engine.
#[derive(Debug)]
pub(crate) struct Cli {
    environment: Environment,
}

impl Cli {
    /// The command for the engine of `instance`, whichever the environment names.
    pub(crate) fn new(layout: &Layout, instance: &Instance) -> anyhow::Result<Self> {
        let mut environment = environment(layout, None)?;
        environment.push(("DOCKER_HOST", host(instance).into()));
        // They would send it elsewhere, or to the same place by another way.
        environment.push(("DOCKER_CONTEXT", "".into()));
        environment.push(("DOCKER_TLS_VERIFY", "".into()));
        Ok(Self { environment })
    }

    /// The command for the engine that the environment names: the one on the search path, or the one
    /// that was unpacked.
    pub(crate) fn for_user(layout: &Layout) -> anyhow::Result<Self> {
        let environment = match on_path("docker") {
            Some(_) => Vec::new(),
            None => environment(layout, None)?,
        };
        Ok(Self { environment })
    }

    /// Another program that speaks to the same engine.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs the command, whatever comes of it.
    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<Output> {
        let output = self.program("docker").args(args).output();
        output.context("the docker command is missing beside the engine")
    }

    /// Returns what the command prints; an error, with what it says, unless it succeeds.
    pub(crate) fn expect(&self, args: &[&str]) -> anyhow::Result<String> {
        printed(args[0], &self.run(args)?)
    }

    /// Makes an image of the files in a folder, with these changes.
    pub(crate) fn import(&self, root: &Path, image: &str, changes: &[&str]) -> anyhow::Result<()> {
        let mut pack = Command::new("tar")
            .args("--owner=0 --group=0 -cf - -C".split(' '))
            .arg(root)
            .arg(".")
            .stdout(Stdio::piped())
            .spawn()
            .context("tar")?;
        let archive = pack.stdout.take().context("tar says nothing")?;
        let imported = self
            .program("docker")
            .arg("import")
            .args(changes.iter().flat_map(|change| ["--change", change]))
            .args(["-", image])
            .stdin(archive)
            .output()
            .context("the docker command is missing")?;
        ensure!(pack.wait()?.success(), "could not pack {image}");
        let why =
            || format!("the engine did not take {image}: is it running, and is DOCKER_HOST right?");
        printed("import", &imported).with_context(why).map(drop)
    }
}

fn printed(command: &str, output: &Output) -> anyhow::Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("docker {command}: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
