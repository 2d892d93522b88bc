//! Packages from PyPI, in virtual environments.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Package, Unavailable};
use crate::layout::on_path;

/// Makes the folder of the package a virtual environment with these requirements.
pub(crate) fn install(package: &Package<'_>, requirements: &str) -> anyhow::Result<()> {
    let python = find().ok_or_else(missing)?;
    package.install(requirements, |dir| {
        package.run("making a Python environment", &python, "-m venv .")?;
        fs::write(dir.join("requirements.txt"), requirements)?;
        let pip = "-m pip install --no-compile -r requirements.txt";
        let step = "fetching its packages (up to 1 minute)";
        package.run(step, &dir.join("bin/python"), pip)
    })
}

fn missing() -> Unavailable {
    Unavailable("no Python 3.12 or 3.13 with venv found".to_owned())
}

/// Finds a Python that the pinned packages have wheels for. A file of the right name is not
/// enough: pyenv's shims exist for versions that are not selected, and fail when run.
pub(crate) fn find() -> Option<PathBuf> {
    const FITS: &str =
        "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))";
    let named = ["python3.13", "python3.12", "python3"].map(on_path);
    let named = named.into_iter().flatten();
    named.chain(pyenv_pythons()).find(|python| {
        let run = Command::new(python)
            .args(["-c", FITS])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        run.is_ok_and(|status| status.success())
    })
}

fn pyenv_pythons() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let Some(versions) = root.and_then(|root| fs::read_dir(root.join("versions")).ok()) else {
        return Vec::new();
    };
    let wanted = |name: &str| name.starts_with("3.13.") || name.starts_with("3.12.");
    let mut found: Vec<_> = versions
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(wanted))
        .map(|entry| entry.path().join("bin/python"))
        .collect();
    found.sort();
    found.reverse();
    found
}
