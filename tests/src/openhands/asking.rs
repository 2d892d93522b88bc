//! Permissions that the user gives: the client is asked, not the model.

use std::sync::{Arc, Mutex};

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, call, env, until};
use crate::harness::real::openhands;
use crate::harness::{Server, stdio_client};

/// Writes down what it is asked and gives the next of its answers.
struct User {
    asked: Mutex<Vec<String>>,
    answers: Mutex<Vec<Value>>,
}

impl User {
    fn answer(&self, question: &Value) -> Value {
        let message = question["message"].as_str().unwrap().to_owned();
        self.asked.lock().unwrap().push(message);
        self.answers.lock().unwrap().remove(0)
    }
}

impl Handler for User {
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        assert_eq!(method, "elicitation/create");
        let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
        let answer = self.answer(&params);
        Box::pin(async move { Ok(to_raw_value(&answer).unwrap()) })
    }
}

async fn user(server: &Server, dialect: EraChoice, answers: Vec<Value>) -> (Client, Arc<User>) {
    let user = Arc::new(User {
        asked: Mutex::default(),
        answers: Mutex::new(answers),
    });
    let builder = Client::builder().era(dialect).handler(user.clone());
    let client = builder.http(Endpoint::new(&server.url).unwrap()).unwrap();
    let who = ClientInfo::new("tests", "1").with_capabilities(json!({"elicitation": {}}));
    client.connect(&who).await.unwrap();
    (client, user)
}

/// What a tool returns once its user has answered. In the modern era the call ends with each
/// question and is repeated with the answer.
async fn ask(client: &Client, user: &User, tool: &str, arguments: &Value) -> (bool, String) {
    let mut params = json!({"name": tool, "arguments": arguments});
    loop {
        let result = client.request("tools/call", &params).await.unwrap();
        let result: Value = serde_json::from_str(result.get()).unwrap();
        if result["resultType"] != "input_required" {
            let text = result["content"][0]["text"].as_str().unwrap();
            return (result["isError"] == true, text.to_owned());
        }
        let mut answers = json!({});
        for (key, question) in result["inputRequests"].as_object().unwrap() {
            answers[key] = user.answer(&question["params"]);
        }
        params["inputResponses"] = answers;
        if let Some(state) = result.get("requestState") {
            params["requestState"] = state.clone();
        }
    }
}

#[tokio::test]
async fn the_user_is_asked_for_every_action() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let yes = json!({"action": "accept", "content": {"allow": true}});
    let no = json!({"action": "accept", "content": {"allow": false, "reason": "not this one"}});
    for dialect in [EraChoice::Legacy, EraChoice::Modern] {
        let answers = vec![yes.clone(), no.clone()];
        let (client, user) = user(&server, dialect, answers).await;
        let task = json!({"task": "RUN: echo one\nRUN: echo two > made\nSAY: both",
            "confirm": "always", "idempotency_key": Uuid::new_v4().to_string()});
        let (failed, run) = ask(&client, &user, "run_task", &task).await;
        assert!(!failed, "{run}");
        let run: Value = serde_json::from_str(&run).unwrap();
        assert_has!(run, {"status": "idle", "last_output": "one"});
        assert!(run.get("changed_files").is_none(), "{run}");
        let asked = user.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].contains("echo one"), "{asked:?}");
        assert!(asked[1].contains("echo two > made"), "{asked:?}");
    }
}

#[tokio::test]
async fn a_model_cannot_agree_for_its_user() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = stdio_client(NAME, &env(&real)).await;
    for dialect in [EraChoice::Legacy, EraChoice::Modern] {
        let task = json!({"task": "RUN: echo one\nSAY: done", "confirm": "always"});
        let run = call(&control, "run_task", task).await;
        let id = &run["task_id"];
        let closed = json!({"action": "cancel"});
        let yes = json!({"action": "accept", "content": {"allow": true}});
        let (client, user) = user(&server, dialect, vec![closed, yes]).await;
        let accept = json!({"task_id": id, "accept": true});
        let (failed, text) = ask(&client, &user, "respond_confirmation", &accept).await;
        assert!(failed && text.contains("did not answer"), "{text}");
        until(&control, id, "waiting_for_confirmation").await;
        let (failed, text) = ask(&client, &user, "respond_confirmation", &accept).await;
        assert!(!failed && text.contains("finished"), "{text}");
        assert_eq!(user.asked.lock().unwrap().len(), 2);
    }
}
