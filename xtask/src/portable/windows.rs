//! Uses the Windows programs, under wine.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use ureq::http::Method;

use super::chroot::Chroot;
use super::{Report, WHO};
use crate::console::Heartbeat;
use crate::http::Client;
use crate::layout::create_dir;
use crate::test_server::{self, NO_SERVICES, RunningServer};

/// msvc cannot be had on Linux.
pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// The programs, and a tool of each.
pub(super) const PROGRAMS: [(&str, &str); 4] = [
    ("docker-mcp-server", "list_containers"),
    ("n8n-mcp-server", "list_workflows"),
    ("openhands-mcp-server", "run_task"),
    ("mcp-gateway", "gateway_status"),
];

/// The folder for files of the checks, in the Debian and as Windows programs call it.
const FOLDER: &str = "/opt/check";
const WINDOWS_FOLDER: &str = r"Z:\opt\check";

/// A backend: it serves over stdio, and leaves a process behind that does not end with its stdin.
const FAMILY: &str =
    "@start /b docker-mcp-server.exe --port PORT\r\n@docker-mcp-server.exe --stdio\r\n";
/// The program of the backend, which is `family.cmd`.
const GATEWAY_CONFIG: &str = "[backends.docker]\r\ncommand = [\"family\"]\r\n\
                              env = { DOCKER_HOST = \"tcp://127.0.0.1:1\" }\r\n";

/// Timeout of a program that starts, answers and ends; the first time also of wine's own set-up.
const RUN_TIMEOUT_SECONDS: u32 = 60;
/// Timeout of the backend's start, and of its end.
const FAMILY_TIMEOUT: Duration = Duration::from_secs(60);

/// Checks all programs.
pub(super) fn check(chroot: &Chroot<'_>, report: &mut Report) {
    let wine = "wineboot --init && /usr/lib/*/wine/wineserver --wait";
    if !report.check("wine starts", || run(chroot, wine).map(drop)) {
        return;
    }
    for (program, tool) in PROGRAMS {
        report.check(&format!("{program}.exe --help"), || {
            let help = run(chroot, &wine_command(program, "--help"))?;
            let is_complete = help.contains("Usage:") && help.contains("On Windows");
            ensure!(is_complete, "something is missing in {help:?}");
            Ok(())
        });
        report.check(&format!("{program}.exe --print-tools"), || {
            let tools = run(chroot, &wine_command(program, "--print-tools"))?;
            has_tool(&serde_json::from_str(&tools)?, tool)
        });
        report.check(&format!("{program}.exe over HTTP"), || {
            let script = wine_command(program, "--port 0 --log info");
            let server = start(chroot, &script, program)?;
            has_tool(&list_tools(server.port)?, tool)
        });
        report.check(&format!("{program}.exe over stdio, until EOF"), || {
            stdio_session(chroot, program, tool)
        });
    }
    let name = "processes of a backend die with a killed gateway";
    report.check(name, || killed_gateway(chroot));
}

/// Returns the command line of a program that finds no services, and no servers of this machine.
fn wine_command(program: &str, args: &str) -> String {
    let no_servers = [("MCP_GATEWAY_BACKENDS", "none=http://127.0.0.1:1/mcp")];
    let services = NO_SERVICES.iter().chain(&no_servers);
    let services = services.map(|(name, value)| format!("{name}={value} "));
    let services: String = services.collect();
    format!("env {services}wine target/{TARGET}/debug/{program}.exe {args}")
}

/// Runs a script to its end and returns what it has written to stdout.
fn run(chroot: &Chroot<'_>, script: &str) -> anyhow::Result<String> {
    create_dir(&chroot.file(FOLDER))?;
    let (out, log) = (
        chroot.file(FOLDER).join("out"),
        chroot.layout.fresh_log("portable-wine")?,
    );
    let script = format!("timeout {RUN_TIMEOUT_SECONDS} sh -ec '{script}' > {FOLDER}/out");
    let program = chroot.program(&script)?.log_to(&log)?;
    if !program.succeeds(&chroot.layout.shutdown, None)? {
        bail!("failed: {}", crate::process::last_line(&log));
    }
    Ok(fs::read_to_string(out)?)
}

/// Starts a server and waits until it listens.
fn start(chroot: &Chroot<'_>, script: &str, name: &str) -> anyhow::Result<RunningServer> {
    let log = chroot.layout.fresh_log(&format!("portable-{name}"))?;
    let program = chroot.program(script)?;
    test_server::listen(chroot.layout, program, &log, test_server::listens_on)
}

