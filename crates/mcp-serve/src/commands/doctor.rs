//! `SERVER doctor`: looks for what keeps a server from working, and says what to do.

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
use mcp_core::tool::Detail;
use serde_json::{Value, json};

use self::port::Listening;
use self::report::Report;
use super::connect::short;
use crate::key::Key;
use crate::{Command, Product, Service, config};

/// Timeout of each question to the service, to a server and to a host's entry.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the service, the port, the tokens and the hosts, and says what to do. Changes nothing.
///
/// Takes the options of the server. Starts this program as the files of the user's hosts do. Exit code: 0 if it
/// works, 1 if something fails.
#[derive(Parser)]
struct Doctor<O: Args> {
    /// Print JSON: a list of findings with `status`, `check`, `text` and `advice`.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    command: Command<O>,
}

/// The command line, with the option that names the configuration file.
pub(super) fn command<O: Args>() -> clap::Command {
    config::with_option(Doctor::<O>::command())
}

/// Runs the command with its arguments, of which the first is its name.
pub(super) fn run<S: Service, O: Args + 'static>(
    product: Product<S, O>,
    command: clap::Command,
    args: &[OsString],
) -> ExitCode {
    let applied = config::apply(command, args);
    let matches = config::without_values(applied.command).get_matches_from(args);
    let doctor = match Doctor::<O>::from_arg_matches(&matches) {
        Ok(doctor) => doctor,
        Err(error) => error.exit(),
    };
    let json = doctor.json;
    let mut report = Report::default();
    for problem in &applied.problems {
        report.fail("options", problem.to_string(), "correct the file");
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            report.fail("process", format!("no thread can be started: {error}"), "");
            return report.print(json);
        }
    };
    runtime.block_on(examine(&mut report, doctor.command, product));
    runtime.shutdown_background();
    report.print(json)
}

async fn examine<S: Service, O: Args + 'static>(
    report: &mut Report,
    command: Command<O>,
    mut product: Product<S, O>,
) {
    let (name, options) = (product.identity.name.clone(), command.common.clone());
    let server = product.options_command();
    files::examine(report, &server);
    examine_access(report, &options);
    if let Some(check) = &product.check {
        let problems = (check.problems)(&command.product);
        for problem in &problems {
            report.fail("config", problem.to_string(), "correct the file");
        }
        if problems.is_empty() {
            report.ok("config", "it can be used".to_owned());
        }
    }
    let tools = product.product_tools(&command.product).choose(&options);
    let own_tools = tools.as_ref().map(|tools| {
        let tools = tools.definitions().into_iter();
        tools
            .map(|tool| tool.render(Detail::Full).to_string())
            .collect::<Vec<_>>()
    });
    if let Err(error) = &own_tools {
        report.fail(
            "tools",
            format!("{error:#}"),
            "correct --toolsets or MCP_TOOLSETS",
        );
    }
    let address = SocketAddr::from((options.bind, options.port.unwrap_or(product.port)));
    let listening = port::examine(report, address, &name, options.tls_cert.is_some()).await;
    let url = format!("http://{}/mcp", port::reachable(address));
    match (&listening, S::RELAYS) {
        // The service of a gateway is its backends, of which a running one tells.
        (Listening::Own, true) => {
            examine_backends(report, &url, options.token.as_deref()).await;
        }
        (_, true) => {}
        (_, false) => {
            // The tools went into the list above.
            examine_service(report, product, command).await;
        }
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
        _ => report.context("the default list", &own_tools.unwrap_or_default()),
    }
    entries::examine(report, &name, &short(&name), address.port(), &server).await;
}

/// Checks the tokens and certificates of clients.
fn examine_access(report: &mut Report, options: &crate::Options) {
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

/// Asks the service of a server.
async fn examine_service<S: Service, O: Args + 'static>(
    report: &mut Report,
    product: Product<S, O>,
    command: Command<O>,
) {
    let running = Key::random().and_then(|key| product.assemble(command, &key));
    let running = match running {
        Ok(running) => running,
        Err(error) => {
            return report.fail("service", format!("{error:#}"), "correct the options");
        }
    };
    let asked = Arc::clone(running.service()).check(Arc::clone(&running.server));
    match tokio::time::timeout(QUESTION_TIMEOUT, asked).await {
        Ok(Ok(answer)) => report.ok("service", answer),
        Ok(Err(problems)) => {
            for problem in problems {
                report.fail("service", problem, "");
            }
        }
        Err(_) => {
            let text = format!("no answer within {} s", QUESTION_TIMEOUT.as_secs());
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
