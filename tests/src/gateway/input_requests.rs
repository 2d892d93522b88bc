//! Questions of backends to the client, in all pairs of eras; and tasks.

use std::sync::Arc;

use mcp_client::{Client, EraChoice, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::env::{Gateway, legacy_fixture, stdio_fixture, text};
use super::forwarding::Gateways;
use crate::harness::{accepted, assert_contains, assert_lacks, eventually, recorder};

/// Calls a tool and answers all questions. Returns the result and the methods of the questions.
pub(super) async fn call(client: &Client, name: &str, arguments: Value) -> (Value, Vec<String>) {
    let mut params = json!({"name": name, "arguments": arguments});
    let mut asked = Vec::new();
    for _ in 0..10 {
        let (handler, mut messages) = recorder();
        let options = Options::default().handler(handler);
        let result = client.request_with("tools/call", &params, options).await;
        let result = result.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let result: Value = serde_json::from_str(result.get()).unwrap();
        while let Ok((method, _)) = messages.try_recv() {
            asked.push(method);
        }
        if result["resultType"] != "input_required" {
            return (result, asked);
        }
        let questions = result["inputRequests"].as_object().unwrap().values();
        asked.extend(questions.map(|question| question["method"].as_str().unwrap().to_owned()));
        answer_all(&mut params, &result, accepted);
    }
    panic!("{name} asks without end");
}

/// Answers each question of a result by its method, for the next round of the call with these parameters.
pub(super) fn answer_all(params: &mut Value, asked: &Value, answer: impl Fn(&str) -> Value) {
    let questions = asked["inputRequests"].as_object();
    let questions = questions.unwrap_or_else(|| panic!("no questions: {asked}"));
    let answers = questions.iter().map(|(key, question)| {
        let method = question["method"].as_str().unwrap();
        (key.clone(), answer(method))
    });
    params["inputResponses"] = answers.collect();
    match asked.get("requestState") {
        Some(state) => params["requestState"] = state.clone(),
        None => _ = params.as_object_mut().unwrap().remove("requestState"),
    }
}

pub(super) async fn questions_are_forwarded(gateways: &Gateways) {
    for (form, gateway) in gateways.versioned() {
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            let client = gateway.client(era, None).await;
            let context = format!("{era:?} {form}");

            let arguments = json!({"message": "Who?"});
            let (result, asked) = call(&client, "b__test_elicitation", arguments).await;
            assert_eq!(asked, ["elicitation/create"], "{context}");
            assert!(text(&result).contains("e@x.org"), "{context}: {result}");

            let arguments = json!({"prompt": "Really?"});
            let (result, asked) = call(&client, "b__test_sampling", arguments).await;
            assert_eq!(asked, ["sampling/createMessage"], "{context}");
            assert_eq!(text(&result), "LLM response: yes", "{context}");

            let input_required = async |name: &str| {
                let tool = format!("b__test_input_required_result_{name}");
                call(&client, &tool, json!({})).await
            };
            let (result, asked) = input_required("list_roots").await;
            assert_eq!(asked, ["roots/list"], "{context}");
            assert!(text(&result).contains("file:///r"), "{context}: {result}");

            // Two questions in one result, and one after the other.
            let (_, asked) = input_required("multiple_inputs").await;
            assert!(asked.len() >= 2, "{context}: {asked:?}");
            let (_, asked) = input_required("multi_round").await;
            assert_eq!(asked.len(), 2, "{context}");
        }
        // A client of the unversioned era cannot be asked.
        let question = json!({"message": "Who?"});
        let refused = gateway.refusal("b__test_elicitation", question).await;
        assert_lacks(&refused, "e@x.org");
    }
}

#[tokio::test]
async fn answer_belongs_to_one_call_and_counts_once() {
    let gateway = Gateway::with(&legacy_fixture()).await;
    let client = gateway.client(EraChoice::Newest, None).await;
    let params = json!({"name": "b__test_elicitation", "arguments": {"message": "Who?"}});
    let asked = client.request("tools/call", &params).await.unwrap();
    let asked: Value = serde_json::from_str(asked.get()).unwrap();
    let questions = asked["inputRequests"].as_object().unwrap();
    let key = questions.keys().next().unwrap();
    // Sent for another tool, and twice for the right one.
    let send = async |name: &str, arguments: Value| {
        let mut params = json!({"name": name, "arguments": arguments});
        params["inputResponses"] = json!({key: accepted("elicitation/create")});
        if let Some(state) = asked.get("requestState") {
            params["requestState"] = state.clone();
        }
        match client.request("tools/call", &params).await {
            Ok(result) => result.get().to_owned(),
            Err(error) => format!("{error:?}"),
        }
    };
    let refused = send("b__test_sampling", json!({"prompt": "x"})).await;
    assert_contains(&refused, "rror");
    let question = json!({"message": "Who?"});
    let result = send("b__test_elicitation", question.clone()).await;
    assert_contains(&result, "e@x.org");
    let again = send("b__test_elicitation", question).await;
    assert_lacks(&again, "e@x.org");
}

#[tokio::test]
async fn task_of_a_backend_becomes_a_task_of_the_gateway() {
    for backend in [stdio_fixture(), legacy_fixture()] {
        let gateway = Gateway::with(&backend).await;
        let client = gateway.client(EraChoice::Newest, None).await;
        let can =
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{},"sampling":{}}"#;
        let capabilities: Arc<RawValue> = RawValue::from_string(can.to_owned()).unwrap().into();
        let ask = async |method: &str, params: Value| -> Value {
            let options = Options::default().capabilities(Arc::clone(&capabilities));
            let answer = client.request_with(method, &params, options).await;
            serde_json::from_str(answer.unwrap().get()).unwrap()
        };
        let arguments = json!({"seconds": 1, "label": "sum"});
        let call = json!({"name": "b__slow_compute", "arguments": arguments});
        let made = ask("tools/call", call).await;
        assert_eq!(made["resultType"], "task", "{made}");
        let id = made["taskId"].clone();
        assert!(id.is_string(), "{made}");
        let done = eventually("the task", async || {
            let task = ask("tasks/get", json!({"taskId": id})).await;
            Some(task).filter(|task| task["status"] == "completed")
        })
        .await;
        assert!(done.to_string().contains("sum: 1 s"), "{done}");
        let end = gateway.ends(1).await.remove(0);
        assert_eq!(end["outcome"], "ok", "{end}");
    }
}
