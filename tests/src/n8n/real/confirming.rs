//! Destructive tools ask the user, where the client can; the model, where it cannot.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::site::{Site, Workflow, webhook};
use super::super::{SERVER, done, refused};
use crate::harness::Server;

/// Gives one answer to everything and counts how often it was asked.
struct User {
    answer: Value,
    asked: AtomicUsize,
    question: Mutex<String>,
}

impl User {
    fn who(answer: Value) -> Arc<Self> {
        Arc::new(Self {
            answer,
            asked: AtomicUsize::new(0),
            question: Mutex::default(),
        })
    }

    fn ask(&self, question: &Value) -> Value {
        self.asked.fetch_add(1, Ordering::Relaxed);
        *self.question.lock().unwrap() = question["message"].as_str().unwrap().to_owned();
        self.answer.clone()
    }
}

impl Handler for User {
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        assert_eq!(method, "elicitation/create");
        let question = serde_json::from_str(params.unwrap().get()).unwrap();
        let answer = to_raw_value(&self.ask(&question)).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

async fn server(site: &Site) -> Server {
    let args = ["--toolsets", "all"];
    Server::with_args(SERVER, &args, &site.env_without_mcp()).await
}

/// Has a workflow deleted by a client whose user is asked; the answer, and whether it failed.
async fn delete(server: &Server, dialect: EraChoice, user: &Arc<User>, id: &str) -> (bool, String) {
    let handler: Arc<dyn Handler> = user.clone();
    let builder = Client::builder().era(dialect).handler(handler);
    let client = builder.http(Endpoint::new(&server.url).unwrap()).unwrap();
    let us = ClientInfo::new("tests", "1").with_capabilities(json!({"elicitation": {}}));
    client.connect(&us).await.unwrap();
    // That the model says yes already is no answer of the user.
    let arguments = json!({"workflow_id": id, "confirm": id});
    let mut params = json!({"name": "delete_workflow", "arguments": arguments});
    loop {
        let result = Box::pin(client.request("tools/call", &params))
            .await
            .unwrap();
        let result: Value = serde_json::from_str(result.get()).unwrap();
        if result["resultType"] != "input_required" {
            return (result["isError"] == true, result.to_string());
        }
        let mut answers = json!({});
        for (key, question) in result["inputRequests"].as_object().unwrap() {
            answers[key] = user.ask(&question["params"]);
        }
        params["inputResponses"] = answers;
        if let Some(state) = result.get("requestState") {
            params["requestState"] = state.clone();
        }
    }
}

async fn is_there(site: &Site, workflow: &Workflow) -> bool {
    let list = format!("/workflows?name={}", workflow.name);
    let page = site.api("GET", &list, None).await;
    !page["data"].as_array().unwrap().is_empty()
}

#[tokio::test]
async fn the_user_is_asked_and_decides() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    for dialect in [EraChoice::Legacy, EraChoice::Modern] {
        let workflow = site.draft(vec![webhook("lastNode")], json!({})).await;
        for no in [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "accept", "content": {"confirm": false}}),
        ] {
            let user = User::who(no);
            let (failed, text) = delete(&server, dialect, &user, &workflow.id).await;
            assert!(failed, "{text}");
            assert_eq!(user.asked.load(Ordering::Relaxed), 1);
            assert!(is_there(&site, &workflow).await);
        }
        let user = User::who(json!({"action": "accept", "content": {"confirm": true}}));
        let (failed, text) = delete(&server, dialect, &user, &workflow.id).await;
        assert!(!failed, "{text}");
        assert_eq!(user.asked.load(Ordering::Relaxed), 1);
        let question = user.question.lock().unwrap().clone();
        assert!(question.contains(&workflow.name), "{question}");
        assert!(!is_there(&site, &workflow).await);
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_target_is_named() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.draft(vec![webhook("lastNode")], json!({})).await;
    let id = &workflow.id;
    for (arguments, part) in [
        (json!({"workflow_id": id}), "call again with confirm"),
        (
            json!({"workflow_id": id, "confirm": "another"}),
            "Nothing was done",
        ),
    ] {
        let message = refused(&client, "delete_workflow", arguments).await;
        assert!(message.contains(part), "{message}");
        assert!(is_there(&site, &workflow).await);
    }
    done!(client, "delete_workflow", {"workflow_id": id, "confirm": id});
    assert!(!is_there(&site, &workflow).await);
}
