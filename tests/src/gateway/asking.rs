//! Backends that ask the client, in all pairs of eras; and tasks.

use std::sync::Arc;

use mcp_client::{Client, EraChoice, Handler, Options, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::front::{Front, Manner};
use super::lab::{Gateway, fixture, text};
use crate::harness::{Server, eventually};

pub(super) type Seen = mpsc::UnboundedReceiver<(String, Value)>;

/// Keeps what it gets, and agrees to everything.
struct Recorder(mpsc::UnboundedSender<(String, Value)>);

pub(super) fn recorder() -> (Arc<dyn Handler>, Seen) {
    let (sender, seen) = mpsc::unbounded_channel();
    (Arc::new(Recorder(sender)), seen)
}

fn answer(method: &str) -> Value {
    match method {
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
        }
        "elicitation/create" => {
            json!({"action": "accept", "content": {"username": "u", "email": "e@x.org", "name": "Ada", "color": "red", "step1": "x", "step2": "y", "confirmed": true}})
        }
        _ => json!({"roots": [{"uri": "file:///r", "name": "r"}]}),
    }
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self.0.send((method.to_owned(), params.unwrap_or_default()));
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        self.notification(method, params);
        let answer = to_raw_value(&answer(method)).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

/// Calls a tool, and answers whatever is asked meanwhile or in results. The result, and what was
/// asked.
pub(super) async fn call(client: &Client, name: &str, arguments: Value) -> (Value, Vec<String>) {
    let mut params = json!({"name": name, "arguments": arguments});
    let mut asked = Vec::new();
    for _ in 0..10 {
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let result = client.request_with("tools/call", &params, options).await;
        let result = result.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let result: Value = serde_json::from_str(result.get()).unwrap();
        while let Ok((method, _)) = seen.try_recv() {
            asked.push(method);
        }
        if result["resultType"] != "input_required" {
            return (result, asked);
        }
        let mut answers = json!({});
        for (key, request) in result["inputRequests"].as_object().unwrap() {
            let method = request["method"].as_str().unwrap();
            asked.push(method.to_owned());
            answers[key] = answer(method);
        }
        params["inputResponses"] = answers;
        match result.get("requestState") {
            Some(state) => params["requestState"] = state.clone(),
            None => _ = params.as_object_mut().unwrap().remove("requestState"),
        }
    }
    panic!("{name} asks for ever");
}

#[tokio::test]
async fn questions_pass_in_all_pairs_of_eras() {
    let server = Server::start("mcp-conformance", &[]).await;
    let old = Front::of(&server.url, Manner::Old).await;
    let forms = [
        fixture(&["--stdio"]),
        fixture(&["old"]),
        format!("url = {:?}", server.url),
        format!("url = {:?}", old.url),
    ];
    for form in &forms {
        let gateway = Gateway::with(form).await;
        for dialect in [EraChoice::Newest, EraChoice::Legacy] {
            let client = gateway.client(dialect, None).await;
            let place = format!("{dialect:?} {form}");

            let arguments = json!({"message": "Who?"});
            let (result, asked) = call(&client, "b__test_elicitation", arguments).await;
            assert_eq!(asked, ["elicitation/create"], "{place}");
            assert!(text(&result).contains("e@x.org"), "{place}: {result}");

            let arguments = json!({"prompt": "Really?"});
            let (result, asked) = call(&client, "b__test_sampling", arguments).await;
            assert_eq!(asked, ["sampling/createMessage"], "{place}");
            assert_eq!(text(&result), "LLM response: yes", "{place}");

            let (result, asked) = call(
                &client,
                "b__test_input_required_result_list_roots",
                json!({}),
            )
            .await;
            assert_eq!(asked, ["roots/list"], "{place}");
            assert!(text(&result).contains("file:///r"), "{place}: {result}");

            // Two questions at once, and one after the other.
            let (_, asked) = call(
                &client,
                "b__test_input_required_result_multiple_inputs",
                json!({}),
            )
            .await;
            assert!(asked.len() >= 2, "{place}: {asked:?}");
            let (_, asked) = call(
                &client,
                "b__test_input_required_result_multi_round",
                json!({}),
            )
            .await;
            assert_eq!(asked.len(), 2, "{place}");
        }
    }
}

#[tokio::test]
async fn the_answer_of_one_client_is_none_of_anothers() {
    let gateway = Gateway::with(&fixture(&["old"])).await;
    let client = gateway.client(EraChoice::Newest, None).await;
    let params = json!({"name": "b__test_elicitation", "arguments": {"message": "Who?"}});
    let asked = client.request("tools/call", &params).await.unwrap();
    let asked: Value = serde_json::from_str(asked.get()).unwrap();
    let key = asked["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    // The same answer for another tool, and twice for the right one.
    let with = |name: &str, arguments: Value| {
        let mut params = json!({"name": name, "arguments": arguments});
        params["inputResponses"] = json!({&key: answer("elicitation/create")});
        if let Some(state) = asked.get("requestState") {
            params["requestState"] = state.clone();
        }
        params
    };
    let other = with("b__test_sampling", json!({"prompt": "x"}));
    let refused = client.request("tools/call", &other).await;
    let refused = refused.map_or_else(
        |error| format!("{error:?}"),
        |result| result.get().to_owned(),
    );
    assert!(refused.contains("rror"), "{refused}");
    let right = with("b__test_elicitation", json!({"message": "Who?"}));
    let result = client.request("tools/call", &right).await.unwrap();
    assert!(result.get().contains("e@x.org"), "{result}");
    let again = client.request("tools/call", &right).await;
    let again = again.map_or_else(
        |error| format!("{error:?}"),
        |result| result.get().to_owned(),
    );
    assert!(!again.contains("e@x.org"), "{again}");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_so() {
    for form in [fixture(&["--stdio"]), fixture(&["old"])] {
        let gateway = Gateway::with(&form).await;
        let answer = gateway
            .answer("b__test_elicitation", json!({"message": "Who?"}))
            .await;
        let words = answer.to_string();
        assert!(
            answer.get("error").is_some() || answer["result"]["isError"] == true,
            "{words}"
        );
        assert!(!words.contains("e@x.org"), "{words}");
    }
}

#[tokio::test]
async fn tools_that_can_be_tasks_are_tasks_here_too() {
    for form in [fixture(&["--stdio"]), fixture(&["old"])] {
        let gateway = Gateway::with(&form).await;
        let client = gateway.client(EraChoice::Newest, None).await;
        let can =
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{},"sampling":{}}"#;
        let capabilities: Arc<RawValue> = RawValue::from_string(can.to_owned()).unwrap().into();
        let ask = async |method: &str, params: Value| -> Value {
            let options = Options::default().capabilities(Arc::clone(&capabilities));
            let answer = client.request_with(method, &params, options).await;
            serde_json::from_str(
                answer
                    .unwrap_or_else(|error| panic!("{method}: {error:?}"))
                    .get(),
            )
            .unwrap()
        };
        let arguments = json!({"seconds": 1, "label": "sum"});
        let made = ask(
            "tools/call",
            json!({"name": "b__slow_compute", "arguments": arguments}),
        )
        .await;
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
