//! npm packages, installed without a network in an empty folder and started by `npx`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Context, answers, output};
use crate::install::REGISTRY_SETTINGS;
use crate::package::{npm, registry};

/// A port on which nothing listens: a package that npm looks for in a registry is an error.
const NO_REGISTRY: &str = "http://127.0.0.1:9";

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let root = context.fresh("npm")?;
    let build = context.build;
    let dist = context.files[0].parent().context("no folder")?;
    let (system, processor) = npm::platform(build);
    for product in context.products {
        let launcher = dist.join(npm::file_name(product.name, &build.version));
        let package = format!("{}-{system}-{processor}", product.name);
        let program = dist.join(npm::file_name(&package, &build.version));
        let folder = root.join(product.name);
        install(&folder, &root, &[&program, &launcher])?;
        answers(
            &mut npx(&folder, &root, product.name),
            product,
            &build.version,
        )?;

        let alone = root.join(format!("{}-alone", product.name));
        install(&alone, &root, &[&launcher])?;
        let started = npx(&alone, &root, product.name).output()?;
        let message = String::from_utf8_lossy(&started.stderr);
        let explained = format!("the package {} is missing", registry::npm(&package));
        let is_explained = message.contains(&explained) && started.stdout.is_empty();
        ensure!(
            is_explained && !started.status.success(),
            "without it: {message}"
        );
    }
    Ok(())
}

fn install(folder: &Path, home: &Path, packages: &[&Path]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--offline",
        "--ignore-scripts",
        "--loglevel=error",
    ]);
    npm.args(packages);
    output(environment(npm.current_dir(folder), home)).map(drop)
}

fn npx(folder: &Path, home: &Path, program: &str) -> Command {
    let mut npx = Command::new("npx");
    npx.args(["--offline", "--no", program, "--", "--stdio"]);
    environment(npx.current_dir(folder), home);
    npx
}

/// Sets a cache of its own, so that a package which another run has fetched is not found.
fn environment<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command
        .envs(REGISTRY_SETTINGS)
        .env("HOME", home)
        .env("npm_config_cache", home.join("cache"))
        .env("npm_config_registry", NO_REGISTRY)
        .env_remove("npm_config_userconfig")
}
