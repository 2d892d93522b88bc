//! Installs packages from PyPI in virtual environments.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Package, Unavailable};
use crate::layout::on_path;

/// Exits with 0 if this Python can make virtual environments and has wheels for the pinned packages.
const IS_SUITABLE: &str =
    "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))";

/// Installs these requirements in a virtual environment, in the folder of the package.
pub(crate) fn install(package: &Package<'_>, requirements: &str) -> anyhow::Result<()> {
    let missing = || Unavailable("no Python 3.12 or 3.13 with venv found".to_owned());
    let python = find().ok_or_else(missing)?;
    package.install(requirements, |dir| {
        package.run("making a Python environment", &python, "-m venv .")?;
        fs::write(dir.join("requirements.txt"), requirements)?;
        let pip = "-m pip install --no-compile -r requirements.txt";
        let step = "downloading its packages (up to 1 minute)";
        package.run(step, &dir.join("bin/python"), pip)
    })
}

/// Finds a suitable Python, on the search path or of pyenv. Each is run: pyenv's shims exist for
/// versions that are not selected, and fail.
pub(crate) fn find() -> Option<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let mut pyenv: Vec<_> = versions
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin/python"))
        .collect();
    pyenv.sort();
    let names = ["python3.13", "python3.12", "python3"].map(on_path);
    let mut pythons = names.into_iter().flatten().chain(pyenv.into_iter().rev());
    pythons.find(|python| {
        let mut run = Command::new(python);
        run.args(["-c", IS_SUITABLE]).stdin(Stdio::null());
        run.output().is_ok_and(|output| output.status.success())
    })
}
