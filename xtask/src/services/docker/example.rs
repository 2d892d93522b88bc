//! Makes an image from busybox, and a container that says hello. No registry is used.

use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};

use super::{cli::Cli, packages};
use crate::console::print_as;
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir, on_path};

/// The example image.
pub(crate) const IMAGE: &str = "busybox:test";

/// Starts the example container. Its shell ignores SIGTERM, so one second is a long enough timeout.
const RUN: &str =
    "run --detach --name hello-world --restart unless-stopped --stop-timeout 1 busybox:test sh -c";
const SCRIPT: &str = "while true; do echo 'Hello, World!'; sleep 2; done";

/// Makes the image if it is missing, and for `run-all` also the container.
pub(super) fn provide(layout: &Layout, instance: &Instance) -> anyhow::Result<()> {
    let unpacked = Some(packages().root(layout).join("bin/busybox"));
    let unpacked = unpacked.filter(|file| file.exists());
    let Some(busybox) = unpacked.or_else(|| on_path("busybox")) else {
        let text = "no busybox to make an example image from; the engine has no image yet";
        print_as("docker", text);
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
