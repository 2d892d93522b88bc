//! `cargo xtask images`: an image for each server that holds its program and the root certificates,
//! nothing else. No registry and no base image is asked, so it works without a network.

pub(crate) mod check;
mod image;
mod programs;

use std::process::ExitCode;

use anyhow::bail;

use crate::args::Options;
use crate::console::line;
use crate::layout::Layout;
use crate::services::docker::cli::Cli;

/// Builds the programs, and hands them to the engine that the environment names; or checks that the
/// project comes up from them, on an engine of its own.
pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        bail!(
            "the programs are built for this system, and images want Linux ones: use the Dockerfile"
        );
    }
    let programs = if options.release {
        programs::build(layout)?
    } else {
        programs::link(layout)?
    };
    if options.check {
        check::run(layout, &programs)?;
        line("ok       the project comes up, each server shut in as docker-compose.yml says");
    } else {
        image::load(layout, &programs, &Cli::for_user(layout)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
