//! The allowed dependencies between crates and on third-party crates.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::committed::root;
use crate::surface::SERVERS;
use crate::tidy::files;

/// Each crate of the workspace, and those of the workspace that it may use, in tests too.
const ALLOWED_CRATES: [(&str, &str); 16] = [
    ("mcp-core", ""),
    // mcp-hosts and mcp-client for the commands `connect` and `doctor`.
    ("mcp-serve", "mcp-core mcp-client mcp-hosts telemetry"),
    ("mcp-client", "mcp-core"),
    ("mcp-hosts", ""),
    // mcp-client for the requests to collectors.
    ("telemetry", "mcp-core mcp-client"),
    // mcp-client for the TLS set-up.
    ("upstream", "mcp-core mcp-client"),
    // upstream for redaction and truncation.
    ("n8n-workflow", "upstream"),
    // mcp-client for n8n's built-in MCP server.
    (
        "n8n-mcp-server",
        "mcp-core mcp-serve mcp-client upstream n8n-workflow",
    ),
    ("openhands-mcp-server", "mcp-core mcp-serve upstream"),
    ("docker-mcp-server", "mcp-core mcp-serve upstream"),
    ("gateway-access", "mcp-core"),
    // mcp-serve for files that only this user can read, mcp-client for TLS, upstream for timestamps.
    ("gateway-store", "mcp-core mcp-serve mcp-client upstream"),
    // mcp-serve for answers over HTTP, mcp-client for the webhook, upstream for redaction and timestamps.
    (
        "gateway-approvals",
        "mcp-core mcp-serve mcp-client upstream gateway-access gateway-store",
    ),
    // upstream for redaction, truncation and timestamps.
    (
        "mcp-gateway",
        "mcp-core mcp-serve mcp-client mcp-hosts upstream gateway-access gateway-approvals \
         gateway-store",
    ),
    // The servers are programs here, not libraries.
    ("tests", "mcp-core mcp-serve mcp-client mcp-hosts"),
    // Quick to compile.
    ("xtask", ""),
];

/// Third-party crates with few users. The tests may use all of them.
const USERS: [(&str, &str); 12] = [
    ("bollard", "docker-mcp-server"),
    ("cel", "gateway-access"),
    ("hyper", "mcp-serve mcp-client docker-mcp-server"),
    // Others use `upstream::time`.
    ("jiff", "upstream mcp-core mcp-serve"),
    ("prost", "telemetry"),
    // Servers use what `upstream::http` re-exports.
    ("reqwest", "upstream"),
    ("rusqlite", "gateway-store"),
    ("tokio-postgres", "gateway-store"),
    ("tokio-tungstenite", "openhands-mcp-server"),
    ("ureq", "xtask"),
    // Command lines and untyped errors are for programs, not for libraries.
    ("clap", PROGRAMS),
    ("anyhow", PROGRAMS),
];

const PROGRAMS: &str =
    "mcp-serve n8n-mcp-server openhands-mcp-server docker-mcp-server mcp-gateway xtask";

/// The pure crates with their dependencies, none of which opens a socket or reads a clock: `jiff` is
/// the calendar, `upstream` is without its client, `hmac-sha256` signs session ids.
const PURE: [(&str, &str); 2] = [
    (
        "mcp-core",
        "base64 foldhash futures-util hmac-sha256 jiff memchr schemars serde serde_json serde_path_to_error \
         smallvec strsim tokio tokio-util tracing",
    ),
    (
        "n8n-workflow",
        "http regex schemars serde serde_json tracing upstream uuid",
    ),
];

/// Names that must not occur in the pure crates.
const IMPURE: [&str; 10] = [
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

/// Limit for the crates of all programs that are shipped.
const MAX_CRATES: usize = 260;

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root())
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

struct Package {
    name: String,
    manifest: String,
    dependencies: Vec<Value>,
}

