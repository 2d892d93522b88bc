//! Runs the docker command, which comes with the engine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

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
    /// Creates the command for the engine of `instance`.
    pub(crate) fn new(layout: &Layout, instance: &Instance) -> anyhow::Result<Self> {
        let mut environment = environment(layout, None)?;
        // The other two would select another engine, or another way to this one.
        environment.extend([
            ("DOCKER_HOST", host(instance).into()),
            ("DOCKER_CONTEXT", "".into()),
            ("DOCKER_TLS_VERIFY", "".into()),
        ]);
        Ok(Self { environment })
    }

    /// Creates the command for the engine that the environment names; the installed program, or the
    /// unpacked one.
    pub(crate) fn for_user(layout: &Layout) -> anyhow::Result<Self> {
        let environment = match on_path("docker") {
            Some(_) => Vec::new(),
            None => environment(layout, None)?,
        };
        Ok(Self { environment })
    }

    /// Returns another program that talks to the same engine.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// When it fails, with its error message.
    pub(crate) fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        stdout(args[0], self.program("docker").args(args))
    }

    /// Imports the files of a folder as an image, with these changes.
    pub(crate) fn import(&self, root: &Path, image: &str, changes: &[&str]) -> anyhow::Result<()> {
        let mut tar = Command::new("tar");
        tar.args("--owner=0 --group=0 -cf - -C".split(' '));
        tar.arg(root).arg(".").stdout(Stdio::piped());
        let mut tar = tar.spawn().context("tar")?;
        let archive = tar.stdout.take().context("tar has no output")?;
        let mut import = self.program("docker");
        import.arg("import").stdin(archive);
        import.args(changes.iter().flat_map(|change| ["--change", change]));
        import.args(["-", image]);
        let imported = stdout("import", &mut import);
        ensure!(tar.wait()?.success(), "could not pack {image}");
        imported.map(drop).with_context(|| {
            format!("the engine did not take {image}: is it running, and is DOCKER_HOST right?")
        })
    }
}

fn stdout(name: &str, command: &mut Command) -> anyhow::Result<String> {
    let output = command.output();
    let output = output.context("the docker command is missing beside the engine")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("docker {name}: {}", error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
