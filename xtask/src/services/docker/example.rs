//! An image made from busybox, and a container that says hello: no registry is asked.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{cli::Cli, packages};
use crate::console::say;
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir, on_path};

/// The image that is always there.
pub(crate) const IMAGE: &str = "busybox:test";

/// Its container. One second is enough for a shell that does not listen to SIGTERM.
const RUN: &str =
    "run --detach --name hello-world --restart unless-stopped --stop-timeout 1 busybox:test sh -c";
const SCRIPT: &str = "while true; do echo 'Hello, World!'; sleep 2; done";

/// Makes the image, and for a person also the container, where they are missing.
pub(super) fn provide(layout: &Layout, instance: &Instance) -> anyhow::Result<()> {
    let unpacked = Some(packages().root(layout).join("bin/busybox"));
    let unpacked = unpacked.filter(|file| file.exists());
    let Some(busybox) = unpacked.or_else(|| on_path("busybox")) else {
        let text = "no busybox to make an example image from; the engine has no image yet";
        say("docker", text);
        return Ok(());
    };
    let cli = Cli::new(layout, instance)?;
    if cli.run(&["image", "inspect", IMAGE])?.status.success() {
        return Ok(());
    }
    let root = instance.file("busybox");
    let bin = root.join("bin");
    create_dir(&bin)?;
    create_dir(&root.join("tmp"))?;
    fs::copy(&busybox, bin.join("busybox"))?;
    // It makes a link to itself for each of its commands.
    let installed = Command::new(bin.join("busybox"))
        .arg("--install")
        .arg(&bin)
        .status();
    ensure!(installed.context("busybox")?.success(), "busybox --install");
    let changes = ["ENV PATH=/bin", r#"CMD ["/bin/sh"]"#];
    cli.import(&root, IMAGE, &changes)?;
    if instance.purpose == Purpose::RunAll {
        let run: Vec<_> = RUN.split(' ').chain([SCRIPT]).collect();
        cli.expect(&run)?;
    }
    Ok(())
}
