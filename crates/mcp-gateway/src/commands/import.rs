//! `mcp-gateway import`: takes the servers of a host over into the file of the gateway.

mod backend;
mod secret;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use gateway_approvals::pins::printable;
use mcp_hosts::{Folders, GATEWAY, HOSTS, Host, Reference, listed};
use serde_json::Value;

use self::backend::Variables;
use super::print;
use crate::config::{BackendKey, ConfigSource};

/// Takes the servers of a host over as backends of the gateway, and says which not, and why.
///
/// Secrets are not copied: the backends refer to variables, which are named. The host keeps its servers. The
/// gateway's file as it was is beside it.
#[derive(Parser)]
pub(super) struct Import {
    /// Program that uses MCP servers.
    #[arg(value_parser = PossibleValuesParser::new(HOSTS.iter().filter(|host| host.file.is_some()).map(|host| host.id)))]
    host: String,
    /// Show the change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// The file of the project in this folder, instead of that of the user.
    #[arg(long)]
    project: bool,
    /// Another file of the host.
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    file: Option<PathBuf>,
    /// File of the gateway, in TOML; made if it is not there.
    #[arg(long, env = "MCP_GATEWAY_CONFIG", value_name = "FILE")]
    config: PathBuf,
}

/// Runs the command.
pub(super) fn run(import: Import) -> ExitCode {
    match import.act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(&printable(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

impl Import {
    fn act(&self) -> anyhow::Result<()> {
        let host = Host::find(&self.host).context("this host is not known")?;
        let path = self.path(host)?;
        anyhow::ensure!(path.is_file(), "{} is not there", path.display());
        let servers = listed(host, &path)?;
        let before = listed(&GATEWAY, &self.config)?;
        let mut keys: Vec<String> = before.iter().map(|backend| backend.name.clone()).collect();
        let mut entries = Vec::new();
        let text = std::fs::read_to_string(&self.config).unwrap_or_default();
        let old = toml::from_str::<toml::Table>(&text).unwrap_or_default();
        let values = servers
            .iter()
            .flat_map(|server| server.env.iter().chain(&server.headers));
        let values = values.map(|(_, value)| value.as_str());
        let used: Vec<&str> = values.chain([text.as_str()]).collect();
        let is_used = |variable: &str| {
            let forms = [
                format!("${{{variable}"),
                format!("${{env:{variable}"),
                format!("${variable}"),
            ];
            used.iter()
                .any(|text| forms.iter().any(|form| text.contains(form)))
        };
        let mut variables = Variables::new();
        let can_refer = host.reference != Reference::Unsupported;
        for server in &servers {
            let name = &server.name;
            let taken = match backend::take(server, can_refer) {
                Ok(taken) => taken,
                Err(reason) => {
                    print(&printable(&format!("not taken: {name}: {reason}")));
                    continue;
                }
            };
            let Some(key) = free_key(name, &keys) else {
                print(&printable(&format!(
                    "not taken: {name}: its name has no letter"
                )));
                continue;
            };
            let (value, named) = taken.named(&key, &mut variables, is_used);
            if let Some(other) = same(&old, &value) {
                print(&printable(&format!(
                    "not taken: {name}: the file has it as {other}"
                )));
                continue;
            }
            let one = [(key.clone(), value)];
            let alone = mcp_hosts::add(&GATEWAY, &self.config, "import", &one)?;
            if let Err(error) = ConfigSource::check(&self.config, alone.text()) {
                // Without a file of the gateway that is right, the fault may be anywhere.
                ConfigSource::check(&self.config, &text)?;
                print(&printable(&format!("not taken: {name}: {error}")));
                continue;
            }
            let [(_, value)] = one;
            print(&printable(&format!("taken: {name} as {key}")));
            for variable in named {
                print(&format!(
                    "  set {variable} where the gateway is started: its value was not copied"
                ));
            }
            keys.push(key.clone());
            entries.push((key, value));
        }
        if entries.is_empty() {
            return Ok(());
        }
        let plan = mcp_hosts::add(&GATEWAY, &self.config, "import", &entries)?;
        ConfigSource::check(&self.config, plan.text())?;
        plan.diff().lines().for_each(|line| print(&printable(line)));
        if self.dry_run {
            print("nothing was written");
            return Ok(());
        }
        let (file, backup) = (plan.path().display().to_string(), plan.backup());
        plan.apply()?;
        print(&format!("written: {file}"));
        if let Some(backup) = backup {
            print(&format!("the file as it was: {}", backup.display()));
        }
        Ok(())
    }

    fn path(&self, host: &Host) -> anyhow::Result<PathBuf> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let folders = Folders::here().context("no home folder is set (HOME)")?;
        let path = host.path(&folders, self.project);
        path.with_context(|| format!("{} has no file of projects", host.name))
    }
}

/// The backend of the file that has the same program or URL, with variables and headers of the same names.
fn same<'a>(old: &'a toml::Table, new: &Value) -> Option<&'a str> {
    let identity = |backend: &Value| {
        let fields = ["command", "cwd", "url"].map(|field| backend[field].clone());
        let names = ["env", "headers"].map(|field| {
            let members = backend[field].as_object().into_iter().flatten();
            members
                .map(|(name, _)| name.clone())
                .collect::<BTreeSet<_>>()
        });
        (fields, names)
    };
    let backends = old.get("backends")?.as_table()?;
    let found = backends.iter().find(|(_, backend)| {
        serde_json::to_value(backend).is_ok_and(|backend| identity(&backend) == identity(new))
    });
    found.map(|(key, _)| key.as_str())
}

/// The key of a backend for a name, with a number if it is taken.
fn free_key(name: &str, keys: &[String]) -> Option<String> {
    let nearest = BackendKey::nearest(name)?;
    let numbered = (2..100).filter_map(|number| nearest.numbered(number));
    let mut all = std::iter::once(nearest.clone()).chain(numbered);
    let free = all.find(|key| !keys.iter().any(|taken| taken == key.as_str()))?;
    Some(free.to_string())
}
