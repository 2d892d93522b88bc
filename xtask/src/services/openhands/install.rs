//! The OpenHands agent server from PyPI, every dependency pinned, in a virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};

use crate::console::Heartbeat;
use crate::layout::{Layout, on_path};
use crate::process::Program;
use crate::services::last_line;

/// The version that is installed; the requirements say the same.
pub(crate) const VERSION: &str = "1.58.0";

const REQUIREMENTS: &str = include_str!("../../../backends/openhands/requirements.txt");

/// Where it is installed.
pub(crate) fn dir(layout: &Layout) -> PathBuf {
    layout.backends().join(format!("openhands-{VERSION}"))
}

/// The interpreter of its environment.
pub(crate) fn python(layout: &Layout) -> PathBuf {
    dir(layout).join("bin/python")
}

pub(crate) fn obstacle(layout: &Layout) -> Option<String> {
    to_fetch(layout)?;
    match base_python() {
        Some(_) => None,
        None => Some(
            "no Python 3.12 or 3.13 with venv found (PATH, pyenv), and a local OpenHands needs it; \
             or set OPENHANDS_URL and OPENHANDS_API_KEY to use another one"
                .into(),
        ),
    }
}

pub(crate) fn to_fetch(layout: &Layout) -> Option<&'static str> {
    let installed = dir(layout).join(".complete").exists();
    (!installed)
        .then_some("OpenHands agent server 1.58.0 from PyPI: about 550 MB on disk, about 1 minute")
}

pub(crate) fn install(layout: &Layout) -> anyhow::Result<()> {
    let dir = dir(layout);
    layout.install_once("openhands", &dir, || {
        let log = layout.fresh_log("openhands-install")?;
        let base = base_python().context("no Python 3.12 or 3.13 found")?;
        let run = |step: &str, program: &Path, args: &[&str]| {
            Program::new(program)?
                .args(args)
                .dir(&dir)
                .log_to(&log)?
                .run(&layout.stop, &mut Heartbeat::start("openhands", step))
                .map_err(|_| anyhow!(failure(layout, step, &log)))
        };
        run("making a Python environment", &base, &["-m", "venv", "."])?;
        fs::write(dir.join("requirements.txt"), REQUIREMENTS)?;
        let pip = [
            "-m",
            "pip",
            "install",
            "--no-compile",
            "--no-input",
            "--disable-pip-version-check",
            "-r",
            "requirements.txt",
        ];
        run(
            "fetching its packages (about 1 minute)",
            &python(layout),
            &pip,
        )
    })
}

fn failure(layout: &Layout, step: &str, log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    if [
        "Temporary failure in name resolution",
        "Name or service not known",
        "NewConnectionError",
        "ConnectTimeout",
    ]
    .iter()
    .any(|sign| text.contains(sign))
    {
        return format!("{step}: no network, pip could not reach its registry");
    }
    format!(
        "{step}: {} (all of it: {})",
        last_line(log),
        layout.shown(log)
    )
}

/// A Python that the pinned packages have wheels for. A file of the right name is not
/// enough: pyenv's shims exist for versions that are not selected, and fail when run.
pub(crate) fn base_python() -> Option<PathBuf> {
    const FITS: &str =
        "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))";
    let named = ["python3.13", "python3.12", "python3"]
        .into_iter()
        .filter_map(on_path);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_of_the_requirements() {
        for package in ["agent-server", "sdk", "tools"] {
            assert!(
                REQUIREMENTS.contains(&format!("openhands-{package}=={VERSION}\n")),
                "{package}"
            );
        }
    }
}
