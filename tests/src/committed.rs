//! Generated files in the repository: tests compare them, and with `UPDATE=1` write them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Asserts that a file of the workspace has this text. Called by tests named `…are_fresh` only: these are the
/// ones that `cargo xtask codegen` runs.
#[track_caller]
pub(crate) fn check(path: &str, text: &str) {
    // libtest names the thread by its test, and runs on `main` if told to use one thread.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    assert!(
        test.ends_with("are_fresh") || test == "main",
        "{path}: {test} compares a file that is generated, so its name must end with are_fresh"
    );
    let file = root().join(path);
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{path} is out of date:\n{}\nupdate it with: cargo xtask codegen",
        difference(&committed, text)
    );
}

/// A diff: the lines only in `old` (`-`) and those only in `new` (`+`), with their numbers.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    // common[i][j]: length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut text = String::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            let _ = writeln!(text, "{:>5} - {}", i + 1, old[i]);
            i += 1;
        } else {
            let _ = writeln!(text, "{:>5} + {}", j + 1, new[j]);
            j += 1;
        }
    }
    text
}

#[test]
fn difference_shows_only_changed_lines() {
    assert_eq!(
        difference("a\nb\nc\nd", "a\nc\nx\nd\ne"),
        "    2 - b\n    3 + x\n    5 + e\n"
    );
}
