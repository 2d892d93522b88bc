//! Permissions from the user, through the client and not the model.

use std::sync::{Arc, Mutex};

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use super::git_host::GitHost;
use super::workspaces::git;
use super::{NAME, call, client_with, env, env_with, wait_for_status};
use crate::harness::real::openhands;
use crate::harness::{Server, assert_contains};

/// A user that records questions and gives prepared answers.
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

async fn user(server: &Server, era: EraChoice, answers: Vec<Value>) -> (Client, Arc<User>) {
    let user = Arc::new(User {
        asked: Mutex::default(),
        answers: Mutex::new(answers),
    });
    let builder = Client::builder().era(era).handler(user.clone());
    let client = builder.http(Endpoint::new(&server.url).unwrap()).unwrap();
    let info = ClientInfo::new("tests", "1").with_capabilities(json!({"elicitation": {}}));
    client.connect(&info).await.unwrap();
    (client, user)
}

/// Calls a tool whose user answers all questions. Returns true if it failed, and its text. In the
/// modern era the call ends with each question and is repeated with the answer.
async fn call_with_user(
    client: &Client,
    user: &User,
    tool: &str,
    arguments: &Value,
) -> (bool, String) {
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
async fn user_is_asked_for_each_action() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let yes = json!({"action": "accept", "content": {"allow": true}});
    let no = json!({"action": "accept", "content": {"allow": false, "reason": "not this one"}});
    let key = || json!(Uuid::new_v4().to_string());
    for (era, key) in [
        (EraChoice::Legacy, key()),
        (EraChoice::Modern, key()),
        (EraChoice::Modern, Value::Null),
    ] {
        let answers = vec![yes.clone(), no.clone()];
        let (client, user) = user(&server, era, answers).await;
        let task = json!({"task": "RUN: echo one\nRUN: echo two > made\nSAY: both",
            "confirm": "always", "idempotency_key": key});
        let (failed, run) = call_with_user(&client, &user, "run_task", &task).await;
        assert!(!failed, "{run}");
        let run: Value = serde_json::from_str(&run).unwrap();
        assert_has!(run, {"status": "idle", "last_output": "one"});
        assert!(run.get("changed_files").is_none(), "{run}");
        let asked = user.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_contains(&asked[0], "echo one");
        assert_contains(&asked[1], "echo two > made");
    }
}

#[tokio::test]
async fn model_cannot_accept_without_its_user() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = client_with(&real, &[]).await;
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let run = call!(control, "run_task", {"task": "RUN: echo one\nSAY: done",
            "confirm": "always"});
        let id = &run["task_id"];
        let closed = json!({"action": "cancel"});
        let yes = json!({"action": "accept", "content": {"allow": true}});
        let (client, user) = user(&server, era, vec![closed, yes]).await;
        let accept = json!({"task_id": id, "accept": true,
            "confirmation_id": run["confirmation"]["confirmation_id"]});
        let (failed, text) = call_with_user(&client, &user, "respond_confirmation", &accept).await;
        assert!(failed && text.contains("did not answer"), "{text}");
        wait_for_status(&control, id, "waiting_for_confirmation").await;
        let (failed, text) = call_with_user(&client, &user, "respond_confirmation", &accept).await;
        assert!(!failed && text.contains("finished"), "{text}");
        assert_eq!(user.asked.lock().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn question_shows_all_actions_whole_and_its_answer_is_for_no_other() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = client_with(&real, &[]).await;
    let yes = json!({"action": "accept", "content": {"allow": true}});
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (client, user) = user(&server, era, vec![yes.clone(), yes.clone()]).await;
        let padding = "echo padding || ".repeat(40);
        let task = json!({"task": format!("LIE: List files || touch a\nLINES: {padding}touch END"),
            "confirm": "always"});
        let (failed, run) = call_with_user(&client, &user, "run_task", &task).await;
        assert!(!failed, "{run}");
        let asked = user.asked.lock().unwrap().clone();
        assert_contains(&asked[0], "touch a");
        assert!(!asked[0].contains("List files"), "{asked:?}");
        assert_contains(&asked[1], "    echo padding\n    touch END\n");
        // The user is asked only for the actions that the model has read.
        let run = call!(control, "run_task", {"task": "RUN: touch a", "confirm": "always"});
        let wrong = json!({"task_id": run["task_id"], "confirmation_id": "0000", "accept": true});
        let (failed, text) = call_with_user(&client, &user, "respond_confirmation", &wrong).await;
        assert!(failed && text.contains("touch a"), "{text}");
        assert_eq!(user.asked.lock().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn user_is_asked_before_changes_are_published() {
    let Some(real) = openhands() else { return };
    let host = GitHost::start("git").await;
    let options = host.options("", "");
    let options = options
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let server = Server::start(NAME, &env_with(&real, &options)).await;
    let control = server.client().await;
    let (yes, no) = (json!({"confirm": true}), json!({"confirm": false}));
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let run = call!(control, "run_task", {"task": "RUN: echo x > new", "wait_seconds": 25,
            "context": {"repository": host.url()}});
        let id = &run["task_id"];
        let answers = [no.clone(), yes.clone()];
        let answers = answers.map(|content| json!({"action": "accept", "content": content}));
        let (client, user) = user(&server, era, answers.into()).await;
        // The model cannot agree for its user.
        let asks = json!({"task_id": id, "title": "New", "confirm": "000000000000"});
        let (failed, text) = call_with_user(&client, &user, "publish_task", &asks).await;
        assert!(failed && text.contains("did not agree"), "{text}");
        let branch = format!("openhands/{}", &id.as_str().unwrap()[..8]);
        assert_eq!(git(&host.bare(), &["branch", "--list", &branch]), "");
        let (failed, text) = call_with_user(&client, &user, "publish_task", &asks).await;
        assert!(!failed, "{text}");
        let shown = git(&host.bare(), &["show", "--format=%s", &branch]);
        assert_contains(&shown, "New");
        let asked = user.asked.lock().unwrap().clone();
        assert_contains(&asked[1], &branch);
    }
}
