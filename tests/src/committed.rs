//! Generated parts of documents: tests compare them, and with `INSTA_UPDATE=always` write them, as insta does with
//! snapshots.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Asserts that a file of the workspace has this text. Only for tests named `…are_fresh`, which `cargo xtask codegen`
/// runs.
#[track_caller]
pub(crate) fn check(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines = committed.lines().zip(text.lines()).zip(1..);
    let different = lines.find(|((old, new), _)| old != new);
    assert!(
        committed == text,
        "{path} is out of date: {different:#?}\nupdate it with: cargo xtask codegen"
    );
}
