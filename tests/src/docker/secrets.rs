//! Planted secrets appear in no answer and in no log of ours.

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
    let bad = lab
        .create("bad", &["/nope", "--password", CANARY], json!({}))
        .await;
    let worse = lab
        .create("worse", &[&format!("/nope?password={CANARY}")], json!({}))
        .await;
    // As chatty as it gets.
    let env = [("DOCKER_HOST", lab.host.as_str()), ("MCP_LOG", "trace")];
    let server = Server::start(SERVER, &env).await;

    let mut seen = String::new();
    for container in [&name, &bad, &worse] {
        for tool in [
            "start_container",
            "get_container",
            "get_container_logs",
            "restart_container",
            "stop_container",
        ] {
            seen += &call(&server, tool, json!({"container": container}))
                .await
                .to_string();
        }
    }
    seen += &call(&server, "list_containers", json!({"all": true}))
        .await
        .to_string();
    assert!(
        !seen.contains(CANARY),
        "{}",
        &seen[seen.find(CANARY).unwrap().saturating_sub(200)..]
    );
    assert!(!server.log().contains(CANARY), "the server's log");
    let shown = succeed(&server, "get_container", json!({"container": name})).await;
    assert!(shown["redacted"].as_u64().unwrap() >= 5, "{shown}");
    assert!(
        shown["env"]
            .as_array()
            .unwrap()
            .contains(&json!("MODE=open"))
    );
    assert!(
        shown["env"]
            .as_array()
            .unwrap()
            .contains(&json!("DB_PASSWORD=***"))
    );
}

#[tokio::test]
async fn they_are_shown_to_who_asks_for_it() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({"Env": [format!("DB_PASSWORD={CANARY}")]});
    let name = lab.create("open", &["true"], more).await;
    let env = [
        ("DOCKER_HOST", lab.host.as_str()),
        ("DOCKER_MCP_SHOW_SECRETS", "1"),
    ];
    let server = Server::start(SERVER, &env).await;
    let shown = succeed(&server, "get_container", json!({"container": name})).await;
    assert!(
        shown.to_string().contains(CANARY) && shown.get("redacted").is_none(),
        "{shown}"
    );
}
