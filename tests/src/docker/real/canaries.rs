//! Secrets planted wherever a container can have one, looked for in all that the server says.

use serde_json::{Value, json};

use crate::docker::SERVER;
use crate::docker::lab::{Lab, lab};
use crate::harness::Server;

const CANARY: &str = "c4n4ry-s1ngs-n0-s0ng";

/// Texts that give the canary away by a name or by a shape.
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
            "com.docker.compose.project": lab.name("shop"), "com.docker.compose.service": "web",
        },
        "Healthcheck": {
            "Test": ["CMD-SHELL", format!("echo token={CANARY}; exit 1")], "Interval": 100_000_000, "Retries": 1,
        },
    });
    let runs = format!("{script}; sleep 600");
    let ends = format!("{script}; exit 1");
    vec![
        lab.run(
            "runs",
            &["sh", "-c", &runs, "--password", CANARY],
            more.clone(),
        )
        .await,
        lab.finish("ends", &["sh", "-c", &ends, "--password", CANARY], more)
            .await,
        lab.create("fails", &[&format!("/nope?password={CANARY}")], json!({}))
            .await,
    ]
}

#[track_caller]
fn silent(what: &str, text: &str) {
    if let Some(at) = text.find(CANARY) {
        panic!("{what}: {}", &text[at.saturating_sub(120)..at]);
    }
}

async fn ask(server: &Server, method: &str, params: Value) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let reply = server.post(body.to_string()).await;
    silent(&format!("{method} {params}"), &reply.body);
}

#[tokio::test]
async fn no_canary_sings() {
    let Some(mut lab) = lab().await else { return };
    let containers = plant(&mut lab).await;
    // As chatty as it gets, and with everything that there is.
    let env = [
        ("DOCKER_HOST", &*lab.host),
        ("MCP_LOG", "trace"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
        ("MCP_TOOLSETS", "all"),
    ];
    let server = Server::start(SERVER, &env).await;
    server.wait_for_status("online").await;
    // Its events carry labels and names, its errors command lines.
    ask(
        &server,
        "tools/call",
        json!({"name": "start_container", "arguments": {"container": containers[2]}}),
    )
    .await;

    let tools = server.result("tools/list", json!({})).await;
    let mut asked = 0;
    for tool in tools["tools"].as_array().unwrap() {
        let required = tool["inputSchema"]["required"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let takes_container = tool["inputSchema"]["properties"].get("container").is_some();
        let answerable = required.iter().all(|name| name == "container");
        let waits =
            ["wait_container", "follow_container_logs"].contains(&tool["name"].as_str().unwrap());
        if tool["annotations"]["readOnlyHint"] != true || !answerable || waits {
            continue;
        }
        for container in &containers {
            let arguments = if takes_container {
                json!({"container": container})
            } else {
                json!({})
            };
            ask(
                &server,
                "tools/call",
                json!({"name": tool["name"], "arguments": arguments}),
            )
            .await;
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
        ask(
            &server,
            "prompts/get",
            json!({"name": "troubleshoot_container", "arguments": arguments}),
        )
        .await;
    }
    let arguments = json!({"project": lab.name("shop")});
    ask(
        &server,
        "prompts/get",
        json!({"name": "review_compose_project", "arguments": arguments}),
    )
    .await;
    ask(&server, "prompts/get", json!({"name": "clean_up_safely"})).await;
    for tool in [
        "start_container",
        "restart_container",
        "stop_container",
        "kill_container",
        "remove_container",
    ] {
        let mut arguments = json!({"container": containers[1]});
        if tool == "restart_container" || tool == "stop_container" {
            arguments["timeout_seconds"] = json!(0);
        }
        ask(
            &server,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        )
        .await;
    }
    silent("the log of the server", &server.log());
}

#[tokio::test]
async fn what_was_hidden_is_counted() {
    let Some(mut lab) = lab().await else { return };
    let containers = plant(&mut lab).await;
    for (tool, least) in [
        ("get_container", 6),
        ("get_container_logs", 8),
        ("diagnose_container", 8),
    ] {
        let params = json!({"name": tool, "arguments": {"container": containers[1]}});
        let result = lab.server.result("tools/call", params).await;
        let answer: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert!(answer["redacted"].as_u64() >= Some(least), "{answer}");
    }
    let open = Lab::at(lab.host.clone(), &[("DOCKER_MCP_SHOW_SECRETS", "1")]).await;
    let params = json!({"name": "diagnose_container", "arguments": {"container": containers[1]}});
    let result = open.server.result("tools/call", params).await;
    assert!(result.to_string().contains(CANARY) && !result.to_string().contains("redacted"));
}
