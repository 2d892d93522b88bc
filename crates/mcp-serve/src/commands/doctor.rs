//! `SERVER doctor`: looks for what keeps a server from working, and says what to do.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::{OsStr, Resettable};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Id, Parser};
use mcp_client::{Client, ClientInfo, Endpoint, Proxy};
use mcp_core::jsonrpc::{member, string};
use mcp_core::tool::{self, Detail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::connect::short;
use crate::commands::print;
use crate::config::{Applied, Problem, SetOption, Setting};
use crate::key::Key;
use crate::tools::ChosenTools;
use crate::{Checkup, Command, Options, Product, Running, Service, config, log};

mod entries;

/// Timeout of each question to a running server and to a host's entry.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the question to the service, which may have to be started.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the configuration, the service, the port, the tokens and the hosts.
///
/// Changes nothing. Takes the options of the server, and tells each problem of their variables and files, as
/// FILE:LINE: KEY: PROBLEM. Starts this program as the files of the user's hosts do. Exit code: 0 if it works, 78 if
/// the configuration cannot be used, 1 if something else fails.
#[derive(Parser)]
struct Doctor<O: Args> {
    /// Check the configuration alone, and ask neither the service nor the network.
    #[arg(long)]
    offline: bool,
    /// Print the options that are set, and where, without secrets.
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// Print JSON: a list of findings with `status`, `check`, `text` and `advice`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    command: Command<O>,
}

/// The command line, with the option that names the configuration file.
pub(super) fn command<O: Args>() -> clap::Command {
    // `--help` shows what it has beside the options of the server.
    config::with_option(Doctor::<O>::command()).mut_args(|arg| match arg.get_help_heading() {
        Some(_) => arg.hide_short_help(true).hide_long_help(true),
        None => arg,
    })
}

/// Runs the command with its arguments, of which the first is its name.
pub(super) fn run<S: Service, O: Args + 'static>(
    product: Product<S, O>,
    command: clap::Command,
    args: &[OsString],
) -> ExitCode {
    let mut report = Report::default();
    let Applied {
        command,
        places,
        mut problems,
    } = config::apply(command, args);
    let command = without_faulty_variables(command, args, &mut problems);
    for problem in problems {
        report.fail("config", problem.to_string(), "");
    }
    let parsed = config::without_values(command.clone()).try_get_matches_from(args);
    let doctor = parsed.and_then(|matches| {
        let doctor = Doctor::<O>::from_arg_matches(&matches)?;
        if doctor.values {
            print(values(&command, &matches, &places).as_bytes());
        }
        Ok(doctor)
    });
    let doctor = match doctor {
        Ok(doctor) => doctor,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let text = error.to_string();
            // The usage and tips follow after a blank line.
            let lines = text.lines().take_while(|line| !line.is_empty());
            let lines: Vec<_> = lines.map(str::trim).collect();
            let text = lines.join(" ");
            report.fail("config", text.trim_start_matches("error: ").to_owned(), "");
            report.end_configuration();
            return report.print(args.iter().any(|arg| arg == "--json"));
        }
    };
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            runtime.block_on(examine(
                &mut report,
                doctor.command,
                product,
                doctor.offline,
            ));
            runtime.shutdown_background();
        }
        Err(error) => report.fail("process", format!("no thread can be started: {error}"), ""),
    }
    report.print(doctor.json)
}

async fn examine<S: Service, O: Args + 'static>(
    report: &mut Report,
    command: Command<O>,
    product: Product<S, O>,
    is_offline: bool,
) {
    let (name, options) = (product.identity.name.clone(), command.common.clone());
    let server = product.options_command();
    let address = SocketAddr::from((options.bind, options.port.unwrap_or(product.port)));
    examine_files(report, &server);
    for sentence in config::misspelled_variables(&server) {
        report.warn("config", sentence, "rename the variable, or remove it");
    }
    let tools = examine_configuration(report, &product, &command);
    let running = make(report, product, command, is_offline);
    report.end_configuration();
    if is_offline {
        return;
    }
    let is_running = examine_port(report, address, &name, options.tls_cert.is_some()).await;
    let url = format!("http://{}/mcp", reachable(address));
    let token = options.token.as_deref();
    if let Some(running) = running {
        let is_online = is_running && is_online(reachable(address)).await;
        examine_service(report, running, is_online.then_some(address.port())).await;
    }
    // A running gateway may have another file, or keep an older one.
    if is_running && S::RELAYS {
        examine_backends(report, &url, token).await;
    }
    match is_running {
        true => running_tools(report, &url, token).await,
        false if S::RELAYS => report.warn(
            "context",
            "the tools of the backends are known to a running gateway only".to_owned(),
            "start it, and run this command again",
        ),
        false => report.context("the default list", &tools),
    }
    entries::examine(report, &name, &short(&name), address.port(), &server).await;
}

