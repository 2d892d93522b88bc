//! The hosts that have this server, and whether their entries work.

use std::path::PathBuf;

use anyhow::Context as _;
use mcp_client::{Client, Command, Endpoint};
use mcp_hosts::{Folders, HOSTS, Host, Listed, Reference, listed};

use super::{Report, tools_of};
use crate::commands::connect::on_path;
use crate::config::expand::expand;

/// Checks the entries of all hosts that start `program` or call its port. Of their variables the server gets those
/// that it knows itself.
pub(super) async fn examine(
    report: &mut Report,
    program: &str,
    short: &str,
    port: u16,
    server: &clap::Command,
) {
    let Some(folders) = Folders::here() else {
        return;
    };
    let mut found = false;
    for (host, project) in HOSTS.iter().flat_map(|host| [(host, false), (host, true)]) {
        let Some(path) = host.path(&folders, project).filter(|path| path.is_file()) else {
            continue;
        };
        let entries = listed(host, &path).unwrap_or_else(|error| {
            let text = format!("{}: {error:#}", host.name);
            report.warn("host", text, "correct the file");
            Vec::new()
        });
        for entry in entries.iter().filter(|entry| is_own(entry, program, port)) {
            found = true;
            let what = format!("{}: {:?} in {}", host.name, entry.name, path.display());
            let not_tried = match (entry.command.is_empty(), project) {
                _ if entry.is_disabled => Some((" is switched off", "switch it on in the host")),
                (false, true) => Some((
                    ": not started: a file of this folder may name any program and service",
                    "try it in the host",
                )),
                (false, false) if !is_this_program(entry) => Some((
                    ": not started: it names another file than this program",
                    "try it in the host",
                )),
                _ => None,
            };
            if let Some((reason, advice)) = not_tried {
                report.warn("host", what + reason, advice);
                continue;
            }
            match try_entry(entry, host, server).await {
                Ok(tools) => report.ok("host", format!("{what} works, {tools} tools")),
                Err(error) => {
                    let advice = format!("{program} connect {} --name {}", host.id, entry.name);
                    report.fail("host", format!("{what}: {error:#}"), &advice);
                }
            }
        }
    }
    if !found {
        let advice = format!("{program} connect HOST, such as claude-code or vscode");
        report.warn("host", format!("no host has the server {short:?}"), &advice);
    }
}

/// True if an entry starts this program, or calls its port here.
fn is_own(entry: &Listed, program: &str, port: u16) -> bool {
    let is_here = |url: &str| {
        let mut names = ["127.0.0.1", "localhost", "[::1]"].into_iter();
        names.any(|name| url.starts_with(&format!("http://{name}:{port}/")))
    };
    let bridged = entry.bridged();
    let starts = bridged.is_none() && entry.program() == Some(program);
    starts || entry.url.as_deref().or(bridged).is_some_and(is_here)
}

/// True if the file behind the command of an entry is that of this program, or the gateway beside it for its bridge.
fn is_this_program(entry: &Listed) -> bool {
    let (Some(command), Ok(own)) = (entry.command.first(), std::env::current_exe()) else {
        return false;
    };
    let real = |path: PathBuf| path.canonicalize().ok();
    let Some(found) = on_path(command.as_ref()).and_then(real) else {
        return false;
    };
    let gateway = format!("mcp-gateway{}", std::env::consts::EXE_SUFFIX);
    let gateway = entry.bridged().map(|_| own.with_file_name(gateway));
    let gateway = gateway.and_then(real);
    real(own).as_ref() == Some(&found) || gateway.as_ref() == Some(&found)
}

/// Starts or calls the server as the host does. Returns the number of its tools.
async fn try_entry(entry: &Listed, host: &Host, server: &clap::Command) -> anyhow::Result<usize> {
    let expanded = |text: &str| match host.reference {
        Reference::Braces | Reference::Env | Reference::BareEnv => expanded(text),
        Reference::Named | Reference::Unsupported => Ok(text.to_owned()),
    };
    let token = match entry.command.iter().position(|arg| arg == "--token-env") {
        Some(at) => entry.command.get(at + 1),
        None => None,
    };
    let is_known = |name: &str| {
        let mut known = server.get_arguments().filter_map(clap::Arg::get_env);
        known.any(|known| known == name) || token.is_some_and(|token| token == name)
    };
    let client = match (entry.command.split_first(), &entry.url) {
        (Some((program, args)), _) => {
            // The file that was compared, not one that a variable names.
            let program = on_path(program.as_ref()).context("its program is not in PATH")?;
            let program = program.canonicalize();
            let mut command = Command::new(program.context("its program is not there")?);
            for arg in args {
                command = command.arg(expanded(arg)?);
            }
            for (name, value) in entry.env.iter().filter(|(name, _)| is_known(name)) {
                command = command.env(name, expanded(value)?);
            }
            for name in entry.env_pass.iter().filter(|name| is_known(name)) {
                command = command.env(name, variable(name)?);
            }
            if let Some(folder) = &entry.cwd {
                command = command.directory(expanded(folder)?);
            }
            Client::stdio(command)?
        }
        (None, Some(url)) => {
            let mut endpoint = Endpoint::new(&expanded(url)?)?;
            for (name, value) in &entry.headers {
                endpoint = endpoint.header(name, &expanded(value)?)?;
            }
            if let Some(name) = &entry.token_variable {
                endpoint = endpoint.bearer(&variable(name)?)?;
            }
            Client::http(endpoint)?
        }
        (None, None) => anyhow::bail!("it has neither a program nor a URL"),
    };
    Ok(tools_of(&client).await?.len())
}

fn variable(name: &str) -> anyhow::Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.ok_or_else(|| anyhow::anyhow!("it refers to {name}, which is not set here"))
}

/// Replaces `${NAME}` and `${env:NAME}` by the variables of this environment.
fn expanded(text: &str) -> anyhow::Result<String> {
    expand(text, &|name| std::env::var(name).ok()).map_err(anyhow::Error::msg)
}
