//! The official suite as a program, from npm.

use std::fs;
use std::path::PathBuf;

use anyhow::bail;

use crate::console::{Heartbeat, line};
use crate::install::{Unavailable, was_offline};
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Program;
use crate::tally::Tally;

/// The suite is written for a newer Node.js than many machines have; npm has that as a package.
const NODE: &str = "node@22";

/// The version of `@modelcontextprotocol/conformance` that knows all revisions.
pub(super) const NEWEST: &str = "0.2.0-alpha.12";

/// One run of it.
pub(super) struct Run<'a> {
    name: &'a str,
    log: PathBuf,
    /// The folder of what it writes down, empty at first.
    pub(super) results: PathBuf,
}

impl<'a> Run<'a> {
    pub(super) fn new(layout: &Layout, name: &'a str) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            log: layout.fresh_log(&format!("conformance-{name}"))?,
            results: results(layout, name)?,
        })
    }

    /// Runs a command line of a shell that has the suite's `conformance` on its search path.
    pub(super) fn perform(
        &self,
        layout: &Layout,
        version: &str,
        command: &str,
    ) -> anyhow::Result<bool> {
        if on_path("npx").is_none() {
            bail!(Unavailable("npx is not installed".to_owned()));
        }
        let package = format!("@modelcontextprotocol/conformance@{version}");
        let mut beat = Heartbeat::start("suite", self.name);
        let status = Program::new("npx")?
            .args(["-y", "-p", NODE, "-p", &package, "-c", command])
            .envs([("npm_config_cache", layout.backends().join("npm"))])
            .envs(crate::install::REGISTRY_SETTINGS)
            .dir(&layout.root)
            .log_to(&self.log)?
            .spawn()?
            .wait(&layout.stop, || beat.beat())?;
        Ok(status.success())
    }

    /// Errors where nothing has run because there is no network.
    pub(super) fn check_online(&self, has_run: bool) -> anyhow::Result<()> {
        if !has_run && was_offline(&String::from_utf8_lossy(&fs::read(&self.log)?)) {
            let why = "no network, npm could not reach its registry";
            bail!(Unavailable(why.to_owned()));
        }
        Ok(())
    }

    /// Prints the line about it, and those about what was wrong with it.
    pub(super) fn announce(
        &self,
        layout: &Layout,
        tally: Tally,
        failures: impl Iterator<Item = String>,
    ) {
        let (verdict, name) = (tally.verdict(), self.name);
        line(format_args!("{verdict:<8} {name}: {tally}"));
        failures.for_each(line);
        if tally.failed > 0 {
            let log = layout.shown(&self.log);
            line(format_args!("         all of it: {log}"));
        }
    }
}

/// Returns the address of a server; the suite wants one that is called by the name `localhost`.
pub(super) fn url(port: u16) -> String {
    format!("http://localhost:{port}/mcp")
}

/// Makes an empty folder for what belongs to a run.
pub(super) fn results(layout: &Layout, name: &str) -> anyhow::Result<PathBuf> {
    let dir = layout.backends().join("conformance").join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    create_dir(&dir)?;
    Ok(dir)
}