/// Makes the service, unless something is wrong already, or all was found without it and it is not to be asked.
fn make<S: Service, O: Args + 'static>(
    report: &mut Report,
    mut product: Product<S, O>,
    command: Command<O>,
    is_offline: bool,
) -> Option<Running<S>> {
    let configuration = product.configuration.take();
    if report.has_failed() || is_offline && configuration.is_some() {
        return None;
    }
    if let Some(configuration) = configuration {
        product.connect = configuration.connect;
    }
    let tokens = command.common.tokens();
    let running = Key::random().and_then(|key| product.assemble(command, &key));
    if let (Ok(running), Ok(tokens)) = (&running, tokens)
        && let Some(owners) = tokens.owners()
    {
        running.service().follow_tokens(owners);
    }
    let failed = |error| report.fail("config", format!("{error:#}"), "");
    running.map_err(failed).ok()
}

/// Asks the service of a server. `online` is the port of a server that runs and has its service.
async fn examine_service<S: Service>(
    report: &mut Report,
    running: Running<S>,
    online: Option<u16>,
) {
    let asked = Arc::clone(running.service()).check(Arc::clone(&running.server));
    let asked = tokio::time::timeout(SERVICE_TIMEOUT, asked).await;
    running.stop().await;
    let found = asked.unwrap_or_else(|_| Checkup {
        problems: vec![format!(
            "no answer within {} s: check its address",
            SERVICE_TIMEOUT.as_secs()
        )],
        ..Checkup::default()
    });
    // Problems of a gateway name the backends of its own configuration.
    let advice = online.filter(|_| !S::RELAYS).map(|port| {
        format!(
            "the server on {port} is online, so this check may have other options than that server, such as another \
             address of the service: give the check the options and variables of the server"
        )
    });
    if let Some(answer) = found.answer {
        report.ok("service", answer);
    }
    for warning in found.warnings {
        report.warn("service", warning, "");
    }
    for problem in found.problems {
        report.fail("service", problem, advice.as_deref().unwrap_or_default());
    }
}

/// Asks a running gateway for its backends.
async fn examine_backends(report: &mut Report, url: &str, token: Option<&str>) {
    let asked = async {
        let (client, nothing) = (client(url, token)?, json!({}));
        let told = ask(&client, client.call_tool("gateway_status", &nothing)).await?;
        anyhow::ensure!(!told.is_error, "{}", told.text());
        anyhow::Ok(serde_json::from_str::<Value>(&told.text())?)
    };
    let status = match asked.await {
        Ok(status) => status,
        Err(error) => {
            let text = format!("the running gateway does not tell of its backends: {error:#}");
            let advice = match &error {
                error if is_unauthorized(error) => "set MCP_TOKEN to a token of the gateway",
                error if is_refused(error) => {
                    "the role of this client may lack the tool: `own = [\"gateway_status\"]` in the role allows it, \
                     or set MCP_TOKEN to a token with such a role"
                }
                _ => "look at its log",
            };
            return report.warn("running", text, advice);
        }
    };
    for (name, backend) in status["backends"].as_object().into_iter().flatten() {
        let state = backend["status"].as_str().unwrap_or("unknown");
        let error = backend["last_error"].as_str().unwrap_or_default();
        let advice = backend["advice"].as_str().unwrap_or_default();
        // Without requests it stops; the next call starts it.
        let is_idle = state == "stopped" && backend["protocol"].is_string();
        let text = format!("backend {name}: {state}");
        match is_idle || ["running", "disabled"].contains(&state) {
            true => report.ok("running", text),
            false => report.fail("running", format!("{text}: {error}"), advice),
        }
    }
    if let Some(lost) = status["decisions"].as_str() {
        report.fail("running", lost.to_owned(), "");
    }
    if let Some(reason) = status["refused_configuration"].as_str() {
        let text = format!("the gateway goes on with its old configuration: {reason}");
        report.fail("running", text, "correct the file");
    }
    let unmatched = status["unmatched_rules"].as_array().into_iter().flatten();
    for rule in unmatched.filter_map(Value::as_str) {
        report.warn("running", rule.to_owned(), "correct or remove the rule");
    }
}

