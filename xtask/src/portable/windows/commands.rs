//! Checks of the commands, most of them beside a gateway that runs.

use std::thread;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;

use super::super::wine::{Command, Output, Started, Wine};
use super::files::{backend, path};
use super::{call_tool, client, stdio_session, wait_for_tool};
use crate::http::Client;

const TOOL: &str = "docker__list_containers";

/// Exit code of an unusable configuration.
const CONFIG_ERROR: i32 = 78;

/// Starts a gateway with its events in a file, one backend, and these lines.
fn start(wine: &Wine<'_>, more: &str) -> anyhow::Result<(Started, Client)> {
    let events = "[events]\nstore = 'state of the gateway\\events.db'\n";
    wine.write(
        "gateway.toml",
        &format!("{events}{}{more}", backend("docker")),
    )?;
    let (server, port) = wine.serve("mcp-gateway", &["--config", &path("gateway.toml")], &[])?;
    let client = client(port, None);
    wait_for_tool(wine, &client, TOOL)?;
    Ok((server, client))
}

/// Runs a command with the same file.
fn run(wine: &Wine<'_>, words: &[&str]) -> anyhow::Result<Output> {
    let file = path("gateway.toml");
    let args = [words, &["--config", &file]].concat();
    wine.run(Command {
        program: "mcp-gateway",
        args: &args,
        ..Command::default()
    })
}

/// The engine cannot be reached, so the call fails; it is an event all the same.
pub(super) fn events_and_pins(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (_server, client) = start(wine, "")?;
    call_tool(&client, TOOL)?;
    let mut events = Ok(String::new());
    let is_shown = wine.wait_until(|| {
        let words = ["events", "--json", "--type", "gateway.tool_call"];
        events = run(wine, &words).and_then(Output::success);
        events.as_ref().is_ok_and(|events| events.contains(TOOL))
    });
    ensure!(is_shown, "events: {events:?}");
    let pins = run(wine, &["pins", "list", TOOL])?.success()?;
    ensure!(
        pins.starts_with("approved") && pins.contains(TOOL),
        "pins: {pins:?}"
    );
    let diff = run(wine, &["pins", "diff", "docker"])?.success()?;
    ensure!(diff.is_empty(), "changes: {diff:?}");
    Ok(())
}

pub(super) fn approvals(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (_server, client) = start(
        wine,
        &format!("[approvals]\napprove = [\"{TOOL}\"]\ntimeout = \"1m\"\n"),
    )?;
    let call = thread::spawn(move || call_tool(&client, TOOL));
    let mut listed = String::new();
    let is_waiting = wine.wait_until(|| {
        listed =
            run(wine, &["approvals", "list"]).map_or_else(|_| String::new(), |list| list.stdout);
        listed.contains(TOOL) || call.is_finished()
    });
    ensure!(
        is_waiting && !call.is_finished(),
        "the call does not wait: {listed:?}"
    );
    let id = listed.split_whitespace().nth(1).context("no id")?;
    let shown = run(wine, &["approvals", "show", id])?.success()?;
    ensure!(shown.contains("hash "), "shown: {shown:?}");
    let approved = run(wine, &["approvals", "approve", id])?.success()?;
    ensure!(approved.contains("approved"), "approved: {approved:?}");
    let result = call
        .join()
        .map_err(|_| anyhow!("the call has panicked"))??;
    let text = result.to_string();
    ensure!(
        text.contains("127.0.0.1:1"),
        "the call was not made: {text}"
    );
    let again = run(wine, &["approvals", "refuse", id])?;
    ensure!(
        again.code == 1,
        "refused afterwards with exit code {}",
        again.code
    );
    Ok(())
}

pub(super) fn explain(wine: &Wine<'_>) -> anyhow::Result<()> {
    let roles = "[roles.reader]\nallow = [\"docker__list_*\"]\n[principals]\nalice = \"reader\"\n";
    wine.write("gateway.toml", &(backend("docker") + roles))?;
    for (tool, code, text) in [
        (TOOL, 0, "allowed by line 6"),
        ("docker__prune", 1, "role reader"),
    ] {
        let output = run(wine, &["explain", "--as", "alice", tool])?;
        let is_right = output.code == code && output.stdout.contains(text);
        ensure!(is_right, "{tool}: {output:?}");
    }
    wine.write("gateway.toml", "[backends.x]\nurl = 5\n")?;
    let code = run(wine, &["explain", TOOL])?.code;
    ensure!(code == CONFIG_ERROR, "exit code {code} for a wrong file");
    Ok(())
}

