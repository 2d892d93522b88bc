//! Wheels, installed by pip without an index in a fresh environment, and started by uv as `uvx` does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Context, answers, output};
use crate::install::{Package, REGISTRY_SETTINGS, install_python};
use crate::package::registry;

const UV: &str = "uv==0.9.7\n";

/// Compares the record of a wheel with its files, and fails also for a file that is not in it.
const RECORD: &str = r#"
import base64, csv, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
names = wheel.namelist()
own = next(name for name in names if name.endswith(".dist-info/RECORD"))
rows = list(csv.reader(wheel.read(own).decode().splitlines()))
assert sorted(row[0] for row in rows) == sorted(names), rows
for name, digest, size in rows:
    if name != own:
        data = wheel.read(name)
        sum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, size) == ("sha256=" + sum, str(len(data))), name
"#;

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let root = context.fresh("wheel")?;
    let environment = root.join("venv");
    output(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    )?;
    let bin = environment.join("bin");
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["install", "--no-index", "--no-cache-dir"])
        .args(context.files);
    output(pip.envs(REGISTRY_SETTINGS))?;
    for (product, wheel) in context.products.iter().zip(context.files) {
        let mut record = Command::new(bin.join("python"));
        output(record.args(["-c", RECORD]).arg(wheel)).context("RECORD")?;
        for command in [product.name, &registry::pypi(product.name)] {
            let mut command = Command::new(bin.join(command));
            let command = command.arg("--stdio").env("HOME", &*root);
            answers(command, product, &context.build.version)?;
        }
    }
    check_uv(context, &root)
}

/// Starts each wheel as `uvx NAME` does, without an index.
fn check_uv(context: &Context<'_>, root: &Path) -> anyhow::Result<()> {
    let package = Package::new(context.layout, "wheel", "uv");
    install_python(&package, UV)?;
    for (product, wheel) in context.products.iter().zip(context.files) {
        let name = registry::pypi(product.name);
        let mut uvx = Command::new(package.dir.join("bin/uvx"));
        uvx.args(["--offline", "--no-config", "--python", "python3", "--from"])
            .arg(wheel);
        uvx.args([&name, "--stdio"]).env("HOME", root);
        answers(&mut uvx, product, &context.build.version).context("uvx")?;
    }
    ensure!(!context.products.is_empty(), "no programs");
    Ok(())
}
