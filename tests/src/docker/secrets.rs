//! Planted secrets do not appear in answers and logs.

use serde_json::json;

use super::lab::lab;
use super::{SERVER, call, succeed};
use crate::harness::Server;

const CANARY: &str = "c4n4ry-h4s-n0-v01ce";

#[tokio::test]
async fn planted_secrets_stay_hidden() {
    let Some(mut lab) = lab().await else { return };
    let script = format!(
        "echo password={CANARY}; echo '{{\"api_key\": \"{CANARY}\"}}' >&2; \
         echo Authorization: Bearer {CANARY}X; echo postgres://u:{CANARY}@db/x; exit 1"
    );
    let more = json!({
        "Env": [
            format!("DB_PASSWORD={CANARY}"), format!("apiToken={CANARY}"),
            format!("DATABASE_URL=postgres://u:{CANARY}@db/x"), "MODE=open",
        ],
        "Labels": {"com.example.secret": CANARY, "com.example.url": format!("http://u:{CANARY}@h")},
        "Healthcheck": {"Test": ["CMD-SHELL", format!("echo token={CANARY}")], "Interval": 100_000_000},
    });
    let command = ["sh", "-c", &script, "--password", CANARY];
    let name = lab.create("secret", &command, more).await;
    let bad = ["/nope", "--password", CANARY];
    let bad = lab.create("bad", &bad, json!({})).await;
    let worse = format!("/nope?password={CANARY}");
    let worse = lab.create("worse", &[&worse], json!({})).await;
    // With the most detailed log.
    let env = [("DOCKER_HOST", lab.host.as_str()), ("MCP_LOG", "trace")];
    let server = Server::start(SERVER, &env).await;

    let mut seen = String::new();
    for container in [&name, &bad, &worse] {
        for tool in
            "start_container get_container get_container_logs restart_container stop_container"
                .split(' ')
        {
            let answer = call(&server, tool, json!({"container": container})).await;
            seen += &answer.to_string();
        }
    }
    let list = call(&server, "list_containers", json!({"all": true})).await;
    seen += &list.to_string();
    let at = seen.find(CANARY);
    assert!(at.is_none(), "{}", &seen[at.unwrap().saturating_sub(200)..]);
    assert!(!server.log().contains(CANARY), "the server's log");
    let shown = succeed(&server, "get_container", json!({"container": name})).await;
    assert!(shown["redacted"].as_u64().unwrap() >= 5, "{shown}");
    let env = shown["env"].as_array().unwrap();
    assert!(env.contains(&json!("MODE=open")) && env.contains(&json!("DB_PASSWORD=***")));
}

#[tokio::test]
async fn secrets_are_shown_with_show_secrets() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({"Env": [format!("DB_PASSWORD={CANARY}")]});
    let name = lab.create("open", &["true"], more).await;
    let env = [
        ("DOCKER_HOST", lab.host.as_str()),
        ("DOCKER_MCP_SHOW_SECRETS", "1"),
    ];
    let server = Server::start(SERVER, &env).await;
    let shown = succeed(&server, "get_container", json!({"container": name})).await;
    assert!(shown.to_string().contains(CANARY), "{shown}");
    assert!(shown.get("redacted").is_none(), "{shown}");
}