/// Lists the tools of the running server: what each conversation pays.
async fn running_tools(report: &mut Report, url: &str, token: Option<&str>) {
    let listed = async { tools_of(&client(url, token)?).await };
    match listed.await {
        Ok(tools) => report.context("the running server", &tools),
        Err(error) => report.warn(
            "context",
            format!("the tools of the running server are not listed: {error:#}"),
            match is_unauthorized(&error) {
                true => "set MCP_TOKEN to a token of it",
                false => "look at its log",
            },
        ),
    }
}

/// True if a server has refused the token, or asks for one.
fn is_unauthorized(error: &anyhow::Error) -> bool {
    use mcp_client::Error::{Http, Unauthorized};
    let error = error.downcast_ref();
    matches!(error, Some(Unauthorized { .. } | Http { status: 401, .. }))
}

/// True if a server has answered with an error.
fn is_refused(error: &anyhow::Error) -> bool {
    use mcp_client::Error::{Http, Rpc};
    match error.downcast_ref() {
        Some(error) => matches!(error, Rpc(_) | Http { error: Some(_), .. }),
        // The tool has failed, unless nothing came in time.
        None => !error.is::<tokio::time::error::Elapsed>(),
    }
}

fn client(url: &str, token: Option<&str>) -> anyhow::Result<Client> {
    let mut endpoint = Endpoint::new(url)?;
    if let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) {
        endpoint = endpoint.bearer(token)?;
    }
    Ok(Client::http(endpoint)?)
}

/// Connects a client, asks a question, and closes it.
async fn ask<T>(
    client: &Client,
    question: impl Future<Output = Result<T, mcp_client::Error>>,
) -> anyhow::Result<T> {
    let own = ClientInfo::new("doctor", env!("CARGO_PKG_VERSION"));
    let asked = async {
        client.connect(&own).await?;
        question.await
    };
    let answer = tokio::time::timeout(QUESTION_TIMEOUT, asked).await;
    client.close().await;
    let late = || format!("no answer within {} s", QUESTION_TIMEOUT.as_secs());
    Ok(answer.with_context(late)??)
}

/// Connects, and lists the tools as JSON.
async fn tools_of(client: &Client) -> anyhow::Result<Vec<String>> {
    let tools = ask(client, client.list("tools/list", "tools")).await?;
    Ok(tools.iter().map(|tool| tool.get().to_owned()).collect())
}

/// The options that are set, each with its value, unless that is a secret, and its source.
fn values(command: &clap::Command, matches: &ArgMatches, places: &HashMap<Id, String>) -> String {
    let mut text = String::new();
    let settings = config::settings(command);
    for SetOption { key, value, source } in config::set_options(&settings, matches, places) {
        let _ = writeln!(text, "{key} = {value} ({source})");
    }
    text
}

/// Finds the variables with values that cannot be used, and leaves them out: clap does not name them.
fn without_faulty_variables(
    command: clap::Command,
    args: &[OsString],
    problems: &mut Vec<Problem>,
) -> clap::Command {
    let lenient = command.clone().ignore_errors(true);
    let given = lenient.try_get_matches_from(args).ok();
    command.mut_args(|arg| {
        let Some(variable) = arg.get_env().map(ToOwned::to_owned) else {
            return arg;
        };
        let id = arg.get_id().as_str();
        let source = given.as_ref().and_then(|given| given.value_source(id));
        let value = std::env::var_os(&variable);
        let Some(value) = value.filter(|_| source != Some(ValueSource::CommandLine)) else {
            return arg;
        };
        let key = String::new();
        let fault = match value.to_str() {
            Some(text) => Setting { key, arg: &arg }.fault(&[text.to_owned()]),
            None => Some("is no UTF-8 text".to_owned()),
        };
        let Some(text) = fault else {
            return arg;
        };
        problems.push(Problem {
            place: variable.to_string_lossy().into_owned(),
            ..Problem::new(text)
        });
        arg.env(Resettable::<OsStr>::Reset)
    })
}

