//! Runs the docker command, which comes with the engine, and makes an example with it: an image from
//! busybox, and a container that says hello. No registry is used.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use super::{Environment, environment, host, packages};
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir, on_path};

/// The example image.
pub(crate) const IMAGE: &str = "busybox:test";

/// Starts the example container. Its shell ignores SIGTERM, so one second is a long enough timeout.
const RUN: &str =
    "run --detach --name hello-world --restart unless-stopped --stop-timeout 1 busybox:test sh -c";
const SCRIPT: &str = "while true; do echo 'Hello, World!'; sleep 2; done";

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

/// Makes the image if it is missing, and for `run-all` also the container.
pub(super) fn provide_example(layout: &Layout, instance: &Instance) -> anyhow::Result<()> {
    let unpacked = Some(packages().root(layout).join("bin/busybox"));
    let unpacked = unpacked.filter(|file| file.exists());
    let Some(busybox) = unpacked.or_else(|| on_path("busybox")) else {
        print_as!(
            "docker",
            "no busybox to make an example image from; the engine has no image yet"
        );
        return Ok(());
    };
    let cli = Cli::new(layout, instance)?;
    if cli.run(&["image", "inspect", IMAGE]).is_ok() {
        return Ok(());
    }
    let root = instance.file("busybox");
    let bin = root.join("bin");
    create_dir(&bin)?;
    create_dir(&root.join("tmp"))?;
    fs::copy(&busybox, bin.join("busybox"))?;
    // Links for its commands.
    let mut install = Command::new(bin.join("busybox"));
    let installed = install.arg("--install").arg(&bin).status();
    ensure!(installed.context("busybox")?.success(), "busybox --install");
    let changes = ["ENV PATH=/bin", r#"CMD ["/bin/sh"]"#];
    cli.import(&root, IMAGE, &changes)?;
    if instance.purpose == Purpose::RunAll {
        let run: Vec<_> = RUN.split(' ').chain([SCRIPT]).collect();
        cli.run(&run)?;
    }
    Ok(())
}
