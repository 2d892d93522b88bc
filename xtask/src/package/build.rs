//! The built programs of one target.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::args::Options;
use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::Program;

/// The prefix of the lines on the terminal.
pub(crate) const WHO: &str = "package";

/// Arguments of `strip`. Symbols are most of the size of a program of the profile `dev`.
const STRIP: &str = "--strip-all";

/// The programs of one target.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) layout: Layout,
    /// The target as rustc names it, such as `x86_64-unknown-linux-gnu`.
    pub(crate) triple: String,
    /// `linux`, `macos` or `windows`.
    pub(crate) os: &'static str,
    /// `x86_64` or `aarch64`.
    pub(crate) arch: &'static str,
    pub(crate) version: String,
    /// Its programs, without symbols.
    pub(crate) dir: PathBuf,
    /// Programs of the same version for this machine: those of `dir`, unless it is for another target.
    native: PathBuf,
    is_native: bool,
    /// True if the programs are optimised.
    pub(crate) is_release: bool,
    /// Seconds since 1970: the time of every file in a package, so that the same commit gives the same bytes.
    pub(crate) epoch: u64,
}

impl Build {
    /// Builds these programs for this machine; or takes the programs in the folder of `--programs`, of the target that
    /// `--target` names.
    pub(crate) fn new(
        layout: &Layout,
        options: &Options,
        programs: &[&str],
    ) -> anyhow::Result<Self> {
        let host = host()?;
        let triple = options.target.clone().unwrap_or_else(|| host.clone());
        let profile = options.profile.as_deref().unwrap_or("release");
        let is_release = match profile {
            "dev" => false,
            "release" => true,
            other => bail!("there is no profile `{other}`: dev or release"),
        };
        let is_native = triple == host;
        let given = options.programs.as_ref().map(PathBuf::from);
        // Those for another system cannot be asked for their options; quickly built ones of this machine are.
        let compiled = (given.is_none() || !is_native).then_some(is_release && is_native);
        if let Some(is_release) = compiled {
            compile(layout, is_release, programs)?;
        }
        let built = compiled.map(|is_release| layout.binaries(is_release));
        let native = built.or_else(|| given.clone());
        let native = native.context("no programs of this machine")?;
        let dir = layout.target.join("package").join(&triple);
        let build = Self {
            layout: layout.clone(),
            os: os(&triple)?,
            arch: arch(&triple)?,
            version: version(layout)?,
            epoch: epoch(layout)?,
            dir,
            native,
            is_native,
            is_release,
            triple,
        };
        create_dir(&build.dir)?;
        let from = match &given {
            Some(dir) => dir.clone(),
            None if build.is_native => build.native.clone(),
            None => bail!("--target {} needs --programs DIR", build.triple),
        };
        for name in programs {
            let (from, to) = (from.join(build.file(name)), build.program(name));
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
            if build.is_native {
                let status = Command::new("strip").arg(STRIP).arg(&to).status();
                ensure!(status.context("strip")?.success(), "strip {}", to.display());
            }
        }
        Ok(build)
    }

    /// Returns true if the programs run on this machine.
    pub(crate) fn is_native(&self) -> bool {
        self.is_native
    }

    /// Returns the name of the file of a program.
    pub(crate) fn file(&self, name: &str) -> String {
        let extension = if self.os == "windows" { ".exe" } else { "" };
        format!("{name}{extension}")
    }

    /// Returns the path of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(self.file(name))
    }

    /// Returns the path of a program for this machine.
    pub(super) fn native(&self, name: &str) -> PathBuf {
        self.native.join(name)
    }
}

fn compile(layout: &Layout, release: bool, programs: &[&str]) -> anyhow::Result<()> {
    let cargo = Program::new("cargo")?
        .words("build --locked")
        .args(programs.iter().flat_map(|program| ["--package", program]))
        .args(release.then_some("--release"))
        .dir(&layout.root);
    let heartbeat = Heartbeat::start(WHO, format!("building {}", programs.join(", ")));
    cargo
        .run(&layout.shutdown, heartbeat)
        .context("cargo build")
}

fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc")?;
    let output = String::from_utf8(output.stdout)?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc names no host")
}

fn os(triple: &str) -> anyhow::Result<&'static str> {
    let names = [
        ("linux", "linux"),
        ("apple-darwin", "macos"),
        ("windows", "windows"),
    ];
    let found = names.iter().find(|(part, _)| triple.contains(part));
    found
        .map(|(_, os)| *os)
        .with_context(|| format!("{triple}: another system"))
}

fn arch(triple: &str) -> anyhow::Result<&'static str> {
    let found = ["x86_64", "aarch64"]
        .into_iter()
        .find(|arch| triple.starts_with(arch));
    found.with_context(|| format!("{triple}: another processor"))
}

/// Returns the version of the workspace.
fn version(layout: &Layout) -> anyhow::Result<String> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new("cargo")
        .args(args)
        .current_dir(&layout.root)
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == "xtask");
    let version = package.and_then(|package| package["version"].as_str());
    version.map(str::to_owned).context("no version")
}

/// Returns `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn epoch(layout: &Layout) -> anyhow::Result<u64> {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    let time = match set.filter(|text| !text.is_empty()) {
        Some(text) => text,
        None => {
            let args = ["log", "-1", "--format=%ct"];
            let output = Command::new("git")
                .args(args)
                .current_dir(&layout.root)
                .output()?;
            String::from_utf8(output.stdout)?
        }
    };
    time.trim()
        .parse()
        .context("set SOURCE_DATE_EPOCH to seconds since 1970")
}
