//! `doctor`: finds what is wrong, and says no secret.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::Home;
use crate::harness::{
    Server, assert_contains, assert_lacks, assert_starts_with, free_port, wait_until,
};

const CANARY: &str = "canary-77aa";

/// The findings of a check, each as `status: text`.
fn findings(report: &str, check: &str) -> Vec<String> {
    let findings: Value = serde_json::from_str(report).unwrap();
    let findings = findings.as_array().unwrap().iter();
    let found = findings.filter(|finding| finding["check"] == check);
    let found = found.map(|finding| {
        let [status, text] = ["status", "text"].map(|part| finding[part].as_str().unwrap());
        format!("{status}: {text}")
    });
    found.collect()
}

fn report(home: &Home, program: &str, args: &[&str], env: &[(&str, &str)]) -> (bool, String) {
    let args = [&["doctor", "--json"], args].concat();
    let ended = home.run(program, &args, env);
    (ended.code == 0, ended.stdout)
}

#[test]
fn dead_service_and_missing_host_are_found() {
    let home = Home::new();
    let key = home.0.join("key");
    std::fs::write(&key, CANARY).unwrap();
    let env = [
        ("N8N_URL", "http://127.0.0.1:1"),
        ("N8N_API_KEY_FILE", key.to_str().unwrap()),
        ("N8N_MCP_TOKEN", CANARY),
    ];
    let (works, text) = report(&home, "n8n-mcp-server", &["--port", "0"], &env);
    assert!(!works, "{text}");
    assert_lacks(&text, CANARY);
    assert_contains(&findings(&text, "service").join("\n"), "fail: ");
    assert_contains(&findings(&text, "host").join("\n"), "warn: no host has");
    assert_contains(&findings(&text, "context").join("\n"), "ok: about ");
    for (mode, expected) in [
        (0o644, "warn: N8N_API_KEY_FILE"),
        (0o600, "ok: N8N_API_KEY_FILE"),
    ] {
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let (_, text) = report(&home, "n8n-mcp-server", &["--port", "0"], &env);
        assert_contains(&findings(&text, "file").join("\n"), expected);
    }
    // For people.
    let said = home.run("n8n-mcp-server", &["doctor", "--port", "0"], &env);
    assert_contains(&said.stdout, "fail service");
}

#[tokio::test]
async fn port_is_free_or_used_by_this_server_or_by_another_program() {
    let home = Home::new();
    let port = |port: &str| {
        let (_, text) = report(&home, "docker-mcp-server", &["--port", port], &[]);
        findings(&text, "port").join("\n")
    };
    let server = Server::start("docker-mcp-server", &[]).await;
    let number = |url: &str| url.split([':', '/']).nth(4).unwrap().to_owned();
    assert_contains(&port(&number(&server.url)), "ok: docker-mcp-server");
    let other = Server::start("mcp-conformance", &[]).await;
    assert_contains(&port(&number(&other.url)), "is in use by mcp-conformance");
    let free = free_port();
    let silent = TcpListener::bind(("127.0.0.1", free)).unwrap();
    let free = free.to_string();
    assert_contains(&port(&free), "fail: ");
    drop(silent);
    assert_contains(&port(&free), "ok: ");
}

