//! `SERVER connect HOST`: writes the server into the file in which a host lists its servers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, Command, Parser};
use mcp_hosts::{Folders, Format, HOSTS, Host, Launch, Listed, Plan, Token, Variable};

use super::{fail, print};
use crate::config::Setting;

/// Writes this server into the file of a host, so that the host uses it.
///
/// Changes one key of the file, keeps comments, order and line ends, and leaves a copy beside it. The host
/// starts this program with the variables of the service that are set now; secrets are only referred to.
#[derive(Parser)]
pub(super) struct Connect {
    /// Program that uses MCP servers.
    #[arg(value_parser = PossibleValuesParser::new(HOSTS.iter().map(|host| host.id)))]
    host: String,
    /// Show the change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Make the file what it was before; changes of others since then are kept.
    #[arg(long)]
    undo: bool,
    /// Let the host call this URL of a running server, such as http://127.0.0.1:3456/mcp, instead of
    /// starting this program. With --undo: the URL of the entry.
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Let the host start this program; the default.
    #[arg(long, conflicts_with_all = ["http", "undo"])]
    stdio: bool,
    /// Name of the entry [default: that of the service].
    #[arg(long)]
    name: Option<String>,
    /// The file of the project in this folder, instead of that of the user.
    #[arg(long)]
    project: bool,
    /// Another file of the host.
    #[arg(long, value_name = "FILE", conflicts_with = "project")]
    file: Option<PathBuf>,
    /// Variable of the host's environment with the token of the URL [default: MCP_TOKEN, if it is set].
    #[arg(long, value_name = "NAME", requires = "http")]
    token_env: Option<String>,
    /// File with the token of the URL, for `mcp-gateway bridge`.
    #[arg(
        long,
        value_name = "FILE",
        requires = "http",
        conflicts_with = "token_env"
    )]
    token_file: Option<PathBuf>,
    /// Options of this server, after `--`.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Runs the command; `server` is the command line of the server.
pub(super) fn run(connect: &Connect, program: &str, server: &Command) -> ExitCode {
    match connect.act(program, server) {
        Ok(text) => print(text.as_bytes()),
        Err(error) => fail(program, error),
    }
}

impl Connect {
    /// Returns what goes to stdout.
    fn act(&self, program: &str, server: &Command) -> anyhow::Result<String> {
        let host = Host::find(&self.host).context("this host is not known")?;
        let name = self.name.clone().unwrap_or_else(|| short(program));
        let file = std::env::current_exe().ok();
        let stem = file.as_deref().and_then(Path::file_stem);
        let is_own = |entry: &Listed| match entry.program() {
            Some("mcp-gateway") if entry.bridged().is_some() => true,
            Some(started) => started == program || stem.is_some_and(|stem| stem == started),
            None => entry.url.is_some() && entry.url == self.http,
        };
        if self.undo {
            let plan = mcp_hosts::disconnect(host, &self.path(host)?, &name, &is_own)?;
            return self.finish(host, plan, &[]);
        }
        let launch = match &self.http {
            Some(url) => self.address(url, program)?,
            None => Launch::Program {
                command: own_path()?,
                args: self.arguments(server)?,
                env: variables(server)?,
            },
        };
        let entry = mcp_hosts::entry(host, &name, &launch);
        let (entry, warnings) = entry.map_err(anyhow::Error::msg)?;
        if host.format == Format::Node {
            warn(&[format!("{}: {}", host.name, host.after)]);
            return Ok(format!("{entry:#}\n"));
        }
        let plan = mcp_hosts::connect(host, &self.path(host)?, &name, &entry, &is_own)?;
        self.finish(host, plan, &warnings)
    }

    fn finish(&self, host: &Host, plan: Plan, warnings: &[String]) -> anyhow::Result<String> {
        warn(warnings);
        if plan.diff.is_empty() {
            return Ok(format!(
                "nothing to do: {} has this entry\n",
                plan.path.display()
            ));
        }
        let mut text = plan.diff.clone();
        if self.dry_run {
            return Ok(text + "nothing was written\n");
        }
        text.push_str(&plan.apply()?);
        text.push_str(&format!("next: {}\n", host.after));
        Ok(text)
    }

