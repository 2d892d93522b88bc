//! House rules that no compiler knows.

use std::path::{Path, PathBuf};

use crate::committed::root;

const MAX_LINES: usize = 400;
/// The limit of a file that says why it is one idea: `//! Long because …`.
const MAX_LINES_WITH_REASON: usize = 600;

/// The only files of the product that name the methods of seed 001.
const LEGACY: [&str; 2] = [
    "crates/mcp-core/src/server/seed_001.rs",
    "crates/mcp-core/src/server/mcp_method.rs",
];

/// Put together here, so that this file does not break its own rules.
const WORKPLACE: [&str; 3] = [
    concat!("/work", "/"),
    concat!("/tmp/", "team"),
    concat!("/root", "/"),
];
const UNFINISHED: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// A file of the workspace: its path from the root, and what it holds.
struct File {
    path: String,
    text: String,
}

/// Every file that people write.
fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    for folder in ["crates", "xtask", "tests", ".cargo", ".ci"] {
        walk(&root.join(folder), &mut found);
    }
    let at_the_root = std::fs::read_dir(&root).unwrap();
    let at_the_root = at_the_root.map(|entry| entry.unwrap().path());
    // A work tree beside the repository has a file `.git`.
    let is_ours = |path: &PathBuf| path.is_file() && !path.ends_with(".git");
    found.extend(at_the_root.filter(is_ours));
    let read = |path: PathBuf| {
        // What is no text was not written by people.
        let text = std::fs::read_to_string(&path).ok()?;
        let path = path
            .strip_prefix(&root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        Some(File { path, text })
    };
    found.into_iter().filter_map(read).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// Asserts that no file has a fault.
#[track_caller]
fn check(is_meant: impl Fn(&str) -> bool, fault: impl Fn(&File) -> Option<String>) {
    let files: Vec<_> = files()
        .into_iter()
        .filter(|file| is_meant(&file.path))
        .collect();
    assert!(!files.is_empty());
    let faults: Vec<_> = files
        .iter()
        .filter_map(|file| Some(format!("{}: {}", file.path, fault(file)?)))
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// The first line, with its number, for which something holds.
fn line(text: &str, holds: impl Fn(&str) -> bool) -> Option<String> {
    let found = text.lines().enumerate().find(|(_, line)| holds(line));
    found.map(|(at, line)| format!("{}: {}", at + 1, line.trim()))
}

#[test]
fn every_module_says_what_it_is() {
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
fn files_are_small() {
    check(is_rust, |file| {
        let lines = file.text.lines().count();
        let reason = line(&file.text, |line| line.starts_with("//! Long because "));
        let most = reason.map_or(MAX_LINES, |_| MAX_LINES_WITH_REASON);
        (lines > most).then(|| format!("{lines} lines, at most {most}"))
    });
}

#[test]
fn seed_001_methods_are_known_in_one_place() {
    let product = |path: &str| {
        is_rust(path)
            && path.starts_with("crates/")
            && path.contains("/src/")
            && !LEGACY.contains(&path)
    };
    check(product, |file| {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        line(code, |line| {
            let names_one = |line: &str| line.contains(concat!('"', "mcp."));
            // A file of that name is something else.
            !line.trim_start().starts_with("//") && names_one(&line.replace("mcp.json", ""))
        })
    });
}

#[test]
fn no_file_names_the_place_where_it_was_written() {
    check(
        |_| true,
        |file| {
            line(&file.text, |line| {
                WORKPLACE.iter().any(|path| line.contains(path))
            })
        },
    );
}

#[test]
fn nothing_is_left_to_do() {
    check(is_rust, |file| {
        line(&file.text, |line| {
            UNFINISHED.iter().any(|word| line.contains(word))
        })
    });
}
