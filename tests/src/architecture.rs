//! Who may use what. The arrows of the workspace are decided here; the code has to follow.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::committed::root;

/// Each crate of the workspace, and those of the others that it may use, in tests too.
const ARROWS: [(&str, &[&str]); 10] = [
    ("mcp-core", &[]),
    ("mcp-serve", &["mcp-core"]),
    ("mcp-client", &["mcp-core"]),
    // The TLS set-up.
    ("upstream", &["mcp-core", "mcp-client"]),
    // Its built-in MCP server.
    (
        "n8n-mcp-server",
        &["mcp-core", "mcp-serve", "mcp-client", "upstream"],
    ),
    (
        "openhands-mcp-server",
        &["mcp-core", "mcp-serve", "upstream"],
    ),
    ("docker-mcp-server", &["mcp-core", "mcp-serve", "upstream"]),
    // Redaction, truncation and timestamps.
    (
        "mcp-gateway",
        &["mcp-core", "mcp-serve", "mcp-client", "upstream"],
    ),
    // The servers are programs here, not libraries.
    ("tests", &["mcp-core", "mcp-serve", "mcp-client"]),
    // Quick to compile.
    ("xtask", &[]),
];

/// Crates with few users. The tests may use everything.
const USERS: [(&str, &[&str]); 8] = [
    ("bollard", &["docker-mcp-server"]),
    ("hyper", &["mcp-serve", "mcp-client", "docker-mcp-server"]),
    // The calendar of everybody else is `upstream::time`.
    ("jiff", &["upstream", "mcp-core"]),
    // Servers use what `upstream::http` re-exports.
    ("reqwest", &["upstream"]),
    ("rusqlite", &["mcp-gateway"]),
    ("ureq", &["xtask"]),
    // Command lines, and errors that only people read, belong to programs.
    ("clap", PROGRAMS),
    ("anyhow", PROGRAMS),
];

const PROGRAMS: &[&str] = &[
    "mcp-serve",
    "n8n-mcp-server",
    "openhands-mcp-server",
    "docker-mcp-server",
    "mcp-gateway",
    "xtask",
];

/// All that the pure crate may use. None of it opens a socket or looks at a clock.
const PURE: [&str; 11] = [
    "base64",
    "futures-util",
    // Signs session ids; computes, and that is all.
    "hmac-sha256",
    // The calendar, without its clock.
    "jiff",
    "schemars",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "tokio",
    "tokio-util",
    "tracing",
];

/// What the pure crate never names.
const EDGES: [&str; 10] = [
    "Timestamp::now",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::time::Instant",
    "SystemTime",
    "tokio::fs",
    "tokio::net",
    "tokio::time",
];

const MAX_CRATES: usize = 260;

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo {}: {complaint}",
        args.join(" ")
    );
    String::from_utf8(output.stdout).unwrap()
}

struct Package {
    name: String,
    manifest: String,
    dependencies: Vec<Value>,
}

impl Package {
    /// The crates that it names, without those that only its tests use.
    fn uses(&self) -> impl Iterator<Item = &Value> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
    }
}

fn packages() -> Vec<Package> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let package = |package: &Value| Package {
        name: name(package).to_owned(),
        manifest: std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap(),
        dependencies: package["dependencies"].as_array().unwrap().clone(),
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(package)
        .collect()
}

fn name(entry: &Value) -> &str {
    entry["name"].as_str().unwrap()
}

#[test]
fn arrows_point_one_way() {
    let packages = packages();
    for package in &packages {
        let arrows = ARROWS.iter().find(|(name, _)| *name == package.name);
        let (_, allowed) = arrows.unwrap_or_else(|| panic!("{} has no arrows here", package.name));
        for dependency in &package.dependencies {
            let used = name(dependency);
            assert!(
                packages.iter().all(|other| other.name != used) || allowed.contains(&used),
                "{} must not use {used}",
                package.name
            );
        }
    }
}

#[test]
fn some_crates_have_few_users() {
    let packages = packages();
    for package in packages.iter().filter(|package| package.name != "tests") {
        for used in package.uses().map(name) {
            let users = USERS.iter().find(|(name, _)| *name == used);
            assert!(
                users.is_none_or(|(_, users)| users.contains(&&*package.name)),
                "{} must not use {used}",
                package.name
            );
        }
    }
}

#[test]
fn one_crate_listens() {
    for package in packages().iter().filter(|package| package.name != "tests") {
        for dependency in package
            .uses()
            .filter(|used| ["hyper", "hyper-util"].contains(&name(used)))
        {
            let features = dependency["features"].as_array().unwrap();
            let listens = features
                .iter()
                .any(|feature| feature == "server" || feature == "full");
            assert!(
                !listens || package.name == "mcp-serve",
                "{} can listen",
                package.name
            );
        }
    }
}

#[test]
fn the_core_is_pure() {
    let packages = packages();
    let core = packages
        .iter()
        .find(|package| package.name == "mcp-core")
        .unwrap();
    for dependency in core.uses() {
        let used = name(dependency);
        assert!(PURE.contains(&used), "mcp-core must not use {used}");
        if used == "tokio" {
            assert_eq!(dependency["uses_default_features"], false);
            let features = dependency["features"].as_array().unwrap();
            let pure = |feature: &Value| feature == "macros" || feature == "sync";
            assert!(
                features.iter().all(pure),
                "mcp-core uses tokio with {features:?}"
            );
        }
    }
    let mut folders = vec![root().join("crates/mcp-core/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                check_pure(&path);
            }
        }
    }
}

fn check_pure(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    for edge in EDGES {
        assert!(!code.contains(edge), "{} names {edge}", path.display());
    }
}

#[test]
fn the_tree_is_small() {
    let tree = cargo(&[
        "tree",
        "--workspace",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--locked",
    ]);
    // name, version, and what else there is to say about this place in the tree
    let crates: BTreeSet<Vec<&str>> = tree
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>())
        .filter(|words| words.len() == 2)
        .collect();
    eprintln!("{} crates, at most {MAX_CRATES}", crates.len());
    assert!(
        (50..=MAX_CRATES).contains(&crates.len()),
        "{} crates",
        crates.len()
    );
}

#[test]
fn the_workspace_is_laid_out_as_decided() {
    for file in [
        ".cargo/config.toml",
        ".ci/run",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "deny.toml",
        "docker-compose.yml",
        "rust-toolchain.toml",
        "tests/src/main.rs",
        "xtask/src/main.rs",
    ] {
        assert!(root().join(file).is_file(), "{file} is missing");
    }
    for package in packages() {
        let manifest = &package.manifest;
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} has its own lints",
            package.name
        );
        let folder = match &*package.name {
            name @ ("tests" | "xtask") => name.to_owned(),
            name => format!("crates/{name}"),
        };
        assert!(
            root().join(&folder).join("Cargo.toml").is_file(),
            "{folder} is missing"
        );
        let main = root().join(&folder).join("src/main.rs");
        if package.name.ends_with("-mcp-server") {
            let lines = std::fs::read_to_string(main).unwrap().lines().count();
            assert!(lines <= 20, "the main of {} does too much", package.name);
        }
    }
}
