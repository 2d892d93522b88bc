//! `NAME-VERSION.cdx.json`: the crates in a program as a bill of materials in CycloneDX 1.6, for programs that look
//! for known vulnerabilities and licences.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Build, Product, check};

pub(super) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let write = |product: &Product| {
        let name = format!(
            "{}-{}-{}.cdx.json",
            product.name, build.version, build.triple
        );
        let file = dist.join(name);
        fs::write(&file, text(product, build)?)?;
        Ok(file)
    };
    products.iter().map(write).collect()
}

/// Returns the list of a program: the crates that its build for this target links.
pub(super) fn text(product: &Product, build: &Build) -> anyhow::Result<String> {
    let mut cargo = Command::new("cargo");
    // Not offline: the crates of tests, which the build of the program did not need, may have to be fetched.
    cargo.args(["metadata", "--locked", "--format-version", "1"]);
    cargo
        .args(["--filter-platform", &build.triple])
        .current_dir(&build.layout.root);
    let metadata: Value = serde_json::from_str(&check::output(&mut cargo)?)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let nodes = list(&metadata["resolve"]["nodes"]);
    let root = packages
        .iter()
        .find(|package| package["name"] == product.name);
    let root = root.context("cargo does not know the program")?;
    // Only what is linked: not what tests and build scripts need.
    let uses = |id: &Value| -> Vec<Value> {
        let node = nodes.iter().find(|node| node["id"] == *id);
        let deps = node.map(|node| list(&node["deps"])).unwrap_or_default();
        let is_linked = |dep: &&Value| {
            list(&dep["dep_kinds"])
                .iter()
                .any(|kind| kind["kind"].is_null())
        };
        deps.iter()
            .filter(is_linked)
            .map(|dep| dep["pkg"].clone())
            .collect()
    };
    let (mut found, mut next) = (BTreeSet::new(), vec![root["id"].clone()]);
    while let Some(id) = next.pop() {
        if found.insert(id.to_string()) {
            next.extend(uses(&id));
        }
    }
    let mut linked: Vec<_> = packages
        .iter()
        .filter(|package| found.contains(&package["id"].to_string()))
        .collect();
    linked.sort_by_key(|package| reference(package));
    let by_id = |id: &Value| linked.iter().find(|package| package["id"] == *id).copied();
    let dependencies: Vec<_> = linked
        .iter()
        .map(|package| {
            let on = uses(&package["id"]);
            let mut on: Vec<_> = on.iter().filter_map(by_id).map(reference).collect();
            on.sort();
            on.dedup();
            json!({"ref": reference(package), "dependsOn": on})
        })
        .collect();
    let components = linked.iter().filter(|package| package["id"] != root["id"]);
    let list = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(root, "application")},
        "components": components.map(|package| component(package, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Returns the package URL of a crate.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    format!(
        "pkg:cargo/{}@{}",
        text("name"),
        text("version").replace('+', "%2B")
    )
}

fn component(package: &Value, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    });
    if let Some(description) = package["description"].as_str() {
        component["description"] = description.trim().into();
    }
    if let Some(licence) = package["license"].as_str() {
        // Old crates write `MIT/Apache-2.0`.
        let expression = licence.replace('/', " OR ").replace("  ", " ");
        component["licenses"] = json!([{"expression": expression}]);
    }
    component
}
