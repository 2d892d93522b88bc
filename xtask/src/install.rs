//! Installs programs once, each into a folder of its own below `target/backends`.

pub(crate) mod debian;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::console::Heartbeat;
use crate::layout::{self, create_dir, on_path};
use crate::process::Program;
use crate::shutdown;

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

/// Prefixes of the line that names the cause, in the output of programs that print more after it.
const CAUSE_PREFIXES: [&str; 4] = ["npm error ", "ERROR: ", "E: ", "error: "];

/// A folder below `target/backends` that is filled once.
pub(crate) struct Package {
    who: &'static str,
    name: String,
    pub(crate) dir: PathBuf,
}

impl Package {
    /// `who` is the prefix of its lines on the terminal.
    pub(crate) fn new(who: &'static str, folder: &str) -> Self {
        Self {
            who,
            name: folder.replace('/', "-"),
            dir: layout::backends().join(folder),
        }
    }

    /// Returns true if any version of it is installed.
    pub(crate) fn is_complete(&self) -> bool {
        self.dir.join(".complete").exists()
    }

    /// Fills the folder, in one process at a time, unless it holds this `version`; removes what else it holds before.
    pub(crate) fn install(
        &self,
        version: &str,
        install: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let dir = &self.dir;
        let complete = dir.join(".complete");
        let is_done = || fs::read_to_string(&complete).is_ok_and(|found| found == version);
        if is_done() {
            return Ok(());
        }
        create_dir(dir)?;
        let lock = File::create(layout::backends().join(format!("{}.lock", self.name)))?;
        // Another process may be installing it.
        let is_free = || lock.try_lock().is_ok();
        let is_free = shutdown::wait_until(LOCK_TIMEOUT, is_free);
        ensure!(is_free, "another process is installing it");
        if is_done() {
            return Ok(());
        }
        fs::remove_dir_all(dir)?;
        create_dir(dir)?;
        layout::fresh_log(&self.log_name())?;
        install(dir)?;
        Ok(fs::write(complete, version)?)
    }

    /// Runs one step of the installation, its output in a log. `seconds` is the time in which it usually ends, or 0.
    pub(crate) fn step(&self, step: &str, seconds: u64, program: Program) -> Result<()> {
        let mut heartbeat = Heartbeat::start(self.who, step);
        if seconds > 0 {
            heartbeat = heartbeat.expecting(Duration::from_secs(seconds));
        }
        let log = layout::log(&self.log_name())?;
        let before = fs::read(&log).map_or(0, |text| text.len());
        let program = program.envs(REGISTRY_SETTINGS);
        program.run(heartbeat, &log).map_err(|error| {
            let output = fs::read(&log).unwrap_or_default();
            let output = String::from_utf8_lossy(output.get(before..).unwrap_or_default());
            // The first such line is the cause; later ones say where npm keeps its own log.
            let is_cause = |line: &&str| CAUSE_PREFIXES.iter().any(|word| line.starts_with(word));
            match output.lines().find(is_cause) {
                Some(cause) => anyhow!("{step}: {cause} (full log: {})", log.display()),
                None => error,
            }
        })
    }

    /// Runs one short step in the folder: a program, and its arguments in one line.
    pub(crate) fn run(&self, step: &str, program: &Path, words: &str) -> Result<()> {
        let program = Program::new(program).words(words);
        self.step(step, 0, program.dir(&self.dir))
    }

    fn log_name(&self) -> String {
        format!("{}-install", self.name)
    }
}

/// Installs the packages that `package-lock.json` in the folder `source` pins; returns the folder of their programs.
pub(crate) fn install_node(package: &Package, source: &Path, name: &str) -> Result<PathBuf> {
    let lock = fs::read_to_string(source.join("package-lock.json"))?;
    package.install(&lock, |dir| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(source.join(file), dir.join(file))?;
        }
        let step = format!("installing {name}");
        package.run(&step, "npm".as_ref(), "ci --ignore-scripts")
    })?;
    Ok(package.dir.join("node_modules/.bin"))
}

/// Exits with 0 if this Python can make virtual environments and has wheels for the pinned packages.
const IS_SUITABLE: &str =
    "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))";

/// Installs these packages of PyPI in a virtual environment; returns the folder of their programs.
pub(crate) fn install_python(package: &Package, requirements: &str) -> Result<PathBuf> {
    let python = find_python().context("no Python 3.12 or 3.13 with venv found")?;
    install_with(&python, package, requirements)
}

/// Installs packages with this Python: any does for wheels that hold a program.
pub(crate) fn install_with(
    python: &Path,
    package: &Package,
    requirements: &str,
) -> Result<PathBuf> {
    let programs = package.dir.join("bin");
    package.install(requirements, |dir| {
        package.run("making a Python environment", python, "-m venv .")?;
        fs::write(dir.join("requirements.txt"), requirements)?;
        let pip = "-m pip install --no-compile -r requirements.txt";
        let pip = Program::new(programs.join("python")).words(pip).dir(dir);
        package.step("downloading its packages", 60, pip)
    })?;
    Ok(programs)
}

/// Compiles a program of crates.io; returns its folder.
pub(crate) fn compiled(who: &'static str, name: &str, version: &str) -> Result<PathBuf> {
    let package = Package::new(who, name);
    package.install(version, |dir| {
        let install = Program::new("cargo")
            .words("install --locked --debug --root . --version")
            .args([version, name])
            .dir(dir);
        package.step(&format!("compiling {name}"), 180, install)
    })?;
    Ok(package.dir.join("bin"))
}

/// Finds a suitable Python, on the search path or of pyenv, whose shims exist for versions that are not selected, too.
pub(crate) fn find_python() -> Option<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let versions = root.and_then(|root| fs::read_dir(root.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten();
    let pyenv = versions.map(|version| version.path().join("bin/python"));
    let mut pyenv: Vec<_> = pyenv.collect();
    pyenv.sort();
    let names = ["python3.13", "python3.12", "python3"].map(on_path);
    let mut pythons = names.into_iter().flatten().chain(pyenv.into_iter().rev());
    pythons.find(|python| {
        let mut run = Command::new(python);
        run.args(["-c", IS_SUITABLE]).stdin(Stdio::null());
        run.output().is_ok_and(|output| output.status.success())
    })
}