    fn path(&self, host: &Host) -> anyhow::Result<PathBuf> {
        if let Some(file) = &self.file {
            return Ok(std::path::absolute(file)?);
        }
        let folders = Folders::here().context("no home folder is set (HOME)")?;
        let path = host.path(&folders, self.project);
        path.with_context(|| match self.project {
            true => format!("{} has no file of projects", host.name),
            false => format!("{} keeps its servers in no file", host.name),
        })
    }

    fn address(&self, url: &str, program: &str) -> anyhow::Result<Launch> {
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        anyhow::ensure!(
            is_http && !has_password(url),
            "--http must be a URL that starts with http:// or https://, without a password"
        );
        let token = match (&self.token_env, &self.token_file) {
            (Some(name), _) => Some(Token::Variable(name.clone())),
            (None, Some(file)) => {
                let file = std::path::absolute(file)?;
                Some(Token::File(file.display().to_string()))
            }
            (None, None) => {
                let set = std::env::var_os("MCP_TOKEN").filter(|value| !value.is_empty());
                set.map(|_| Token::Variable("MCP_TOKEN".to_owned()))
            }
        };
        Ok(Launch::Url {
            url: url.to_owned(),
            token,
            bridge: gateway(program)?,
        })
    }

    /// The arguments of the entry. Secrets do not belong there: every process of the machine can read them.
    fn arguments(&self, server: &Command) -> anyhow::Result<Vec<String>> {
        // Another option may come from the environment of the host.
        let parser = crate::config::without_blank_variables(server.clone());
        let parser = parser
            .no_binary_name(true)
            .mut_args(|arg| arg.required(false));
        let parsed = parser.try_get_matches_from(&self.options);
        let parsed = parsed
            .map_err(|error| anyhow::anyhow!("the options after `--`: {}", first_line(&error)))?;
        let mut args = vec!["--stdio".to_owned()];
        for arg in server.get_arguments() {
            let id = arg.get_id().as_str();
            if parsed.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let long = arg.get_long().unwrap_or_default();
            if !arg.get_action().takes_values() {
                args.push(format!("--{long}"));
                continue;
            }
            for value in parsed.get_raw(id).into_iter().flatten() {
                let value = value.to_string_lossy().into_owned();
                if Setting::new(arg).is_secret() || has_password(&value) {
                    return Err(secret(server, arg));
                }
                args.push(format!("--{long}={}", absolute(arg, &value)?));
            }
        }
        Ok(args)
    }
}

fn secret(server: &Command, arg: &Arg) -> anyhow::Error {
    let long = arg.get_long().unwrap_or_default();
    let name = arg.get_env().unwrap_or_default().to_string_lossy();
    let what = match Setting::new(arg).is_secret() {
        true => "is a secret and does not belong",
        false => "has a password, which does not belong",
    };
    let file = file_variable(server, arg).map(|file| format!(" or {file}"));
    let file = file.unwrap_or_default();
    anyhow::anyhow!("--{long} {what} on a command line: set {name}{file} instead")
}

/// The variable that names a file with the value of this option.
fn file_variable<'a>(server: &'a Command, arg: &Arg) -> Option<&'a str> {
    let long = format!("{}-file", arg.get_long()?);
    let mut args = server.get_arguments();
    args.find(|other| other.get_long() == Some(&long))?
        .get_env()?
        .to_str()
}

/// The place of a secret for a host that cannot refer to a variable, as the first part of a sentence.
fn other_place(server: &Command, arg: &Arg) -> String {
    if let Some(file) = file_variable(server, arg) {
        return format!("Put it into a file and set {file}");
    }
    let key = Setting::new(arg).key;
    let table = match crate::config::has_own_form(server) {
        true => "the table [server] of the file of the gateway",
        false => "a file in TOML",
    };
    format!("Write {key:?} into {table} and connect with `-- --config FILE`")
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        let _ = writeln!(std::io::stderr(), "note: {warning}");
    }
}

/// The name of a service: `docker` of `docker-mcp-server`, `gateway` of `mcp-gateway`.
pub(super) fn short(program: &str) -> String {
    let name = program.trim_end_matches("-mcp-server");
    name.trim_start_matches("mcp-").to_owned()
}

