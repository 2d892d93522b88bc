//! Uses the Windows programs, under wine.

mod children;
mod commands;
mod files;
mod page;
mod pipe;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use ureq::http::Method;

use super::Report;
use super::chroot::Chroot;
use super::wine::{Command, Wine};
use crate::http::Client;

/// The programs, and a tool of each.
const PROGRAMS: [(&str, &str); 4] = [
    ("docker-mcp-server", "list_containers"),
    ("n8n-mcp-server", "list_workflows"),
    ("openhands-mcp-server", "run_task"),
    ("mcp-gateway", "gateway_status"),
];

type Check = fn(&Wine<'_>) -> anyhow::Result<()>;

/// A check of a program with this tool.
type ProgramCheck = fn(&Wine<'_>, &str, &str) -> anyhow::Result<()>;

/// The checks of each program.
const PROGRAM_CHECKS: [(&str, ProgramCheck); 5] = [
    ("--help, with what Windows lacks", help),
    ("--print-tools", print_tools),
    ("over HTTP", over_http),
    ("over stdio, until EOF", over_stdio),
    ("until Ctrl-C", until_ctrl_c),
];

/// The checks of all programs together.
const CHECKS: [(&str, Check); 19] = [
    (
        "processes of a backend end with a gateway that is killed",
        children::killed,
    ),
    (
        "processes of a backend end with a gateway at Ctrl-C",
        children::interrupted,
    ),
    (
        "processes of a backend end with a gateway at EOF",
        children::at_eof,
    ),
    ("state and keys are in the user's folder", files::state),
    (
        "private files in other folders are warned of",
        files::shared_folder,
    ),
    ("the file of a gateway is followed", files::followed),
    (
        "mistakes of a file with CRLF are named by line",
        files::mistakes,
    ),
    ("tokens are added, listed and revoked", files::tokens),
    (
        "projects are read from allowed directories with drives",
        files::projects,
    ),
    ("mcp-gateway events, pins", commands::events_and_pins),
    ("mcp-gateway approvals", commands::approvals),
    ("mcp-gateway explain", commands::explain),
    ("mcp-gateway login", commands::login),
    ("connect writes the file of a host", commands::connect),
    ("mcp-gateway bridge", commands::bridge),
    ("check names wrong options and files", commands::check),
    ("doctor names what is wrong", commands::doctor),
    ("the page, to a browser", page::page),
    ("Docker's named pipe", pipe::docker),
];

/// Makes all checks.
pub(super) fn check(chroot: &Chroot<'_>, report: &mut Report<'_>) {
    let wine = match Wine::start(chroot) {
        Ok(wine) => wine,
        Err(error) => {
            report.check("wine starts", || Err(error));
            return;
        }
    };
    for (program, tool) in PROGRAMS {
        for (name, check) in PROGRAM_CHECKS {
            report.check(&format!("{program}.exe {name}"), || {
                wine.check(|wine| check(wine, program, tool))
            });
        }
    }
    for (name, check) in CHECKS {
        report.check(name, || wine.check(check));
    }
}

fn help(wine: &Wine<'_>, program: &str, _: &str) -> anyhow::Result<()> {
    let args = &["--help"];
    let help = wine
        .run(Command {
            program,
            args,
            ..Command::default()
        })?
        .success()?;
    let is_complete = help.contains("Usage:") && help.contains("On Windows");
    ensure!(is_complete, "something is missing in {help:?}");
    Ok(())
}

fn print_tools(wine: &Wine<'_>, program: &str, tool: &str) -> anyhow::Result<()> {
    let args = &["--print-tools"];
    let tools = wine
        .run(Command {
            program,
            args,
            ..Command::default()
        })?
        .success()?;
    has_tool(&serde_json::from_str(&tools)?, tool)
}

fn over_http(wine: &Wine<'_>, program: &str, tool: &str) -> anyhow::Result<()> {
    let (_server, port) = wine.serve(program, &[], &[])?;
    has_tool(&list_tools(&client(port, None))?, tool)
}

/// Sends four messages and closes stdin; all must be answered, and the program must exit with 0.
fn over_stdio(wine: &Wine<'_>, program: &str, tool: &str) -> anyhow::Result<()> {
    let input = stdio_session();
    let output = wine.run(Command {
        program,
        args: &["--stdio"],
        stdin: Some(&input),
        ..Command::default()
    })?;
    let output = output.success()?;
    let answers = output.lines().map(serde_json::from_str);
    let answers: Vec<Value> = answers.collect::<Result<_, _>>()?;
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id);
    let result = |id| answer(id).and_then(|answer| answer.get("result"));
    let initialized = result(1).context("initialize was not answered")?;
    let name = &initialized["serverInfo"]["name"];
    ensure!(name == program, "another server: {initialized}");
    let tools = result(2).context("tools/list was not answered")?;
    has_tool(&tools["tools"], tool)?;
    result(3).context("ping was not answered").map(drop)
}

/// The messages of a session, with the line ends of a file of Windows.
fn stdio_session() -> String {
    let initialize = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "portable", "version": "1"},
    });
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}),
    ];
    messages.map(|message| format!("{message}\r\n")).concat()
}

/// Wine makes a Ctrl-C of SIGINT.
fn until_ctrl_c(wine: &Wine<'_>, program: &str, _: &str) -> anyhow::Result<()> {
    let (mut server, _) = wine.serve(program, &[], &[])?;
    let processes = wine.processes(&format!("{program}.exe"));
    ensure!(processes.len() == 1, "processes: {processes:?}");
    kill(processes[0], Signal::SIGINT)?;
    let code = server.wait(wine)?;
    ensure!(code == 0, "exit code {code}");
    ensure!(
        server.log().contains("stopping"),
        "it was not asked to stop"
    );
    Ok(())
}

/// Creates a client of a server on this machine.
fn client(port: u16, token: Option<&str>) -> Client {
    let client = Client::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(30));
    match token {
        Some(token) => client.with("authorization", format!("Bearer {token}")),
        None => client,
    }
}

fn request(client: &Client, method: &str, params: Value) -> anyhow::Result<Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    client.send(Method::POST, "/mcp", &request)
}

fn list_tools(client: &Client) -> anyhow::Result<Value> {
    let mut answer = request(client, "tools/list", json!({}))?;
    Ok(answer["result"]["tools"].take())
}

fn call_tool(client: &Client, name: &str) -> anyhow::Result<Value> {
    let mut answer = request(client, "tools/call", json!({"name": name, "arguments": {}}))?;
    ensure!(
        answer["result"].is_object(),
        "{name} was answered by {answer}"
    );
    Ok(answer["result"].take())
}

fn has_tool(tools: &Value, name: &str) -> anyhow::Result<()> {
    let mut tools = tools.as_array().context("no tools")?.iter();
    let found = tools.any(|tool| tool["name"] == name);
    ensure!(found, "no tool {name}");
    Ok(())
}

/// Waits until a server lists this tool.
fn wait_for_tool(wine: &Wine<'_>, client: &Client, name: &str) -> anyhow::Result<()> {
    let mut listed = String::new();
    let is_listed = wine.wait_until(|| match list_tools(client) {
        Ok(tools) => {
            let tools = tools.as_array().into_iter().flatten();
            let names = tools.filter_map(|tool| tool["name"].as_str());
            listed = names.collect::<Vec<_>>().join(" ");
            listed.split(' ').any(|listed| listed == name)
        }
        Err(error) => {
            listed = error.to_string();
            false
        }
    });
    ensure!(is_listed, "{name} is not listed, but: {listed}");
    Ok(())
}
