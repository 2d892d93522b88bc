//! `SERVER doctor`: looks for what keeps a server from working, and says what to do.

mod configuration;
mod entries;
mod files;
mod port;
mod report;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser};
use mcp_client::{Client, ClientInfo, Endpoint};
use serde_json::{Value, json};

use self::port::Listening;
use self::report::Report;
use super::connect::short;
use super::print;
use crate::config::{self, Applied};
use crate::key::Key;
use crate::{Command, Product, Running, Service};

/// Timeout of each question to a running server and to a host's entry.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the question to the service, which may have to be started.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the configuration, the service, the port, the tokens and the hosts, and says what to do.
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
    let command = configuration::without_faulty_variables(command, args, &mut problems);
    for problem in problems {
        report.fail("config", problem.to_string(), "");
    }
    let parsed = config::without_values(command.clone()).try_get_matches_from(args);
    let doctor = parsed.and_then(|matches| {
        let doctor = Doctor::<O>::from_arg_matches(&matches)?;
        if doctor.values {
            print(configuration::values(&command, &matches, &places).as_bytes());
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
    mut product: Product<S, O>,
    is_offline: bool,
) {
    let (name, options) = (product.identity.name.clone(), command.common.clone());
    let server = product.options_command();
    let address = SocketAddr::from((options.bind, options.port.unwrap_or(product.port)));
    files::examine(report, &server);
    let tools = configuration::examine(report, &mut product, &command);
    let running = make(report, product, command, is_offline);
    report.end_configuration();
    if is_offline {
        return;
    }
    let listening = port::examine(report, address, &name, options.tls_cert.is_some()).await;
    let url = format!("http://{}/mcp", port::reachable(address));
    match (&listening, running) {
        // The service of a gateway is its backends, of which a running one tells.
        (Listening::Own, _) if S::RELAYS => {
            examine_backends(report, &url, options.token.as_deref()).await;
        }
        (_, Some(running)) => examine_service(report, running).await,
        (_, None) => {}
    }
    match &listening {
        Listening::Own => {
            running_tools(report, &url, options.token.as_deref()).await;
        }
        _ if S::RELAYS => report.warn(
            "context",
            "the tools of the backends are known to a running gateway only".to_owned(),
            "start it, and run this command again",
        ),
        _ => report.context("the default list", &tools),
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
    let check = product.check.take();
    if report.has_failed() || is_offline && check.is_some() {
        return None;
    }
    if let Some(check) = check {
        product.connect = check.connect;
    }
    let running = Key::random().and_then(|key| product.assemble(command, &key));
    let failed = |error| report.fail("config", format!("{error:#}"), "");
    running.map_err(failed).ok()
}

/// Asks the service of a server.
async fn examine_service<S: Service>(report: &mut Report, running: Running<S>) {
    let asked = Arc::clone(running.service()).check(Arc::clone(&running.server));
    let asked = tokio::time::timeout(SERVICE_TIMEOUT, asked).await;
    running.stop().await;
    match asked {
        Ok(Ok(answer)) => report.ok("service", answer),
        Ok(Err(problems)) => {
            for problem in problems {
                report.fail("service", problem, "");
            }
        }
        Err(_) => {
            let text = format!("no answer within {} s", SERVICE_TIMEOUT.as_secs());
            report.fail("service", text, "check its address");
        }
    }
}

/// Asks a running gateway for its backends.
async fn examine_backends(report: &mut Report, url: &str, token: Option<&str>) {
    let asked = async {
        let client = client(url, token)?;
        let told = async {
            client.connect(&own_info()).await?;
            client.call_tool("gateway_status", &json!({})).await
        };
        let told = tokio::time::timeout(QUESTION_TIMEOUT, told).await;
        client.close().await;
        let told = told??;
        anyhow::ensure!(!told.is_error, "{}", told.text());
        anyhow::Ok(serde_json::from_str::<Value>(&told.text())?)
    };
    let status = match asked.await {
        Ok(status) => status,
        Err(error) => {
            let text = format!("the backends are not known: {error:#}");
            return report.warn("service", text, "set MCP_TOKEN to a token of the gateway");
        }
    };
    for (name, backend) in status["backends"].as_object().into_iter().flatten() {
        let state = backend["status"].as_str().unwrap_or("unknown");
        let error = backend["last_error"].as_str().unwrap_or_default();
        // Without requests it stops; the next call starts it.
        let is_idle = state == "stopped" && backend["protocol"].is_string();
        match state {
            "running" | "disabled" => report.ok("service", format!("backend {name}: {state}")),
            _ if is_idle => report.ok("service", format!("backend {name}: {state}")),
            _ => report.fail("service", format!("backend {name}: {state}: {error}"), ""),
        }
    }
}

/// Lists the tools of the running server: what each conversation pays.
async fn running_tools(report: &mut Report, url: &str, token: Option<&str>) {
    match list(url, token).await {
        Ok(tools) => report.context("the running server", &tools),
        Err(error) => report.warn(
            "context",
            format!("the tools of the running server are not listed: {error:#}"),
            "set MCP_TOKEN to a token of it",
        ),
    }
}

async fn list(url: &str, token: Option<&str>) -> anyhow::Result<Vec<String>> {
    tools_of(&client(url, token)?).await
}

fn client(url: &str, token: Option<&str>) -> anyhow::Result<Client> {
    let mut endpoint = Endpoint::new(url)?;
    if let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) {
        endpoint = endpoint.bearer(token)?;
    }
    Ok(Client::http(endpoint)?)
}

fn own_info() -> ClientInfo {
    ClientInfo::new("doctor", env!("CARGO_PKG_VERSION"))
}

/// Connects, and lists the tools as JSON.
async fn tools_of(client: &Client) -> anyhow::Result<Vec<String>> {
    let asked = async {
        client.connect(&own_info()).await?;
        client.list("tools/list", "tools").await
    };
    let tools = tokio::time::timeout(QUESTION_TIMEOUT, asked).await;
    client.close().await;
    let tools =
        tools.with_context(|| format!("no answer within {} s", QUESTION_TIMEOUT.as_secs()))?;
    Ok(tools?.iter().map(|tool| tool.get().to_owned()).collect())
}
