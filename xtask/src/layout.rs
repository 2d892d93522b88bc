//! Where things are: the workspace, its binaries, and what is fetched for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::stop::Stop;

/// The folders that the chores work in, and the wish to stop them.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The root of the workspace.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// Raised when the person at the terminal wants to end.
    pub(crate) stop: Stop,
}

impl Layout {
    /// The layout of the workspace that this program belongs to.
    pub(crate) fn find(stop: Stop) -> anyhow::Result<Self> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
        let root = Path::new(&package)
            .parent()
            .context("xtask lies outside of a workspace")?
            .to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |dir| root.join(dir));
        Ok(Self { root, target, stop })
    }

    /// Where the built programs are.
    pub(crate) fn binaries(&self, release: bool) -> PathBuf {
        self.target.join(if release { "release" } else { "debug" })
    }

    /// Where services are installed and keep their data.
    pub(crate) fn backends(&self) -> PathBuf {
        self.target.join("backends")
    }

    /// A log file, its folder made.
    pub(crate) fn log(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.backends().join("logs");
        create_dir(&dir)?;
        Ok(dir.join(format!("{name}.log")))
    }

    /// An empty log file.
    pub(crate) fn fresh_log(&self, name: &str) -> anyhow::Result<PathBuf> {
        let log = self.log(name)?;
        File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
        Ok(log)
    }

    /// The path as a person in the workspace would type it.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Makes the folder and those above it.
pub(crate) fn create_dir(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))
}

/// The first program of this name on the search path.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// The search path with folders put in front.
pub(crate) fn path_with(first: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(
        first.into_iter().chain(std::env::split_paths(&path)),
    )?)
}