fn list_tools(port: u16) -> anyhow::Result<Value> {
    let client = Client::new(&format!("http://127.0.0.1:{port}"), Duration::from_secs(10));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = client.send(Method::POST, "/mcp", &request)?;
    Ok(answer["result"]["tools"].clone())
}

fn has_tool(tools: &Value, name: &str) -> anyhow::Result<()> {
    let mut tools = tools.as_array().context("no tools")?.iter();
    let found = tools.any(|tool| tool["name"] == name);
    ensure!(found, "no tool {name}");
    Ok(())
}

/// Sends four messages and closes stdin; all must be answered, and the program must exit with 0.
fn stdio_session(chroot: &Chroot<'_>, program: &str, tool: &str) -> anyhow::Result<()> {
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
    create_dir(&chroot.file(FOLDER))?;
    // As a file of Windows has them.
    let input = messages.map(|message| format!("{message}\r\n")).concat();
    fs::write(chroot.file(FOLDER).join("in"), input)?;
    let script = format!("cat {FOLDER}/in | {}", wine_command(program, "--stdio"));
    let output = run(chroot, &script)?;
    let answers: Vec<Value> = output
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id);
    let result = |id| answer(id).and_then(|answer| answer.get("result"));
    let initialized = result(1).context("initialize was not answered")?;
    ensure!(
        initialized["serverInfo"]["name"] == program,
        "another server: {initialized}"
    );
    has_tool(
        &result(2).context("tools/list was not answered")?["tools"],
        tool,
    )?;
    result(3).context("ping was not answered").map(drop)
}

/// Starts the gateway with a backend of several processes, kills the gateway, and expects that they end.
fn killed_gateway(chroot: &Chroot<'_>) -> anyhow::Result<()> {
    let shutdown = &chroot.layout.shutdown;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    create_dir(&chroot.file(FOLDER))?;
    let file = |name| chroot.file(FOLDER).join(name);
    fs::write(
        file("family.cmd"),
        FAMILY.replace("PORT", &port.to_string()),
    )?;
    fs::write(file("gateway.toml"), GATEWAY_CONFIG)?;
    let gateway = wine_command(
        "mcp-gateway",
        &format!("--port 0 --log info --events memory --config {FOLDER}/gateway.toml"),
    );
    // The shell goes on: all processes would end with it.
    let script = format!(
        r"export WINEPATH='{WINDOWS_FOLDER};Z:\work\target\{TARGET}\debug'; {gateway} || sleep 600"
    );
    let server = start(chroot, &script, "gateway-with-a-child")?;
    let serves = || {
        let tools = list_tools(server.port).unwrap_or_default();
        has_tool(&tools, "docker__list_containers").is_ok() && list_tools(port).is_ok()
    };
    ensure!(
        shutdown.wait_until(FAMILY_TIMEOUT, serves),
        "the gateway does not list the tools of its backend, or the backend has no second process"
    );
    let gateway = processes(chroot, "mcp-gateway.exe");
    ensure!(gateway.len() == 1, "gateways: {gateway:?}");
    let family = || processes(chroot, "docker-mcp-server.exe");
    ensure!(
        family().len() == 2,
        "processes of the backend: {:?}",
        family()
    );
    kill(gateway[0], Signal::SIGKILL)?;
    let mut heartbeat = Heartbeat::start(WHO, "the gateway was killed");
    let is_gone = shutdown.wait_until(FAMILY_TIMEOUT, || {
        heartbeat.beat();
        family().is_empty()
    });
    ensure!(is_gone, "they go on");
    ensure!(list_tools(port).is_err(), "the port still answers");
    Ok(())
}

/// Returns the processes of this Windows program. Their names are those of their main threads, so they are
/// found by the first word of their command lines.
fn processes(chroot: &Chroot<'_>, program: &str) -> Vec<Pid> {
    let is_ours = |pid: &i32| {
        let process = format!("/proc/{pid}");
        let root = fs::read_link(format!("{process}/root"));
        let command = fs::read(format!("{process}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        let found = command.split_inclusive(".exe").next();
        root.is_ok_and(|root| root == chroot.root)
            && found.is_some_and(|found| found.ends_with(program))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_ours).map(Pid::from_raw).collect()
}