#[test]
fn entries_of_hosts_are_tried() {
    let home = Home::new();
    let env = [("DOCKER_HOST", "unix:///nowhere.sock")];
    home.done("docker-mcp-server", &["connect", "codex"], &env);
    home.done("docker-mcp-server", &["connect", "vscode"], &env);
    let file = home.0.join(".config/Code/User/mcp.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("--stdio", "--no-such-option")).unwrap();
    let (works, text) = report(&home, "docker-mcp-server", &["--port", "0"], &env);
    let hosts = findings(&text, "host").join("\n");
    assert!(!works);
    assert_contains(&hosts, "ok: Codex CLI");
    assert_contains(&hosts, "fail: VS Code");
}

mod real {
    use super::*;
    use crate::harness::real::{docker, n8n, openhands};

    #[tokio::test]
    async fn everything_is_well_with_an_engine() {
        let Some(engine) = docker() else { return };
        let home = Home::new();
        let env = [("DOCKER_HOST", engine.as_str())];
        home.done("docker-mcp-server", &["connect", "claude-code"], &env);
        let (works, text) = report(&home, "docker-mcp-server", &["--port", "0"], &env);
        assert!(works, "{text}");
        assert_lacks(&text, "\"fail\"");
        assert_contains(&findings(&text, "service").join("\n"), "ok: Docker Engine ");
        // A server that has its service, beside a check that asks another engine.
        let server = Server::start("docker-mcp-server", &env).await;
        wait_until("the engine", async || {
            server.request("GET", "/readyz", &[]).await.status == 200
        })
        .await;
        let port = server.url.split([':', '/']).nth(4).unwrap();
        let other = [("DOCKER_HOST", "unix:///nowhere.sock")];
        let (_, text) = report(&home, "docker-mcp-server", &["--port", port], &other);
        let told = format!("the server on {port} is online, so this check may have other options");
        assert_contains(&text, &told);
    }

    #[tokio::test]
    async fn version_of_the_service_is_told() {
        let (Some(n8n), Some(openhands)) = (n8n(), openhands()) else {
            return;
        };
        let home = Home::new();
        for (program, env, told) in [
            (
                "n8n-mcp-server",
                [("N8N_URL", n8n.url), ("N8N_API_KEY", n8n.api_key)],
                "ok: n8n 2 answers",
            ),
            (
                "openhands-mcp-server",
                [
                    ("OPENHANDS_URL", openhands.url),
                    ("OPENHANDS_API_KEY", openhands.api_key),
                ],
                "ok: OpenHands agent server, version 1.",
            ),
        ] {
            let env = env.each_ref().map(|(name, value)| (*name, &**value));
            let (_, text) = report(&home, program, &["--port", "0"], &env);
            assert_starts_with(&findings(&text, "service").join("\n"), told);
        }
    }
}

#[tokio::test]
async fn gateway_counts_the_tokens_of_each_backend() {
    let home = Home::new();
    let backend = Server::start("mcp-conformance", &[]).await;
    let one = format!("one={}", backend.url);
    let bad = "bad=http://127.0.0.1:1/mcp";
    let args = ["--backend", &one, "--backend", bad, "--events", "memory"];
    let gateway = Server::with_args("mcp-gateway", &args, &[]).await;
    wait_until("the backends", async || {
        let status = gateway.call("gateway_status", json!({})).await.to_string();
        status.contains("running") && status.contains("failed")
    })
    .await;
    let port = gateway.url.split([':', '/']).nth(4).unwrap();
    let args = ["--backend", &one, "--events", "memory", "--port", port];
    let (_, text) = report(&home, "mcp-gateway", &args, &[]);
    assert_contains(&findings(&text, "context").join("\n"), "(one ");
    // Its own file is checked whichever gateway runs.
    assert_eq!(findings(&text, "service"), ["ok: 1 of its backends answer"]);
    let ill = [("DOCKER_HOST", "unix:///nowhere.sock")];
    let ill = Server::start("docker-mcp-server", &ill).await;
    ill.wait_for_status("degraded").await;
    let ill = format!("ill={}", ill.url);
    let (_, text) = report(
        &home,
        "mcp-gateway",
        &[&args[..], &["--backend", &ill]].concat(),
        &[],
    );
    let service = findings(&text, "service");
    assert_eq!(service[0], "ok: 1 of its backends answer");
    assert_starts_with(&service[1], "warn: backends.ill is degraded: ");
    let running = findings(&text, "running").join("\n");
    assert_contains(&running, "ok: backend one: running");
    assert_contains(&running, "fail: backend bad: ");
    let other = "other=http://127.0.0.1:1/mcp";
    let args = ["--backend", other, "--events", "memory", "--port", port];
    let (is_well, text) = report(&home, "mcp-gateway", &args, &[]);
    assert!(!is_well);
    let service = findings(&text, "service").join("\n");
    assert_contains(&service, "fail: backends.other: ");
}

#[tokio::test]
async fn role_without_gateway_status_is_told() {
    let home = Home::new();
    let file = home.0.join("gateway.toml");
    let text = "[backends.b]\nurl = \"http://127.0.0.1:1/mcp\"\n[roles.r]\nallow = [\"b__*\"]\n[principals]\ndefault = \"r\"\n";
    std::fs::write(&file, text).unwrap();
    let args = ["--config", file.to_str().unwrap(), "--events", "memory"];
    let gateway = Server::with_args("mcp-gateway", &args, &[]).await;
    let port = gateway.url.split([':', '/']).nth(4).unwrap();
    let (_, text) = report(
        &home,
        "mcp-gateway",
        &[&args[..], &["--port", port]].concat(),
        &[],
    );
    assert_contains(&text, "the role of this client may lack the tool");
    assert_lacks(&text, "set MCP_TOKEN to a token of");
}
