//! Rules for files that no compiler checks.

use std::path::{Path, PathBuf};

use crate::committed::root;

/// The only files of the product that name the methods of seed 001.
const LEGACY: [&str; 2] = [
    "crates/mcp-core/src/server/seed_001.rs",
    "crates/mcp-core/src/server/mcp_method.rs",
];

/// Concatenated, so that this file does not break its own rules.
const WORKPLACE: [&str; 3] = [
    concat!("/work", "/"),
    concat!("/tmp/", "team"),
    concat!("/root", "/"),
];
const UNFINISHED: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// A file of the workspace: its path from the root, and its text.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every source file and document.
pub(crate) fn source_files() -> Vec<File> {
    let root = root();
    let folders = [
        "crates", "xtask", "tests", ".cargo", ".ci", ".github", "docs",
    ];
    let mut found: Vec<_> = folders
        .iter()
        .flat_map(|folder| files(&root.join(folder)))
        .collect();
    let at_the_root = std::fs::read_dir(&root).unwrap();
    let at_the_root = at_the_root.map(|entry| entry.unwrap().path());
    // A work tree beside the repository has a file `.git`.
    let is_ours = |path: &PathBuf| path.is_file() && !path.ends_with(".git");
    found.extend(at_the_root.filter(is_ours));
    let read = |path: PathBuf| {
        // Binary files are skipped.
        let text = std::fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(&root).unwrap();
        let path = path.to_string_lossy().into_owned();
        Some(File { path, text })
    };
    found.into_iter().filter_map(read).collect()
}

/// All files in a folder and its folders.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with("target") => {}
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

/// Asserts that no file has a fault.
#[track_caller]
pub(crate) fn check(is_meant: impl Fn(&str) -> bool, fault: impl Fn(&File) -> Option<String>) {
    let mut files = source_files();
    files.retain(|file| is_meant(&file.path));
    assert!(!files.is_empty());
    let faults: Vec<_> = files
        .iter()
        .filter_map(|file| Some(format!("{}: {}", file.path, fault(file)?)))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

pub(crate) fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// The first line with this property, and its number.
fn line(text: &str, holds: impl Fn(&str) -> bool) -> Option<String> {
    let found = text.lines().enumerate().find(|(_, line)| holds(line));
    found.map(|(at, line)| format!("{}: {}", at + 1, line.trim()))
}

#[test]
fn modules_have_documentation() {
    check(is_rust, |file| {
        let says = file.text.starts_with("//! ");
        (!says).then(|| "does not start with //!".to_owned())
    });
}

#[test]
fn modules_are_named_by_their_file() {
    check(is_rust, |file| {
        let is_mod = file.path.ends_with("/mod.rs");
        is_mod.then(|| "is `foo.rs` beside `foo/` here".to_owned())
    });
}

#[test]
fn seed_001_methods_are_known_in_one_place() {
    let product = |path: &str| {
        is_rust(path)
            && path.starts_with("crates/")
            && path.contains("/src/")
            // The names of attributes and metrics in OpenTelemetry.
            && !path.starts_with("crates/telemetry/")
            && path != "crates/mcp-core/src/metrics.rs"
            && !LEGACY.contains(&path)
    };
    check(product, |file| {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        line(code, |line| {
            let names_one = |line: &str| line.contains(concat!('"', "mcp."));
            // `mcp.json` is a file name.
            !line.trim_start().starts_with("//") && names_one(&line.replace("mcp.json", ""))
        })
    });
}

#[test]
fn files_hold_no_paths_of_the_machine() {
    let has_path = |line: &str| WORKPLACE.iter().any(|path| line.contains(path));
    check(|_| true, |file| line(&file.text, has_path));
}

/// A tag of an action can be moved by its owner.
#[test]
fn actions_of_workflows_are_pinned_by_their_commit() {
    let is_pinned = |action: &str| {
        let commit = action.split_once('@').map(|(_, commit)| commit);
        let commit = commit.and_then(|commit| commit.split_once(" # v"));
        commit.is_some_and(|(commit, version)| {
            let is_hash = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            commit.len() == 40 && is_hash && !version.is_empty()
        })
    };
    let is_loose = |line: &str| {
        let action = line.split_once("uses: ").map(|(_, action)| action);
        action.is_some_and(|action| !is_pinned(action))
    };
    check(
        |path| path.starts_with(".github/workflows/"),
        |file| line(&file.text, is_loose),
    );
}

#[test]
fn nothing_is_unfinished() {
    let has_word = |line: &str| UNFINISHED.iter().any(|word| line.contains(word));
    check(is_rust, |file| line(&file.text, has_word));
}
