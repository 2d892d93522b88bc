//! Tasks as resources: what they hold, and who is told when that changes.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Command, Endpoint, EraChoice, Handler};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use super::{NAME, both, call, env, run_task, until};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, assert_contains, binary, stdio_client};

/// Far longer than any change takes to be told.
const PATIENCE: Duration = Duration::from_secs(30);

async fn read(client: &Client, uri: &str) -> String {
    let params = json!({"uri": uri});
    let result = client.request("resources/read", &params).await.unwrap();
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let contents = &result["contents"][0];
    assert_eq!(contents["uri"], uri);
    contents["text"].as_str().unwrap().to_owned()
}

pub(super) fn uri(id: &Value) -> String {
    format!("openhands://tasks/{}", id.as_str().unwrap())
}

#[tokio::test]
async fn a_task_is_read_as_the_tools_tell_it() {
    for client in both().await {
        let listed = client.list("resources/templates/list", "resourceTemplates");
        assert_eq!(listed.await.unwrap().len(), 3);
        let run = run_task(&client, "RUN: echo one > made.txt\nSAY: all good").await;
        let uri = uri(&run["task_id"]);
        let state: Value = serde_json::from_str(&read(&client, &uri).await).unwrap();
        assert_has!(state, {"status": "finished", "result": "all good", "changed_files": ["A made.txt"]});
        let events = read(&client, &format!("{uri}/events")).await;
        assert!(events.contains("echo one"), "{events}");
        let diff = read(&client, &format!("{uri}/diff")).await;
        assert_contains(&diff, "+++ b/made.txt\n@@ -0,0 +1 @@\n+one");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let nobody = Uuid::new_v4();
    let hostile = ["..", "..%2Fsettings", "1", "a%3Fb", "%00", "", "%252e%252e"];
    let hostile = hostile.iter().map(|id| (*id).to_owned());
    for id in hostile.chain([nobody.to_string(), format!("{nobody}/../x")]) {
        for part in ["", "/events", "/diff", "/log"] {
            let params = json!({"uri": format!("openhands://tasks/{id}{part}")});
            let error = server.error("resources/read", params).await;
            assert_eq!(
                error["data"]["kind"], "resource_not_found",
                "{id}{part}: {error}"
            );
        }
    }
}

/// Hands on the URI of what was updated.
struct Ear(UnboundedSender<String>);

impl Handler for Ear {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/resources/updated" {
            let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
            let _ = self.0.send(params["uri"].as_str().unwrap().to_owned());
        }
    }
}

/// A client that hears what changes, in this dialect over HTTP or else over stdio.
pub(super) async fn listener(
    real: &OpenHands,
    server: &Server,
    dialect: Option<EraChoice>,
) -> (Client, UnboundedReceiver<String>) {
    let (ear, heard) = unbounded_channel();
    let builder = Client::builder().handler(Arc::new(Ear(ear)));
    let client = match dialect {
        Some(dialect) => builder
            .era(dialect)
            .http(Endpoint::new(&server.url).unwrap()),
        None => {
            let program = binary(NAME);
            let mut command = Command::new(program.to_str().unwrap()).arg("--stdio");
            for (name, value) in env(real) {
                command = command.env(name, value);
            }
            builder.era(EraChoice::Legacy).stdio(command)
        }
    };
    let client = client.unwrap();
    client
        .connect(&ClientInfo::new("tests", "1"))
        .await
        .unwrap();
    (client, heard)
}

pub(super) async fn subscribe(client: &Client, uris: &[String]) {
    let mut filter = json!({});
    match client.era() {
        mcp_core::era::Era::Modern => filter = json!({"resourceSubscriptions": uris}),
        _ => {
            for uri in uris {
                let params = json!({"uri": uri});
                client
                    .request("resources/subscribe", &params)
                    .await
                    .unwrap();
            }
        }
    }
    let stream = client.listen(&filter).await.unwrap();
    tokio::spawn(stream.closed());
}

/// Takes what is heard until all of `wanted` were.
pub(super) async fn hear(heard: &mut UnboundedReceiver<String>, wanted: &[String]) {
    let mut missing: Vec<&String> = wanted.iter().collect();
    let all = async {
        while !missing.is_empty() {
            let uri = heard.recv().await.unwrap();
            missing.retain(|wanted| **wanted != uri);
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(all.is_ok(), "not told: {missing:?}");
}

#[tokio::test]
async fn who_watches_a_task_is_told_what_changes() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = stdio_client(NAME, &env(&real)).await;
    // Both eras over HTTP, and stdio.
    for dialect in [Some(EraChoice::Legacy), Some(EraChoice::Modern), None] {
        let (client, mut heard) = listener(&real, &server, dialect).await;
        let run = run_task(&control, "SAY: ready").await;
        let id = &run["task_id"];
        let uri = uri(id);
        let parts = [uri.clone(), format!("{uri}/events"), format!("{uri}/diff")];
        subscribe(&client, &parts).await;
        // The first look: what came before it is not known.
        hear(&mut heard, &parts).await;
        let message = json!({"task_id": id, "message": "RUN: echo two > later.txt\nSAY: done"});
        call(&control, "send_message", message).await;
        until(&control, id, "finished").await;
        hear(&mut heard, &parts).await;
        assert!(read(&client, &parts[2]).await.contains("+two"));
        call!(control, "delete_task", {"task_id": id, "confirm": id});
        hear(&mut heard, &parts[..2]).await;
        client.close().await;
    }
}
