//! deb and rpm, installed in a fresh root.

use std::path::Path;

use anyhow::{Context as _, ensure};

use super::root::Root;
use super::{Context, answers, output};
use crate::package::Product;

/// The highest exposure that `systemd-analyze security` may find, in tenths.
const MAX_EXPOSURE: u32 = 30;

pub(crate) fn deb(context: &Context<'_>) -> anyhow::Result<()> {
    let root = Root::install(context.layout)?;
    for (product, file) in packages(context) {
        let Product { name, .. } = product;
        let (folder, package) = split(file)?;
        let lint = format!("lintian --fail-on error,warning /packages/{package}");
        output(&mut root.script(folder, &lint)).context("lintian")?;
        let install = format!("dpkg -i /packages/{package} >&2");
        let removed = format!(
            "{install}; {}; dpkg --purge {name} >&2; ! test -e /etc/mcp/{name}.toml; ! test -e /usr/bin/{name}",
            unit_checks(name)
        );
        output(&mut root.script(folder, &removed))?;
        serves(context, &root, product, folder, &install)?;
    }
    Ok(())
}

/// Checks that the program that `install` installs serves over stdio.
fn serves(
    context: &Context<'_>,
    root: &Root,
    product: &Product,
    folder: &Path,
    install: &str,
) -> anyhow::Result<()> {
    let start = format!("{install}; exec {} --stdio", product.name);
    let mut start = root.script(folder, &start);
    answers(&mut start, product, &context.build.version)
}

pub(crate) fn rpm(context: &Context<'_>) -> anyhow::Result<()> {
    let root = Root::install(context.layout)?;
    for (product, file) in packages(context) {
        let Product { name, .. } = product;
        let (folder, package) = split(file)?;
        // The root has no database of rpm, so no package in it satisfies a dependency.
        let install = format!("rpm -i --nodeps /packages/{package} >&2");
        let listed = format!(
            "rpm -qpl /packages/{package}; {install}; {}",
            unit_checks(name)
        );
        let listed = output(&mut root.script(folder, &listed))?;
        for path in [
            format!("/usr/bin/{name}"),
            format!("/usr/share/licenses/{name}/LICENSE-MIT"),
        ] {
            ensure!(
                listed.lines().any(|line| line == path),
                "no {path}: {listed}"
            );
        }
        let removed = format!("{install}; rpm -e {name} >&2; ! test -e /usr/bin/{name}");
        output(&mut root.script(folder, &removed))?;
        serves(context, &root, product, folder, &install)?;
    }
    Ok(())
}

/// The commands that check the installed unit, the configuration as it was installed, and the manual.
fn unit_checks(name: &str) -> String {
    let unit = format!("/usr/lib/systemd/system/{name}.service");
    format!(
        "systemd-analyze verify {unit} >&2; systemd-analyze security --offline=true --threshold={MAX_EXPOSURE} {unit}; \
         {name} check --config /etc/mcp/{name}.toml >&2; test \"$(stat -c %a /etc/mcp/{name}.env)\" = 600; man -P cat \
         {name} >/dev/null"
    )
}

fn packages<'a>(
    context: &'a Context<'a>,
) -> impl Iterator<Item = (&'a Product, &'a std::path::Path)> {
    let files = context.files.iter().map(std::path::PathBuf::as_path);
    context.products.iter().zip(files)
}

fn split(file: &Path) -> anyhow::Result<(&Path, &str)> {
    let parts = file
        .parent()
        .zip(file.file_name().and_then(|name| name.to_str()));
    parts.with_context(|| file.display().to_string())
}
