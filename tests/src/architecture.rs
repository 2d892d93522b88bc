//! Rules for the manifests that no tool checks; `deny.toml` has the layers.

use std::collections::BTreeSet;
use std::process::Command;

use crate::committed::root;
use crate::surface::SERVERS;

/// Limit for the crates of all programs that are shipped.
const MAX_CRATES: usize = 275;

#[test]
fn dependency_tree_is_small() {
    let words = "tree -e normal --prefix none --locked".split(' ');
    let programs = SERVERS.into_iter().flat_map(|program| ["-p", program]);
    let output = Command::new(env!("CARGO"))
        .args(words.chain(programs))
        .current_dir(root())
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    // A line has the name, the version, and notes.
    let crates: BTreeSet<Vec<&str>> = tree
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>())
        .filter(|words| words.len() == 2)
        .collect();
    eprintln!("{} crates, at most {MAX_CRATES}", crates.len());
    assert!((50..=MAX_CRATES).contains(&crates.len()));
}

/// A module that was moved would not be changed any more, and nothing would say so.
#[test]
fn modules_of_the_mutants_are_there() {
    let text = std::fs::read_to_string(root().join(".cargo/mutants.toml")).unwrap();
    let modules = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("{.rs,/**}\","));
    let modules: Vec<&str> = modules.collect();
    assert!(modules.len() > 10, "{modules:?}");
    for module in modules {
        assert!(root().join(format!("{module}.rs")).is_file(), "{module}");
    }
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    for folder in crates.chain(["tests", "xtask"].map(|name| root().join(name))) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let has_lints = manifest.contains("[lints]\nworkspace = true");
        assert!(has_lints, "{} has its own lints", folder.display());
    }
}
