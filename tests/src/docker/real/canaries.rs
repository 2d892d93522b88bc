//! Canaries: secrets planted wherever a container can have one must not appear in any output.

use serde_json::{Value, json};

use crate::docker::lab::{Lab, lab};
use crate::docker::{SERVER, succeed};
use crate::harness::Server;

const CANARY: &str = "c4n4ry-s1ngs-n0-s0ng";

/// Texts that mark the canary as a secret by a name or by a pattern.
fn planted() -> [String; 8] {
    [
        format!("password={CANARY}"),
        format!("\"api_key\": \"{CANARY}\""),
        format!("Authorization: Bearer {CANARY}X"),
        format!("postgres://u:{CANARY}@db/x"),
        format!("--token {CANARY}"),
        format!("AWS_SECRET_ACCESS_KEY={CANARY}"),
        format!("https://{CANARY}-0123456789@host/x"),
        format!("export DB_PASS='{CANARY}'"),
    ]
}

/// Three containers full of secrets: one that runs and is unhealthy, one that has ended, one that
/// cannot be started.
async fn plant(lab: &mut Lab) -> Vec<String> {
    let lines = planted().map(|line| format!("echo '{}' >&2", line.replace('\'', "")));
    let script = lines.join("; ");
    let more = json!({
        "Env": [
            format!("DB_PASSWORD={CANARY}"), format!("apiToken={CANARY}"), format!("URL=redis://:{CANARY}@r"),
            format!("JSON={{\"secret\":\"{CANARY}\"}}"),
        ],
        "Labels": {
            "com.example.secret": CANARY, "com.example.url": format!("http://u:{CANARY}@h"),
            "com.docker.compose.config-hash": "1", "com.docker.compose.project": lab.name("shop"), "com.docker.compose.service": "web",
        },
        "Healthcheck": {
            "Test": ["CMD-SHELL", format!("echo token={CANARY}; exit 1")], "Interval": 100_000_000, "Retries": 1,
        },
    });
    let runs = format!("{script}; sleep 600");
    let ends = format!("{script}; exit 1");
    let runs = ["sh", "-c", &runs, "--password", CANARY];
    let ends = ["sh", "-c", &ends, "--password", CANARY];
    let fails = format!("/nope?password={CANARY}");
    vec![
        lab.run("runs", &runs, more.clone()).await,
        lab.finish("ends", &ends, more).await,
        lab.create("fails", &[&fails], json!({})).await,
    ]
}

#[track_caller]
fn assert_no_canary(what: &str, text: &str) {
    if let Some(at) = text.find(CANARY) {
        panic!("{what}: {}", &text[at.saturating_sub(120)..at]);
    }
}

async fn ask(server: &Server, method: &str, params: Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let reply = server.post(body.to_string()).await;
    assert_no_canary(&format!("{method} {params}"), &reply.body);
}

async fn ask_tool(server: &Server, tool: &str, arguments: Value) {
    let params = json!({"name": tool, "arguments": arguments});
    ask(server, "tools/call", params).await;
}

#[tokio::test]
async fn output_never_contains_a_canary() {
    let Some(mut lab) = lab().await else { return };
    let containers = plant(&mut lab).await;
    // With the most detailed log and all tools.
    let env = [
        ("DOCKER_HOST", &*lab.host),
        ("MCP_LOG", "trace"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
        ("MCP_TOOLSETS", "all"),
    ];
    let server = Server::start(SERVER, &env).await;
    server.wait_for_status("online").await;
    // Its events contain labels and names, its errors command lines.
    ask_tool(
        &server,
        "start_container",
        json!({"container": containers[2]}),
    )
    .await;

    let tools = server.result("tools/list", json!({})).await;
    let mut asked = 0;
    for tool in tools["tools"].as_array().unwrap() {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        let mut required = schema["required"].as_array().into_iter().flatten();
        let answerable = required.all(|name| name == "container");
        let waits = name == "wait_container";
        if tool["annotations"]["readOnlyHint"] != true || !answerable || waits {
            continue;
        }
        for container in &containers {
            let arguments = match schema["properties"].get("container") {
                Some(_) => json!({"container": container}),
                None => json!({}),
            };
            ask_tool(&server, name, arguments).await;
            asked += 1;
        }
    }
    assert!(asked >= 12, "{asked}");
    for uri in ["docker://containers", "docker://images", "docker://compose"] {
        ask(&server, "resources/read", json!({"uri": uri})).await;
    }
    ask(&server, "resources/list", json!({})).await;
    for container in &containers {
        for end in ["", "/logs", "/stats"] {
            let uri = format!("docker://containers/{container}{end}");
            ask(&server, "resources/read", json!({"uri": uri})).await;
        }
        let arguments = json!({"container": container});
        let prompt = json!({"name": "troubleshoot_container", "arguments": arguments});
        ask(&server, "prompts/get", prompt).await;
    }
    let arguments = json!({"project": lab.name("shop")});
    let prompt = json!({"name": "review_compose_project", "arguments": arguments});
    ask(&server, "prompts/get", prompt).await;
    ask(&server, "prompts/get", json!({"name": "clean_up_safely"})).await;
    for verb in ["start", "restart", "stop", "kill", "remove"] {
        let mut arguments = json!({"container": containers[1]});
        if verb == "restart" || verb == "stop" {
            arguments["timeout_seconds"] = json!(0);
        }
        ask_tool(&server, &format!("{verb}_container"), arguments).await;
    }
    assert_no_canary("the log of the server", &server.log());
}

#[tokio::test]
async fn redacted_values_are_counted() {
    let Some(mut lab) = lab().await else { return };
    let containers = plant(&mut lab).await;
    for (tool, least) in [
        ("get_container", 6),
        ("get_container_logs", 8),
        ("diagnose_container", 8),
    ] {
        let answer = succeed!(lab, tool, {"container": containers[1]});
        assert!(answer["redacted"].as_u64() >= Some(least), "{answer}");
    }
    let open = Lab::at(lab.host.clone(), &[("DOCKER_MCP_SHOW_SECRETS", "1")]).await;
    let answer = succeed!(open, "diagnose_container", {"container": containers[1]}).to_string();
    assert!(answer.contains(CANARY) && !answer.contains("redacted"));
}
