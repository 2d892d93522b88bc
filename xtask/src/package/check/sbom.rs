//! The bill of materials: its schema, and what it lists.

use std::fs;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Context, output};
use crate::install::{Package, install_python};
use crate::package::WHO;

/// Has the published schema, and validates with it.
const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.11.0";

/// Validates the file that is its argument.
const SCRIPT: &str = "
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(str(error) if error else 0)
";

pub(crate) fn check(context: &Context<'_>) -> anyhow::Result<()> {
    let package = Package::new(context.layout, WHO, "cyclonedx");
    install_python(&package, VALIDATOR)?;
    for (product, file) in context.products.iter().zip(context.files) {
        let mut python = std::process::Command::new(package.dir.join("bin/python"));
        output(python.args(["-c", SCRIPT]).arg(file))?;
        let list: Value = serde_json::from_slice(&fs::read(file)?)?;
        let components = list["components"].as_array().context("no components")?;
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        // Only crates of this program: one that each has, and two that only one program has.
        ensure!(has("serde"), "{}: no serde", product.name);
        ensure!(!has("proptest"), "{}: crates of tests", product.name);
        for (name, user) in [
            ("bollard", "docker-mcp-server"),
            ("rusqlite", "mcp-gateway"),
        ] {
            let is_right = has(name) == (product.name == user);
            ensure!(is_right, "{}: {name}", product.name);
        }
    }
    Ok(())
}
