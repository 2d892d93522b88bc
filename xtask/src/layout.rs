//! The folders of the workspace, of its binaries, and of downloads.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shutdown::Shutdown;

/// The folders that the commands work in, and the request to stop them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// Raised when the person at the terminal wants to end.
    pub(crate) shutdown: Shutdown,
}

impl Layout {
    /// Finds the workspace of this program.
    pub(crate) fn find(shutdown: Shutdown) -> anyhow::Result<Self> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
        let root = Path::new(&package)
            .parent()
            .context("xtask lies outside of a workspace")?
            .to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |dir| root.join(dir));
        Ok(Self {
            root,
            target,
            shutdown,
        })
    }

    pub(crate) fn binaries(&self, release: bool) -> PathBuf {
        self.target.join(if release { "release" } else { "debug" })
    }

    /// Returns the folder of downloads, and of the data of services.
    pub(crate) fn backends(&self) -> PathBuf {
        self.target.join("backends")
    }

    /// Returns the path of a log file; creates its folder.
    pub(crate) fn log(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.backends().join("logs");
        create_dir(&dir)?;
        Ok(dir.join(format!("{name}.log")))
    }

    pub(crate) fn fresh_log(&self, name: &str) -> anyhow::Result<PathBuf> {
        let log = self.log(name)?;
        File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
        Ok(log)
    }

    /// Displays the path relative to the workspace.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

pub(crate) fn create_dir(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))
}

/// Returns the first program of this name on the search path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Returns the search path with these folders in front.
pub(crate) fn path_with(first: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(
        first.into_iter().chain(std::env::split_paths(&path)),
    )?)
}
