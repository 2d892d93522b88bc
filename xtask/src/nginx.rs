//! nginx: the installed one, or Debian's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::install::debian::{self, DebianPackages};
use crate::layout::{Layout, on_path};
use crate::process::Program;

const PACKAGES: DebianPackages = DebianPackages::new("nginx", &["nginx"]);

/// The variables by which a program finds its libraries.
pub(crate) type Libraries = Vec<(&'static str, OsString)>;

/// Returns the program, and its libraries if it is not installed.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<(PathBuf, Libraries)> {
    if let Some(installed) = on_path("nginx") {
        return Ok((installed, Vec::new()));
    }
    PACKAGES.install(layout)?;
    let root = PACKAGES.root(layout);
    let program = root.join("usr/sbin/nginx");
    Ok((program, debian::environment(&[root])?))
}

/// Adds the arguments for a file, and for the folder of its other files.
pub(crate) fn program(program: Program, dir: &Path, file: &Path, libraries: Libraries) -> Program {
    program
        .words("-e stderr")
        .args(["-p".as_ref(), dir.as_os_str()])
        .args(["-c".as_ref(), file.as_os_str()])
        .envs(libraries)
}