/// Checks usable options with the files that they name, and the tools that they leave. Returns these as JSON.
fn examine_configuration<S: Service, O: Args + 'static>(
    report: &mut Report,
    product: &Product<S, O>,
    command: &Command<O>,
) -> Vec<String> {
    let options = &command.common;
    let mut fail = |error: anyhow::Error| report.fail("config", format!("{error:#}"), "");
    let _ = log::filter(&options.log).map_err(&mut fail);
    let _ = product.check_key(command).map_err(&mut fail);
    let tools = ChosenTools::new(product.all_tools(&command.product), options);
    let tools = tools.map(|tools| {
        let tools = tools.toolset.definitions().into_iter();
        tools
            .map(|tool| tool.render(Detail::Full).to_string())
            .collect()
    });
    let tools = tools.map_err(&mut fail).unwrap_or_default();
    if let Some(own) = &product.configuration {
        let found = (own.problems)(&command.product).into_iter();
        for problem in found.chain((own.unused)(&command.product)) {
            report.fail("config", problem.to_string(), "");
        }
    }
    if !options.stdio {
        examine_access(report, options);
    }
    tools
}

/// Checks the tokens and certificates of clients.
fn examine_access(report: &mut Report, options: &Options) {
    match options.tokens() {
        Err(error) => report.fail(
            "token",
            format!("{error:#}"),
            "set MCP_TOKEN or MCP_TOKEN_FILE",
        ),
        Ok(found) if found.oauth.is_some() => {
            report.ok("token", "clients need a token of an issuer".to_owned());
        }
        Ok(found) if !found.tokens.is_empty() => {
            report.ok("token", "clients need a token".to_owned());
        }
        Ok(_) if options.bind.is_loopback() => {
            report.ok("token", "none: only this machine can connect".to_owned());
        }
        Ok(_) => report.warn(
            "token",
            "none, and other machines can connect".to_owned(),
            "set MCP_TOKEN or MCP_TOKEN_FILE",
        ),
    }
    if let Err(error) = options.tls() {
        report.fail(
            "tls",
            format!("{error:#}"),
            "correct --tls-cert and --tls-key",
        );
    }
}

/// Checks the files with secrets that the environment names.
fn examine_files(report: &mut Report, server: &clap::Command) {
    for arg in server.get_arguments() {
        let Some(name) = arg.get_env().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_secret = ["TOKEN", "KEY", "CREDENTIAL"]
            .iter()
            .any(|word| name.contains(word));
        if !is_secret || !name.ends_with("_FILE") {
            continue;
        }
        let path = std::env::var_os(name).unwrap_or_default();
        if path.to_str().is_some_and(|path| path.trim().is_empty()) {
            continue;
        }
        let path = Path::new(&path);
        match std::fs::File::open(path).and_then(|file| file.metadata()) {
            Err(error) => {
                let text = format!("{name}: {}: {error}", path.display());
                report.fail("file", text, "write the secret to it, with mode 600");
            }
            Ok(facts) if is_shared(&facts) => {
                let text = format!("{name}: other users can read {}", path.display());
                report.warn("file", text, "chmod 600");
            }
            Ok(_) => {
                let text = match cfg!(unix) {
                    true => format!("{name}: only this user can read {}", path.display()),
                    false => format!("{name}: {} can be read", path.display()),
                };
                report.ok("file", text);
            }
        }
    }
}

#[cfg(unix)]
fn is_shared(facts: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    facts.permissions().mode() & 0o044 != 0
}

/// On Windows a file has the rights of its folder, which are not looked at.
#[cfg(not(unix))]
fn is_shared(_: &std::fs::Metadata) -> bool {
    false
}

/// Timeout of the question who has the port.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The address at which a server with this one can be asked.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
        }
        _ => address,
    }
}

