//! `mcp-gateway import`: the servers of a host become backends, without their secrets.

use serde_json::json;

use super::home::Home;
use crate::harness::{Server, assert_contains, assert_lacks, binary};

const CANARY: &str = "canary-31ef";

#[tokio::test]
async fn servers_of_a_host_become_backends_of_a_gateway_that_starts() {
    let home = Home::new();
    let file = home.0.join(".claude.json");
    let fixture = binary("mcp-conformance");
    let servers = json!({"mcpServers": {
        "My Files": {"type": "stdio", "command": fixture, "args": ["--stdio"],
            "env": {"API_KEY": CANARY, "PLAIN": "yes", "OTHER": "${HOME}"}},
        "my-files": {"command": fixture, "args": ["--stdio"]},
        "remote": {"type": "http", "url": "http://127.0.0.1:1/mcp",
            "headers": {"Authorization": format!("Bearer {CANARY}")}},
        "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
        "argument": {"command": "x", "args": ["--api-key", CANARY]},
        "query": {"url": format!("http://127.0.0.1:1/mcp?token={CANARY}")},
        "gateway": {"command": "/opt/mcp-gateway", "args": ["--stdio"]},
    }, "theme": "dark"});
    std::fs::write(&file, servers.to_string()).unwrap();
    let config = home.0.join("gateway.toml");
    let before = "# mine\n[backends.remote]\nurl = \"http://127.0.0.1:2/mcp\"\n";
    std::fs::write(&config, before).unwrap();
    let args = [
        "import",
        "claude-code",
        "--config",
        config.to_str().unwrap(),
    ];
    let shown = home.done("mcp-gateway", &[&args[..], &["--dry-run"]].concat(), &[]);
    assert_contains(&shown, "nothing was written");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), before);

    let said = home.done("mcp-gateway", &args, &[]);
    assert_lacks(&said, CANARY);
    for line in [
        "taken: My Files as my-files\n  set API_KEY",
        "taken: my-files as my-files-2",
        "taken: remote as remote-2\n  set REMOTE_2_TOKEN",
        "not taken: asks: it asks for an input",
        "not taken: argument: --api-key may hold a secret",
        "not taken: query: its URL may hold a secret",
        "not taken: gateway: it is the gateway itself",
    ] {
        assert_contains(&said, line);
    }
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.starts_with(before), "{text}");
    assert_lacks(&text, CANARY);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), servers.to_string());

    let args = ["--config", config.to_str().unwrap(), "--events", "memory"];
    let env = [("API_KEY", "a"), ("REMOTE_2_TOKEN", "b"), ("HOME", "/")];
    let gateway = Server::with_args("mcp-gateway", &args, &env).await;
    let status = gateway.call("gateway_status", json!({})).await;
    assert_eq!(status["backends"].as_object().unwrap().len(), 4, "{status}");
    assert_eq!(
        status["backends"]["my-files"]["status"], "running",
        "{status}"
    );
}
