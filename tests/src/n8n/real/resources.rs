//! Resources, subscriptions and prompts.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::lab::{Lab, code};
use crate::harness::assert_contains;
use crate::n8n::done;
use crate::n8n::site::{echo, fail, wait, webhook};

/// Far longer than any change takes to be told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hands on the URIs of resources that were updated, else the methods.
struct Ear(UnboundedSender<String>);

impl Handler for Ear {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str::<Value>(params.get()).unwrap());
        let uri = params.as_ref().and_then(|params| params["uri"].as_str());
        let _ = self.0.send(uri.unwrap_or(method).to_owned());
    }
}

async fn listener(lab: &Lab) -> (Client, UnboundedReceiver<String>) {
    let (ear, heard) = unbounded_channel();
    let builder = Client::builder()
        .era(EraChoice::Legacy)
        .handler(Arc::new(Ear(ear)));
    let client = builder
        .http(Endpoint::new(&lab.server.url).unwrap())
        .unwrap();
    client
        .connect(&ClientInfo::new("tests", "1"))
        .await
        .unwrap();
    (client, heard)
}

async fn until(heard: &mut UnboundedReceiver<String>, wanted: &str) {
    let hear = async { while heard.recv().await.unwrap() != wanted {} };
    assert!(
        timeout(PATIENCE, hear).await.is_ok(),
        "{wanted} was not told"
    );
}

async fn read(lab: &Lab, uri: &str) -> Value {
    let read = lab
        .server
        .result("resources/read", json!({"uri": uri}))
        .await;
    serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn workflows_and_executions_can_be_read() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let run = lab.run(&workflow, json!({"input": "SECRET-INPUT"})).await;
    let all = read(&lab, "n8n://workflows").await;
    assert!(all["workflows"].is_array(), "{all}");
    let one = read(&lab, &format!("n8n://workflows/{}", workflow.id)).await;
    assert_eq!(one["name"], workflow.name);
    let id = run["execution_id"].as_str().unwrap();
    let execution = read(&lab, &format!("n8n://executions/{id}")).await;
    assert_eq!(execution["nodes"][0]["node"], "Webhook", "{execution}");
    assert!(!execution.to_string().contains("SECRET-INPUT"));
    for uri in [
        "n8n://executions/999999999",
        "n8n://workflows/nothing",
        "n8n://workflows/a%2Fb",
    ] {
        let error = lab
            .server
            .error("resources/read", json!({"uri": uri}))
            .await;
        assert_eq!(error["data"]["kind"], "resource_not_found", "{error}");
    }
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn who_subscribed_to_a_workflow_hears_of_its_changes() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let (client, mut heard) = listener(&lab).await;
    let uri = format!("n8n://workflows/{}", workflow.id);
    client
        .request("resources/subscribe", &json!({"uri": uri}))
        .await
        .unwrap();
    let stream = client.listen(&json!({})).await.unwrap();
    tokio::spawn(stream.closed());
    // A change before the first look is not seen as one: so there are some.
    let changes = async {
        for action in ["deactivate", "activate"].into_iter().cycle() {
            let path = format!("/workflows/{}/{action}", workflow.id);
            lab.site.api("POST", &path, None).await;
            // Longer than the server gathers changes.
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    tokio::select! {
        () = until(&mut heard, &uri) => {}
        () = changes => unreachable!("they do not end"),
    }
    lab.site.delete(&workflow).await;
    until(&mut heard, &uri).await;
}

#[tokio::test]
async fn who_subscribed_to_an_execution_hears_of_its_end() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("onReceived"), wait(8)]).await;
    let run = done!(lab, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 4});
    let (client, mut heard) = listener(&lab).await;
    let uri = format!("n8n://executions/{}", run["execution_id"].as_str().unwrap());
    client
        .request("resources/subscribe", &json!({"uri": uri}))
        .await
        .unwrap();
    let stream = client.listen(&json!({})).await.unwrap();
    tokio::spawn(stream.closed());
    until(&mut heard, &uri).await;
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn prompts_hold_what_n8n_says_now() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab
        .site
        .live(vec![webhook("lastNode"), code("return []"), fail("boom")])
        .await;
    let text = async |name: &str, arguments: Value| {
        let prompt = json!({"name": name, "arguments": arguments});
        let prompt = lab.server.result("prompts/get", prompt).await;
        prompt["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let review = text("review_workflow", json!({"workflow_id": workflow.id})).await;
    assert_contains(&review, "runs code");
    assert_contains(&review, "anybody who knows its URL");
    let build = text("build_workflow", json!({"goal": "tell me the weather"})).await;
    assert_contains(&build, "tell me the weather");
    assert_contains(&build, "list_nodes");
    let failing = lab.site.live(vec![webhook("lastNode"), fail("boom")]).await;
    let run = lab.run(&failing, json!({})).await;
    let debug = text(
        "debug_execution",
        json!({"execution_id": run["execution_id"]}),
    )
    .await;
    assert_contains(&debug, "boom");
    assert_contains(&debug, "on purpose");
    let complete = json!({"ref": {"type": "ref/prompt", "name": "debug_execution"}, "argument": {"name": "execution_id", "value": run["execution_id"]}});
    let values = lab.server.result("completion/complete", complete).await;
    assert_has!(values, {"completion": {"values": [run["execution_id"]]}});
    lab.site.delete(&workflow).await;
    lab.site.delete(&failing).await;
}
