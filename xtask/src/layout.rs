//! The folders of the workspace, of its binaries, and of downloads.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Display, Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};

pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let mut root = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        root.pop();
        root
    });
    &ROOT
}

pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

pub(crate) fn binaries(release: bool) -> PathBuf {
    target().join(if release { "release" } else { "debug" })
}

/// Returns the folder of downloads, and of the data of services.
pub(crate) fn backends() -> PathBuf {
    target().join("backends")
}

/// Returns the path of a log file; creates its folder.
pub(crate) fn log(name: &str) -> Result<PathBuf> {
    let dir = backends().join("logs");
    create_dir(&dir)?;
    Ok(dir.join(format!("{name}.log")))
}

pub(crate) fn fresh_log(name: &str) -> Result<PathBuf> {
    let log = log(name)?;
    File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
    Ok(log)
}

/// Displays the path relative to the workspace.
pub(crate) fn shown(path: &Path) -> Display<'_> {
    path.strip_prefix(root()).unwrap_or(path).display()
}

pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))
}

/// Returns the first program of this name on the search path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|dir| dir.join(program));
    files.find(|file| file.is_file())
}

/// Returns the search path with these folders in front.
pub(crate) fn path_with(first: impl IntoIterator<Item = PathBuf>) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = first.into_iter().chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}