async fn examine_port(report: &mut Report, address: SocketAddr, name: &str, has_tls: bool) -> bool {
    match TcpListener::bind(address) {
        Ok(_) => {
            let text = format!("{} is free: {name} does not run", address.port());
            report.ok("port", text);
            return false;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
        Err(error) => {
            let text = format!("{address} cannot be used: {error}");
            report.fail("port", text, "choose another --bind or --port");
            return false;
        }
    }
    let help = help(reachable(address)).await;
    let text = |member: &str| help.as_ref().and_then(|help| help[member].as_str());
    let port = address.port();
    match text("name") {
        Some(found) if found == name => {
            let version = text("version").unwrap_or("of an unknown version");
            report.ok("port", format!("{found} {version} runs on {port}"));
            return true;
        }
        None if has_tls => {
            let text = format!("{port} is in use, and is not asked over TLS");
            report.ok("port", text);
        }
        found => {
            let user = found.unwrap_or("a program that is no server of this kind");
            let text = format!("{port} is in use by {user}");
            report.fail("port", text, "stop that program, or choose another --port");
        }
    }
    false
}

/// The description of the server at an address.
async fn help(address: SocketAddr) -> Option<Value> {
    document(address, "mcp").await
}

/// True if the server at an address says that it has its service.
async fn is_online(address: SocketAddr) -> bool {
    let state = document(address, "readyz").await;
    state.is_some_and(|state| state["status"] == "online")
}

async fn document(address: SocketAddr, path: &str) -> Option<Value> {
    let endpoint = Endpoint::new(&format!("http://{address}/{path}")).ok()?;
    // The address need not be one of the hosts that the server admits.
    let endpoint = endpoint.proxy(Proxy::Direct).header("host", "localhost");
    let asked = tokio::time::timeout(REPLY_TIMEOUT, endpoint.ok()?.get());
    let (_, body) = asked.await.ok()?.ok()?;
    serde_json::from_slice(&body).ok()
}

/// More tokens than this are a warning.
const MAX_TOKENS: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

#[derive(PartialEq, Serialize)]
struct Finding {
    status: Status,
    check: &'static str,
    text: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    advice: String,
}

/// All findings. No secret is in them: values of options are not.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    /// True if the configuration cannot be used.
    is_refused: bool,
}

impl Report {
    fn add(&mut self, status: Status, check: &'static str, text: String, advice: &str) {
        let finding = Finding {
            status,
            check,
            text,
            advice: advice.to_owned(),
        };
        // A file may be read for its options and for its backends.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn ok(&mut self, check: &'static str, text: String) {
        self.add(Status::Ok, check, text, "");
    }

    fn warn(&mut self, check: &'static str, text: String, advice: &str) {
        self.add(Status::Warn, check, text, advice);
    }

    fn fail(&mut self, check: &'static str, text: String, advice: &str) {
        self.add(Status::Fail, check, text, advice);
    }

    /// Adds the cost of a list of tools, for each backend of a gateway.
    fn context(&mut self, whose: &str, tools: &[String]) {
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        let mut tokens = 0;
        for tool in tools {
            let cost = tool::tokens(tool);
            let name = member(tool, "name").and_then(string).unwrap_or_default();
            if let Some((backend, _)) = name.split_once("__") {
                *parts.entry(backend.to_owned()).or_default() += cost;
            }
            tokens += cost;
        }
        let mut text = format!("about {tokens} tokens for {} tools of {whose}", tools.len());
        if !parts.is_empty() {
            let parts: Vec<_> = parts
                .iter()
                .map(|(key, tokens)| format!("{key} {tokens}"))
                .collect();
            text.push_str(&format!(" ({})", parts.join(", ")));
        }
        match tokens > MAX_TOKENS {
            true => self.warn(
                "context",
                text,
                "offer fewer: --toolsets, --read-only, or `search_above` and `allow` of the gateway",
            ),
            false => self.ok("context", text),
        }
    }

    fn print(&self, json: bool) -> ExitCode {
        let mut text = String::new();
        if json {
            text = serde_json::to_string_pretty(&self.findings).unwrap_or_default() + "\n";
        } else {
            for finding in &self.findings {
                let status = match finding.status {
                    Status::Ok => "ok",
                    Status::Warn => "warn",
                    Status::Fail => "fail",
                };
                let (check, found, advice) = (finding.check, &finding.text, &finding.advice);
                text.push_str(&format!("{status:<5}{check:<9}{found}\n"));
                if !advice.is_empty() {
                    text.push_str(&format!("{:14}{advice}\n", ""));
                }
            }
        }
        print(text.as_bytes());
        match self.is_refused {
            true => ExitCode::from(config::UNUSABLE),
            false => ExitCode::from(u8::from(self.has_failed())),
        }
    }

    /// Ends the findings about the configuration: it cannot be used if any of them is a failure.
    fn end_configuration(&mut self) {
        self.is_refused = self.has_failed();
        if !self.is_refused {
            self.ok("config", "it can be used".to_owned());
        }
    }

    fn has_failed(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.status == Status::Fail)
    }
}