/// The path of this program, by the folder of `PATH` in which it is found: that one stays after an update.
fn own_path() -> anyhow::Result<String> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let name = own.file_name().unwrap_or_default();
    let is_own = |found: &PathBuf| found.canonicalize().ok() == own.canonicalize().ok();
    let found = on_path(name.as_ref()).filter(is_own);
    text(&found.unwrap_or(own))
}

/// The file of a command, which may be a bare name: then a host looks for it in `PATH` only.
pub(super) fn on_path(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return Some(command.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let mut files = folders.map(|folder| folder.join(command));
    files.find(|file| file.is_file())
}

/// The path of `mcp-gateway`, which is this program or beside it.
fn gateway(program: &str) -> anyhow::Result<Option<String>> {
    let own = own_path()?;
    if program == "mcp-gateway" {
        return Ok(Some(own));
    }
    let gateway =
        Path::new(&own).with_file_name(format!("mcp-gateway{}", std::env::consts::EXE_SUFFIX));
    gateway.is_file().then(|| text(&gateway)).transpose()
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.context("the path of this program is not UTF-8")
}

/// Variables of servers on the network, which a host that starts the program does not need; beside those of access and TLS.
const OF_HTTP: [&str; 7] = [
    "MCP_BIND",
    "MCP_PORT",
    "MCP_RATE_LIMIT",
    "MCP_SSE",
    "MCP_STDIO",
    "MCP_STREAM_LIMIT",
    "MCP_TOKEN",
];

/// The variables of the server that are set now.
fn variables(server: &Command) -> anyhow::Result<Vec<(String, Variable)>> {
    let mut variables = Vec::new();
    for arg in server.get_arguments() {
        let Some(name) = arg.get_env().and_then(|name| name.to_str()) else {
            continue;
        };
        let of_http =
            OF_HTTP.contains(&name) || matches!(arg.get_help_heading(), Some("Access" | "TLS"));
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(value) = value.filter(|_| !of_http) {
            let value = match Setting::new(arg).is_secret() || has_password(&value) {
                true => Variable::Inherited {
                    otherwise: other_place(server, arg),
                },
                false => Variable::Plain(absolute(arg, &value)?),
            };
            variables.push((name.to_owned(), value));
        }
    }
    Ok(variables)
}

/// The value of an option with each path on this machine from the root: hosts start programs in a folder of their own.
fn absolute(arg: &Arg, value: &str) -> anyhow::Result<String> {
    let (setting, here) = (Setting::new(arg), std::env::current_dir()?);
    let one = |value: &str| setting.in_folder(value.trim().to_owned(), &here);
    Ok(match arg.get_value_delimiter() {
        Some(delimiter) => {
            let values: Vec<_> = value.split(delimiter).map(one).collect();
            values.join(&delimiter.to_string())
        }
        None => one(value),
    })
}

/// True if an address among the values has a password. A user name alone is one in a URL of HTTP, where tokens
/// stand in its place, but not in `ssh://me@host`.
fn has_password(values: &str) -> bool {
    values.split(',').any(|value| {
        let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':') || scheme.contains("http"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_on_this_machine_are_written_from_the_root() {
        let arg = |name: &'static str| Arg::new("a").value_name(name).value_delimiter(',');
        let path = |arg: Arg| arg.value_parser(clap::value_parser!(PathBuf));
        let root = std::env::current_dir().unwrap().join("a");
        let root = root.to_str().unwrap();
        for (arg, value, expected) in [
            (path(arg("FILE")), "a,a", format!("{root},{root}")),
            (arg("NAME=FILE"), "x=a,y=a", format!("x={root},y={root}")),
            (arg("REMOTE_DIR"), "a", "a".to_owned()),
            (path(arg("DIR")), "a", root.to_owned()),
        ] {
            assert_eq!(absolute(&arg, value).unwrap(), expected);
        }
    }

    #[test]
    fn user_name_is_no_password_except_in_a_url_of_http() {
        for with in [
            "tcp://u:pw@h",
            "n8n=http://u:pw@h/mcp",
            "https://TOKEN@h",
            "ssh://h,tcp://:pw@h",
        ] {
            assert!(has_password(with), "{with}");
        }
        for without in ["ssh://me@host", "http://h/@x", "me@host", "a:b,c", ""] {
            assert!(!has_password(without), "{without}");
        }
    }
}
