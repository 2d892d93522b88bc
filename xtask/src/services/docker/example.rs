//! An image made from busybox, and a container that says hello: no registry is asked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use super::{cli::Cli, install};
use crate::console::say;
use crate::layout::{Layout, create_dir, on_path};
use crate::services::{Place, Purpose};

/// The image that is always there.
pub(crate) const IMAGE: &str = "busybox:test";

const CONTAINER: &str = "hello-world";
const SCRIPT: &str = "while true; do echo 'Hello, World!'; sleep 2; done";

/// Makes the image, and for a person also the container, where they are missing.
pub(super) fn provide(layout: &Layout, place: &Place) -> anyhow::Result<()> {
    let unpacked = install::dir(layout).join("engine/bin/busybox");
    let Some(busybox) = Some(unpacked)
        .filter(|file| file.exists())
        .or_else(|| on_path("busybox"))
    else {
        say(
            "docker",
            "no busybox to make an example image from; the engine has no image yet",
        );
        return Ok(());
    };
    let cli = Cli::new(layout, place)?;
    if cli.run(&["image", "inspect", IMAGE])?.status.success() {
        return Ok(());
    }
    let root = lay_out(place, &busybox)?;
    let archive = place.file("busybox.tar");
    let packed = Command::new("tar")
        .arg("-C")
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    if !packed.context("tar")?.success() {
        bail!("could not pack the example image");
    }
    let archive = archive.to_str().context("odd path")?;
    cli.expect(&[
        "import",
        "--change",
        "ENV PATH=/bin",
        "--change",
        "CMD [\"/bin/sh\"]",
        archive,
        IMAGE,
    ])?;
    if place.purpose == Purpose::RunAll {
        // One second is enough for a shell that does not listen to SIGTERM.
        cli.expect(&[
            "run",
            "--detach",
            "--name",
            CONTAINER,
            "--restart",
            "unless-stopped",
            "--stop-timeout",
            "1",
            IMAGE,
            "sh",
            "-c",
            SCRIPT,
        ])?;
    }
    Ok(())
}

fn lay_out(place: &Place, busybox: &PathBuf) -> anyhow::Result<PathBuf> {
    let root = place.file("busybox");
    let bin = root.join("bin");
    create_dir(&bin)?;
    create_dir(&root.join("tmp"))?;
    fs::copy(busybox, bin.join("busybox"))?;
    let list = Command::new(busybox)
        .arg("--list")
        .output()
        .context("busybox --list")?;
    for applet in String::from_utf8_lossy(&list.stdout)
        .lines()
        .filter(|applet| *applet != "busybox")
    {
        let link = bin.join(applet);
        if !link.exists() && !link.is_symlink() {
            symlink("busybox", link)?;
        }
    }
    Ok(root)
}
