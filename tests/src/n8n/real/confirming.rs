//! Destructive tools ask the user if the client supports it, and the model otherwise.

use std::sync::Mutex;

use mcp_client::{Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};

use super::*;

/// A user who gives one answer to all questions.
struct User {
    answer: Value,
    questions: Mutex<Vec<String>>,
}

impl User {
    fn new(answer: Value) -> Arc<Self> {
        let questions = Mutex::default();
        Arc::new(Self { answer, questions })
    }

    fn ask(&self, question: &Value) -> Value {
        let text = question["message"].as_str().unwrap().to_owned();
        self.questions.lock().unwrap().push(text);
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

/// Deletes a workflow with a client that asks its user; whether that failed, and the answer.
async fn delete(env: &Env, era: EraChoice, user: &Arc<User>, id: &str) -> (bool, String) {
    let client = env
        .connect(era, json!({"elicitation": {}}), Some(user.clone()))
        .await;
    // The confirmation of the model does not replace that of the user.
    let arguments = json!({"workflow_id": id, "confirm": id});
    let mut params = json!({"name": "delete_workflow", "arguments": arguments});
    loop {
        let result = Box::pin(client.request("tools/call", &params)).await;
        let result: Value = serde_json::from_str(result.unwrap().get()).unwrap();
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

async fn exists(env: &Env, workflow: &TestWorkflow) -> bool {
    let list = format!("/workflows?name={}", workflow.name);
    let page = env.get(&list).await;
    !page["data"].as_array().unwrap().is_empty()
}

#[tokio::test]
async fn user_is_asked_and_decides() {
    let Some(env) = Env::urls().await else { return };
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let workflow = env.draft(vec![webhook("lastNode")]).await;
        for (answer, is_yes) in [
            (json!({"action": "decline"}), false),
            (json!({"action": "cancel"}), false),
            (
                json!({"action": "accept", "content": {"confirm": false}}),
                false,
            ),
            (yes.clone(), true),
        ] {
            let user = User::new(answer);
            let (failed, text) = delete(&env, era, &user, &workflow.id).await;
            assert_eq!(failed, !is_yes, "{text}");
            let questions = user.questions.lock().unwrap().clone();
            assert_eq!(questions.len(), 1);
            assert_contains(&questions[0], &workflow.name);
            assert_eq!(exists(&env, &workflow).await, !is_yes);
        }
    }
}
