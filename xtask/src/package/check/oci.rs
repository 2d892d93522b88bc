//! Images, loaded into real engines without a network and started by `docker run -i`.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::{Context, answers};
use crate::install::unavailable;
use crate::instance::{Instance, Purpose};
use crate::package::{oci, registry};
use crate::services::Service;
use crate::services::docker::cli::Cli;
use crate::services::docker::{DOCKER, DOCKER_26, Engine, PODMAN};

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    for engine in [&DOCKER, &DOCKER_26, &PODMAN] {
        check_engine(context, engine).context(engine.name())?;
        print_as!("oci", "{} has loaded and started them", engine.name());
    }
    Ok(())
}

fn check_engine(context: &Context<'_>, engine: &Engine) -> anyhow::Result<()> {
    let layout = context.layout;
    if let Some(obstacle) = engine.obstacle(layout) {
        bail!(unavailable(obstacle));
    }
    engine.install(layout)?;
    let instance = Instance::lock(layout, "package", Purpose::Test, 0)?;
    instance.clear()?;
    let running = engine.start(layout, &instance)?;
    let cli = Cli::new(layout, &instance)?;
    let started = context
        .products
        .iter()
        .zip(context.files)
        .try_for_each(|(product, file)| {
            load(&cli, file)?;
            let image = oci::reference(product, context.build);
            let label = format!("{{{{index .Config.Labels {:?}}}}}", oci::LABEL);
            let label = cli.run(&["image", "inspect", "--format", &label, &image])?;
            ensure!(
                label.trim() == registry::mcp(product.name),
                "its label is {label}"
            );
            let mut run = cli.program("docker");
            run.args([
                "run",
                "--interactive",
                "--rm",
                "--network",
                "none",
                "--read-only",
            ]);
            run.args([&image, "--stdio"]);
            answers(&mut run, product, &context.build.version)
        });
    drop(running);
    instance.clear()?;
    started
}

fn load(cli: &Cli, file: &Path) -> anyhow::Result<()> {
    let file = file.to_str().context("a path that is no text")?;
    cli.run(&["load", "--input", file]).map(drop)
}