impl Package {
    /// Its dependencies, without those of tests.
    fn uses(&self) -> impl Iterator<Item = &Value> {
        let all = self.dependencies.iter();
        all.filter(|dependency| dependency["kind"] != "dev")
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
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(package).collect()
}

fn name(entry: &Value) -> &str {
    entry["name"].as_str().unwrap()
}

#[test]
fn crates_use_only_allowed_crates() {
    let packages = packages();
    for package in &packages {
        let Package { name, .. } = package;
        let row = ALLOWED_CRATES.iter().find(|(row, _)| row == name);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{name} has no row here"));
        for used in package.dependencies.iter().map(self::name) {
            let is_ours = packages.iter().any(|other| other.name == used);
            let is_allowed = !is_ours || allowed.split(' ').any(|allowed| allowed == used);
            assert!(is_allowed, "{name} must not use {used}");
        }
    }
}

#[test]
fn restricted_crates_have_few_users() {
    let packages = packages();
    for package in packages.iter().filter(|package| package.name != "tests") {
        for used in package.uses().map(name) {
            let Package { name, .. } = package;
            let row = USERS.iter().find(|(row, _)| *row == used);
            let is_allowed = row.is_none_or(|(_, users)| users.split(' ').any(|user| user == name));
            assert!(is_allowed, "{name} must not use {used}");
        }
    }
}

#[test]
fn only_mcp_serve_listens() {
    for package in packages().iter().filter(|package| package.name != "tests") {
        for used in package.uses() {
            let mut features = used["features"].as_array().unwrap().iter();
            let listens = features.any(|feature| feature == "server" || feature == "full");
            let is_hyper = ["hyper", "hyper-util"].contains(&name(used));
            let is_allowed = !is_hyper || !listens || package.name == "mcp-serve";
            assert!(is_allowed, "{} can listen", package.name);
        }
    }
}

#[test]
fn pure_crates_are_pure() {
    let packages = packages();
    for (pure, dependencies) in PURE {
        let package = packages.iter().find(|package| package.name == pure);
        for dependency in package.unwrap().uses() {
            let used = name(dependency);
            let is_allowed = dependencies.split(' ').any(|one| one == used);
            assert!(is_allowed, "{pure} must not use {used}");
            if ["tokio", "upstream"].contains(&used) {
                assert_eq!(dependency["uses_default_features"], false, "{used}");
                let features = dependency["features"].as_array().unwrap();
                let harmless = |feature: &Value| feature == "macros" || feature == "sync";
                assert!(features.iter().all(harmless), "{used} with {features:?}");
            }
        }
        for path in files(&root().join(format!("crates/{pure}/src"))) {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for name in IMPURE {
                assert!(!code.contains(name), "{} names {name}", path.display());
            }
        }
    }
}

#[test]
fn dependency_tree_is_small() {
    let command = "tree -e normal --prefix none --locked";
    let programs = SERVERS.into_iter().flat_map(|program| ["-p", program]);
    let tree = cargo(&command.split(' ').chain(programs).collect::<Vec<_>>());
    // A line has the name, the version, and notes.
    let crates: BTreeSet<Vec<&str>> = tree
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>())
        .filter(|words| words.len() == 2)
        .collect();
    eprintln!("{} crates, at most {MAX_CRATES}", crates.len());
    assert!((50..=MAX_CRATES).contains(&crates.len()));
}

/// `cargo xtask msrv` compiles with that toolchain; clippy's `incompatible_msrv` knows the standard library.
#[test]
fn no_dependency_needs_a_newer_rust_than_the_workspace_promises() {
    let words = "metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-gnu";
    let metadata = cargo(&words.split(' ').collect::<Vec<_>>());
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let minor = |package: &Value| -> Option<u32> {
        let version = package["rust_version"].as_str()?;
        version.split('.').nth(1)?.parse().ok()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let (theirs, ours): (Vec<_>, Vec<_>) = packages
        .iter()
        .partition(|package| package["source"].is_string());
    let promised = ours.iter().map(|package| minor(package).unwrap()).min();
    let newest = theirs.iter().max_by_key(|package| minor(package)).unwrap();
    assert!(
        minor(newest) <= promised,
        "{} needs Rust {}, but `rust-version` in Cargo.toml is 1.{}",
        name(newest),
        newest["rust_version"],
        promised.unwrap(),
    );
}

#[test]
fn workspace_has_its_layout() {
    for file in [
        ".cargo/config.toml",
        ".ci/run",
        ".config/nextest.toml",
        ".github/workflows/nightly.yml",
        ".github/workflows/release.yml",
        ".github/workflows/test.yml",
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
        let has_lints = manifest.contains("[lints]\nworkspace = true");
        assert!(has_lints, "{} has its own lints", package.name);
        let folder = match &*package.name {
            name @ ("tests" | "xtask") => name.to_owned(),
            name => format!("crates/{name}"),
        };
        let manifest = root().join(&folder).join("Cargo.toml");
        assert!(manifest.is_file(), "{folder} is missing");
        let main = root().join(&folder).join("src/main.rs");
        if package.name.ends_with("-mcp-server") {
            let lines = std::fs::read_to_string(main).unwrap().lines().count();
            assert!(lines <= 20, "the main of {} does too much", package.name);
        }
    }
}
