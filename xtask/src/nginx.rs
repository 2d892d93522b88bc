//! nginx: the installed one, or Debian's.

use std::path::{Path, PathBuf};

use crate::install::debian::{self, DebianPackages, Libraries};
use crate::layout::Layout;
use crate::process::Program;

const PACKAGES: DebianPackages = DebianPackages::new("nginx", &["nginx"]);

/// Returns the program, and its libraries if it is not installed.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<(PathBuf, Libraries)> {
    debian::installed_or(&PACKAGES, "nginx", "usr/sbin/nginx", layout)
}

/// Adds the arguments for a file, and for the folder of its other files.
pub(crate) fn program(program: Program, dir: &Path, file: &Path, libraries: Libraries) -> Program {
    program
        .words("-e stderr")
        .args(["-p".as_ref(), dir.as_os_str()])
        .args(["-c".as_ref(), file.as_os_str()])
        .envs(libraries)
}
