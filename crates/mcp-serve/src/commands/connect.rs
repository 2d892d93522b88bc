//! `SERVER connect HOST`: writes the server into the file in which a host lists its servers.

mod environment;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, Parser};
use mcp_hosts::{Folders, Format, HOSTS, Host, Launch, Own, Plan, Server, Token};

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
        Ok(text) => {
            // A closed pipe changes nothing.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{program}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Connect {
    /// Returns what goes to stdout.
    fn act(&self, program: &str, server: &Command) -> anyhow::Result<String> {
        let host = Host::find(&self.host).context("this host is not known")?;
        let name = self.name.clone().unwrap_or_else(|| short(program));
        if self.undo {
            let plan = mcp_hosts::disconnect(host, &self.path(host)?, &name, &self.own(program))?;
            return self.finish(host, plan, &[]);
        }
        let launch = match &self.http {
            Some(url) => self.address(url, program)?,
            None => Launch::Program {
                command: own_path()?,
                args: self.arguments(server)?,
                env: environment::variables(server),
            },
        };
        let entry = Server { name, launch }.entry(host);
        let entry = entry.map_err(anyhow::Error::msg)?;
        if host.format == Format::Node {
            warn(&[format!("{}: {}", host.name, host.after)]);
            return Ok(format!("{:#}\n", entry.value));
        }
        let name = self.name.clone().unwrap_or_else(|| short(program));
        let own = self.own(program);
        let plan = mcp_hosts::connect(host, &self.path(host)?, &name, &entry.value, &own)?;
        self.finish(host, plan, &entry.warnings)
    }

    fn finish(&self, host: &Host, plan: Plan, warnings: &[String]) -> anyhow::Result<String> {
        warn(warnings);
        let file = plan.path().display().to_string();
        if !plan.changes() {
            return Ok(format!("nothing to do: {file} has this entry\n"));
        }
        let mut text = plan.diff().to_owned();
        if self.dry_run {
            text.push_str("nothing was written\n");
            return Ok(text);
        }
        let (copy, removes) = (plan.copy(), plan.removes());
        plan.apply()?;
        text.push_str(&match removes {
            true => format!("removed: {file}\n"),
            false => format!("written: {file}\n"),
        });
        if let Some(copy) = copy {
            text.push_str(&format!("the file as it was: {}\n", copy.display()));
        }
        text.push_str(&format!("next: {}\n", host.after));
        Ok(text)
    }

    /// The names and the URL by which an entry is one of this program.
    fn own(&self, program: &str) -> Own {
        let file = std::env::current_exe().ok();
        let stem = file.as_deref().and_then(Path::file_stem);
        let stem = stem.and_then(|stem| stem.to_str()).map(str::to_owned);
        Own {
            programs: stem.into_iter().chain([program.to_owned()]).collect(),
            urls: self.http.iter().cloned().collect(),
        }
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
            is_http && !environment::has_password(url),
            "--http must be a URL that starts with http:// or https://, without a password"
        );
        let token = match (&self.token_env, &self.token_file) {
            (Some(name), _) => Some(Token::Variable(name.clone())),
            (None, Some(file)) => {
                let file = std::path::absolute(file)?;
                Some(Token::File(file.display().to_string()))
            }
            (None, None) => {
                environment::is_set("MCP_TOKEN").then(|| Token::Variable("MCP_TOKEN".to_owned()))
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
        let mut args = vec!["--stdio".to_owned()];
        args.extend(self.options.iter().cloned());
        let parsed = crate::config::without_blank_variables(server.clone()).no_binary_name(true);
        if let Err(error) = parsed.try_get_matches_from(&args) {
            let is_missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
            anyhow::ensure!(is_missing, "the options after `--`: {}", first_line(&error));
        }
        // The option whose value is the next word.
        let mut named: Option<&Arg> = None;
        for option in args.iter_mut().skip(1) {
            if let Some(arg) = named.take().filter(|_| !option.starts_with("--")) {
                *option = argument(arg, std::mem::take(option))?;
                continue;
            }
            let (long, value) = match option.split_once('=') {
                Some((long, value)) => (long.to_owned(), Some(value.to_owned())),
                None => (option.clone(), None),
            };
            let mut known = server.get_arguments();
            let is_named = |arg: &&Arg| {
                arg.get_long()
                    .is_some_and(|name| long == format!("--{name}"))
            };
            let Some(arg) = known.find(is_named) else {
                continue;
            };
            match value {
                _ if environment::is_secret(arg) => return Err(secret(arg)),
                Some(value) => *option = format!("{long}={}", argument(arg, value)?),
                None => named = arg.get_action().takes_values().then_some(arg),
            }
        }
        Ok(args)
    }
}

/// The value of an option of this server, for a command line.
fn argument(arg: &Arg, value: String) -> anyhow::Result<String> {
    match environment::has_password(&value) {
        true => Err(secret(arg)),
        false => Ok(environment::absolute(arg, value)),
    }
}

fn secret(arg: &Arg) -> anyhow::Error {
    let long = arg.get_long().unwrap_or_default();
    let name = arg.get_env().unwrap_or_default().to_string_lossy();
    let what = match environment::is_secret(arg) {
        true => format!(
            "is a secret and does not belong on a command line: set {name} or {name}_FILE instead"
        ),
        false => {
            format!("has a password, which does not belong on a command line: set {name} instead")
        }
    };
    anyhow::anyhow!("--{long} {what}")
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
    let real = own.canonicalize().unwrap_or_else(|_| own.clone());
    let name = own.file_name().map(PathBuf::from).unwrap_or_default();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let found = folders.find_map(|folder| {
        let path = folder.join(&name);
        (path.canonicalize().ok()? == real).then_some(path)
    });
    text(&found.unwrap_or(own))
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
