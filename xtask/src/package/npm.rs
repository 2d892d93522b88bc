//! Packages for npm: for each program one with a launcher, and one with the program for each platform. npm
//! installs that of its own platform, as an optional dependency.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::archive::{Entry, tar_gz};
use super::{Build, Product, elf, files, registry};

const LAUNCHER: &str = include_str!("npm/launcher.js");

/// The platforms of a release: systems and processors as Node names them.
const PLATFORMS: [(&str, &str); 5] = [
    ("linux", "x64"),
    ("linux", "arm64"),
    ("darwin", "arm64"),
    ("darwin", "x64"),
    ("win32", "x64"),
];

pub(crate) fn build(
    products: &[Product],
    build: &Build,
    dist: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for product in products {
        let (system, processor) = platform(build);
        let program = Entry::program(
            format!("package/bin/{}", build.file(product.name)),
            &build.program(product.name),
        )?;
        let needs_glibc = build.os == "linux" && elf::glibc(&program.bytes)?.is_some();
        let manifest = program_manifest(product, build, needs_glibc);
        let name = format!("{}-{system}-{processor}", product.name);
        let entries = [vec![program], texts(product, build, &manifest)?].concat();
        files.push(write(&entries, &name, build, dist)?);

        let manifest = launcher_manifest(product, &build.version);
        let launcher = Entry::new(format!("package/bin/{}.js", product.name), LAUNCHER);
        let launcher = launcher.with_mode(0o755);
        let entries = [vec![launcher], texts(product, build, &manifest)?].concat();
        files.push(write(&entries, product.name, build, dist)?);
    }
    Ok(files)
}

/// Returns the system and the processor of a target as Node names them.
pub(crate) fn platform(build: &Build) -> (&'static str, &'static str) {
    let system = match build.os {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let processor = match build.arch {
        "x86_64" => "x64",
        _ => "arm64",
    };
    (system, processor)
}

/// Returns the name of the file as `npm pack` names it.
pub(crate) fn file_name(package: &str, version: &str) -> String {
    format!("{}-{package}-{version}.tgz", registry::owner())
}

fn write(entries: &[Entry], package: &str, build: &Build, dist: &Path) -> anyhow::Result<PathBuf> {
    let file = dist.join(file_name(package, &build.version));
    fs::write(&file, tar_gz(entries, build.epoch)?)?;
    Ok(file)
}

/// Returns the manifest, the page and the licences.
fn texts(product: &Product, build: &Build, manifest: &Value) -> anyhow::Result<Vec<Entry>> {
    let npm = registry::npm(product.name);
    let install = format!("```\nnpx -y {npm} --stdio\n```");
    let mut entries = vec![
        Entry::new("package.json", format!("{manifest:#}\n")),
        Entry::new("README.md", registry::readme(product, &install)),
    ];
    entries.extend(files::licences(build)?);
    for entry in &mut entries {
        entry.path.insert_str(0, "package/");
    }
    Ok(entries)
}

fn manifest(name: &str, product: &Product, version: &str) -> Value {
    json!({
        "name": registry::npm(name),
        "version": version,
        "description": product.summary,
        "license": registry::LICENSE,
        "homepage": registry::REPOSITORY,
        "repository": {"type": "git", "url": format!("git+{}.git", registry::REPOSITORY)},
        "keywords": ["mcp", "model-context-protocol", product.service.to_lowercase()],
    })
}

fn program_manifest(product: &Product, build: &Build, needs_glibc: bool) -> Value {
    let (system, processor) = platform(build);
    let name = format!("{}-{system}-{processor}", product.name);
    let mut manifest = manifest(&name, product, &build.version);
    manifest["os"] = json!([system]);
    manifest["cpu"] = json!([processor]);
    if needs_glibc {
        manifest["libc"] = json!(["glibc"]);
    }
    // Programs are started from their place; package managers that keep packages in archives unpack these.
    manifest["preferUnplugged"] = json!(true);
    manifest
}

fn launcher_manifest(product: &Product, version: &str) -> Value {
    let packages = PLATFORMS.map(|(system, processor)| {
        let name = format!("{}-{system}-{processor}", product.name);
        (registry::npm(&name), json!(version))
    });
    let mut manifest = manifest(product.name, product, version);
    manifest["mcpName"] = json!(registry::mcp(product.name));
    manifest["bin"] = json!({product.name: format!("bin/{}.js", product.name)});
    manifest["engines"] = json!({"node": ">=18"});
    manifest["optionalDependencies"] = packages.into_iter().collect();
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::product::tests::example;

    #[test]
    fn the_launcher_depends_on_the_same_version_for_each_platform() {
        let manifest = launcher_manifest(&example(), "1.2.3");
        let dependencies = manifest["optionalDependencies"].as_object().unwrap();
        assert_eq!(dependencies.len(), PLATFORMS.len());
        assert!(dependencies.values().all(|version| version == "1.2.3"));
        let name = registry::npm("docker-mcp-server-linux-x64");
        assert!(dependencies.contains_key(&name), "{manifest}");
        assert_eq!(
            manifest["bin"]["docker-mcp-server"],
            "bin/docker-mcp-server.js"
        );
        assert_eq!(manifest["mcpName"], registry::mcp("docker-mcp-server"));
    }
}
