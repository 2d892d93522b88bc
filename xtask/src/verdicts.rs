//! `cargo xtask n8n-verdicts`: compares what `validate_workflow` says with what n8n then does, for
//! templates of others and for broken workflows, and so for the npm package `n8n-mcp`, which brings the
//! templates.

use std::fs;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::args::Options;
use crate::cargo;
use crate::install::Package;
use crate::instance::{Instance, Purpose};
use crate::layout::Layout;
use crate::process::Program;
use crate::services::{Environment, Service, n8n};
use crate::test_server;

const BUILD: &str = "build --package n8n-mcp-server --bins";
const FOLDER: &str = "tests/verdicts";
const DEFAULT_COUNT: u32 = 60;

/// The variables of a running n8n for tests, and those that the script reads.
const VARIABLES: [(&str, &str); 3] = [
    ("MCP_TEST_N8N_URL", "N8N_URL"),
    ("MCP_TEST_N8N_API_KEY", "N8N_API_KEY"),
    ("MCP_TEST_N8N_MCP_TOKEN", "N8N_MCP_TOKEN"),
];

pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let package = install(layout)?;
    let given = |(name, _): &(&'static str, _)| Some((*name, std::env::var_os(name)?));
    let given: Option<Environment> = VARIABLES.iter().map(given).collect();
    let (environment, running) = match given {
        Some(environment) => (environment, None),
        None => {
            let (n8n, purpose) = (&n8n::CURRENT, Purpose::Test);
            n8n.install(layout)?;
            let instance = Instance::lock(layout, n8n.name(), purpose, 0)?;
            let process = n8n.start(layout, &instance)?;
            let environment = n8n.test_environment(layout, &instance);
            (environment, Some((process, instance)))
        }
    };
    let names = VARIABLES.map(|(_, name)| name);
    let values = environment.into_iter().map(|(_, value)| value);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = options.seed.unwrap_or_else(|| now.subsec_nanos());
    let [templates, mutations] =
        [options.templates, options.mutations].map(|count| count.unwrap_or(DEFAULT_COUNT));
    let log = layout.fresh_log("n8n-verdicts")?;
    let is_good = test_server::unconfigured(Program::new("node")?)
        .words(&format!("verdicts.mjs {seed} {templates} {mutations}"))
        .envs(names.into_iter().zip(values))
        .envs([("SERVER", layout.binaries(false).join("n8n-mcp-server"))])
        .dir(&package.dir)
        .log_to(&log)?
        .succeeds(&layout.shutdown, None)?;
    if let Some((process, instance)) = running {
        drop(process);
        instance.clear()?;
    }
    let output = fs::read_to_string(&log).context("the script wrote nothing")?;
    print_line!("{}", output.trim());
    Ok(cargo::exit_code(is_good))
}

/// Installs the package, and copies the scripts beside it.
fn install(layout: &Layout) -> anyhow::Result<Package<'_>> {
    let source = layout.root.join(FOLDER);
    let package = Package::new(layout, "verdicts", "verdicts");
    let lock = fs::read_to_string(source.join("package-lock.json"))?;
    let copy = |file| fs::copy(source.join(file), package.dir.join(file));
    package.install(&lock, |_| {
        copy("package.json")?;
        copy("package-lock.json")?;
        let words = "ci --ignore-scripts --omit=optional";
        package.run("installing n8n-mcp (150 MB)", "npm".as_ref(), words)
    })?;
    copy("verdicts.mjs")?;
    copy("mutations.mjs")?;
    Ok(package)
}