/// The errors before a browser is needed.
pub(super) fn login(wine: &Wine<'_>) -> anyhow::Result<()> {
    let login = "[backends.far]\nurl = \"http://127.0.0.1:1/mcp\"\noauth = { grant = \"login\" }\n";
    wine.write("gateway.toml", &(backend("docker") + login))?;
    for (name, code, text) in [
        ("docker", CONFIG_ERROR, "has no `url`"),
        ("nobody", CONFIG_ERROR, "there is no backend"),
        ("far", 1, "127.0.0.1:1"),
    ] {
        let output = run(wine, &["login", "--no-browser", "--wait", "5", name])?;
        let is_right = output.code == code && output.log.contains(text);
        ensure!(is_right, "{name}: {output:?}");
    }
    Ok(())
}

/// The file of a host has another server, and line ends of Windows; they stay.
pub(super) fn connect(wine: &Wine<'_>) -> anyhow::Result<()> {
    let before = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"other\" }\n  }\n}\n";
    wine.write("claude.json", before)?;
    let file = path("claude.json");
    let connect = |more: &[&str]| {
        let args = [&["connect", "claude-desktop", "--file", &file], more].concat();
        let command = Command {
            program: "docker-mcp-server",
            args: &args,
            ..Command::default()
        };
        wine.run(command)?.success()
    };
    connect(&[])?;
    let text = wine.read("claude.json")?;
    let written: Value = serde_json::from_str(&text)?;
    let command = &written["mcpServers"]["docker"]["command"];
    let is_found = command
        .as_str()
        .is_some_and(|command| command.ends_with(r"\docker-mcp-server.exe"));
    ensure!(is_found && text.contains("\"other\" }"), "written: {text}");
    connect(&["--undo"])?;
    let text = wine.read("claude.json")?;
    ensure!(text == before.replace('\n', "\r\n"), "afterwards: {text:?}");
    Ok(())
}

/// A host that starts programs only reaches a server that runs.
pub(super) fn bridge(wine: &Wine<'_>) -> anyhow::Result<()> {
    let (_server, port) = wine.serve("docker-mcp-server", &[], &[])?;
    let input = stdio_session();
    let output = wine.run(Command {
        program: "mcp-gateway",
        args: &["bridge", &format!("http://127.0.0.1:{port}/mcp")],
        stdin: Some(&input),
        ..Command::default()
    })?;
    let output = output.success()?;
    ensure!(output.contains("list_containers"), "answered: {output:?}");
    Ok(())
}

/// A usable file is not started, and of an unusable one the line is named.
pub(super) fn check(wine: &Wine<'_>) -> anyhow::Result<()> {
    wine.write("gateway.toml", &backend("docker"))?;
    run(wine, &["check"])?.success()?;
    wine.write("gateway.toml", "[backends.x]\nurl = 5\n")?;
    let output = run(wine, &["check", "--port", "0x"])?;
    let told = format!("{}{}", output.stdout, output.log);
    let is_told = ["gateway.toml:2:", "--port"]
        .iter()
        .all(|part| told.contains(part));
    ensure!(output.code == CONFIG_ERROR && is_told, "told: {output:?}");
    Ok(())
}

/// The engine cannot be reached, which is what is wrong.
pub(super) fn doctor(wine: &Wine<'_>) -> anyhow::Result<()> {
    let output = wine.run(Command {
        program: "docker-mcp-server",
        args: &["doctor", "--json", "--docker-host", "tcp://127.0.0.1:1"],
        ..Command::default()
    })?;
    let findings: Value = serde_json::from_str(&output.stdout).context("no JSON")?;
    let mut findings = findings.as_array().context("no list")?.iter();
    let is_named = findings.any(|finding| {
        let text = finding["text"].as_str().unwrap_or_default();
        finding["status"] == "fail" && text.contains("127.0.0.1:1. Start the engine")
    });
    ensure!(output.code == 1 && is_named, "found: {output:?}");
    Ok(())
}
