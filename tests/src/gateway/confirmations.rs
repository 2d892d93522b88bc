//! Calls that the client's user has to confirm.

use std::sync::Arc;

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler, Reply, RpcError};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::env::{CALL_TIMEOUT, Folder, Gateway, failure, stdio_fixture};
use crate::harness::{assert_contains, assert_lacks};

/// Gives one answer to every question; `None` refuses it with an error.
struct Answer(Option<Value>);

impl Handler for Answer {
    fn request(&self, _: &str, params: Option<&RawValue>) -> Reply {
        assert_contains(params.unwrap().get(), "Allow the call of b__greet");
        let answer = self.0.as_ref().map(|answer| to_raw_value(answer).unwrap());
        Box::pin(async move { answer.ok_or_else(|| RpcError::new(-1, "no")) })
    }
}

async fn connect(
    gateway: &Gateway,
    era: EraChoice,
    capabilities: Value,
    answer: Option<Value>,
) -> Client {
    let builder = Client::builder().era(era).timeout(CALL_TIMEOUT);
    let builder = builder.handler(Arc::new(Answer(answer)));
    let client = builder
        .http(Endpoint::new(&gateway.server.url).unwrap())
        .unwrap();
    let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
    client.connect(&info).await.unwrap();
    client
}

/// Calls `b__greet` with a client of this era, whose user gives this answer. Returns the text of the result.
async fn greet(gateway: &Gateway, era: EraChoice, answer: Option<Value>) -> String {
    let client = connect(gateway, era, json!({"elicitation": {}}), answer.clone()).await;
    let mut params = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
    for _ in 0..2 {
        let result = client.request("tools/call", &params).await;
        let result: Value = match result {
            Ok(result) => serde_json::from_str(result.get()).unwrap(),
            Err(error) => return format!("{error:?}"),
        };
        if result["resultType"] != "input_required" {
            return result.to_string();
        }
        let asked = result["inputRequests"].as_object().unwrap();
        let (key, request) = asked.iter().next().unwrap();
        assert_contains(&request.to_string(), "Allow the call of b__greet");
        params["inputResponses"] =
            json!({key: answer.clone().unwrap_or(json!({"action": "cancel"}))});
        params["requestState"] = result["requestState"].clone();
    }
    panic!("asked again")
}

#[tokio::test]
async fn only_an_explicit_yes_of_the_user_confirms_a_call() {
    let config = "[approvals]\nconfirm = [\"b__gree*\"]\n";
    let config = format!("{config}[backends.b]\n{}\n", stdio_fixture());
    let gateway = Gateway::running(Folder::new(), &config).await;
    let accept = |content: Value| Some(json!({"action": "accept", "content": content}));
    let refusals = [
        accept(json!({"confirm": false})),
        accept(json!({"confirm": "true"})),
        accept(json!({})),
        Some(json!({"action": "accept"})),
        Some(json!({"action": "decline"})),
        Some(json!({"action": "cancel", "content": {"confirm": true}})),
        Some(json!({"confirm": true})),
        None,
    ];
    for era in [EraChoice::Legacy, EraChoice::Newest] {
        let answer = greet(&gateway, era, accept(json!({"confirm": true}))).await;
        assert_contains(&answer, "Hello, Ada!");
        for refusal in &refusals {
            let answer = greet(&gateway, era, refusal.clone()).await;
            assert_contains(&answer, "Nothing was done");
            assert_lacks(&answer, "Hello");
        }
        // A client that cannot ask; the model's arguments count for nothing.
        let client = connect(&gateway, era, json!({}), None).await;
        let arguments =
            json!({"name": "Ada", "confirm": true, "inputResponses": {"confirm": true}});
        let call = json!({"name": "b__greet", "arguments": arguments});
        let refused = client.request("tools/call", &call).await.unwrap();
        assert_contains(refused.get(), "has not declared `elicitation`");
        assert_contains(refused.get(), "\"isError\":true");
        // Other tools are not asked about.
        let call = json!({"name": "b__test_simple_text", "arguments": {}});
        assert_lacks(
            client.request("tools/call", &call).await.unwrap().get(),
            "isError\":true",
        );
    }
    let arguments = json!({"name": "Ada", "confirm": true});
    let refused = failure(&gateway.answer("b__greet", arguments).await);
    assert_contains(&refused, "has not declared `elicitation`");
    let events = gateway.events_of("gateway.confirmation").await.to_string();
    for outcome in [
        "confirmed",
        "not confirmed",
        "declined",
        "dismissed",
        "not asked",
    ] {
        assert_contains(&events, &format!("\"outcome\":\"{outcome}\""));
    }
    let made = gateway
        .calls()
        .await
        .iter()
        .filter(|call| call["outcome"] == "ok")
        .count();
    assert_eq!(made, 4, "two confirmed calls and two of another tool");
}

/// Answers a question of the modern era that was asked, or was not.
#[tokio::test]
async fn yes_counts_once_and_only_for_a_question_that_was_asked() {
    let config = "[approvals]\nconfirm = [\"b__gree*\"]\n";
    let config = format!("{config}[backends.b]\n{}\n", stdio_fixture());
    let gateway = Gateway::running(Folder::new(), &config).await;
    let capabilities = json!({"elicitation": {}});
    let client = connect(&gateway, EraChoice::Newest, capabilities, None).await;
    let call = async |params: &Value| -> Value {
        let result = client.request("tools/call", params).await.unwrap();
        serde_json::from_str(result.get()).unwrap()
    };
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let first = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
    let asked = call(&first).await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next();
    let answers = json!({key.unwrap(): yes});

    let mut early = first.clone();
    early["inputResponses"] = answers.clone();
    assert_eq!(call(&early).await["resultType"], "input_required");

    let mut answered = early;
    answered["requestState"] = asked["requestState"].clone();
    assert_contains(&call(&answered).await.to_string(), "Hello, Ada!");
    let again = call(&answered).await;
    assert_eq!(again["resultType"], "input_required", "{again}");
}

/// The gateways of one database, of which the second is as good as a restart of the first.
#[tokio::test]
async fn yes_counts_once_for_all_gateways_of_a_database() {
    let config = "[approvals]\nconfirm = [\"b__gree*\"]\n";
    let config = format!("{config}[backends.b]\n{}\n", stdio_fixture());
    let folder = Folder::new();
    let store = folder.path("events.db");
    let args = [
        "--session-key",
        "a-key-that-both-gateways-share!!",
        "--events",
        &store,
    ];
    let one = Gateway::start(Folder::new(), &config, &args).await;
    let other = Gateway::start(Folder::new(), &config, &args).await;
    let mut clients = Vec::new();
    for gateway in [&one, &other] {
        gateway.until("b", "running").await;
        let capabilities = json!({"elicitation": {}});
        clients.push(connect(gateway, EraChoice::Newest, capabilities, None).await);
    }
    let call = async |client: &Client, params: &Value| -> Value {
        let result = client.request("tools/call", params).await.unwrap();
        serde_json::from_str(result.get()).unwrap()
    };
    let mut params = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
    let asked = call(&clients[0], &params).await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next();
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    params["inputResponses"] = json!({key.unwrap(): yes});
    params["requestState"] = asked["requestState"].clone();
    // Either of them may get the answer.
    assert_contains(&call(&clients[1], &params).await.to_string(), "Hello, Ada!");
    for client in &clients {
        let again = call(client, &params).await;
        assert_eq!(again["resultType"], "input_required", "{again}");
    }
}

#[tokio::test]
async fn restart_of_a_backend_can_need_a_yes_of_the_user() {
    let config = "[approvals]\nconfirm = [\"*\"]\n";
    let config = format!("{config}[backends.b]\n{}\n", stdio_fixture());
    let gateway = Gateway::running(Folder::new(), &config).await;
    let refused = failure(
        &gateway
            .answer("gateway_restart", json!({"backend": "b"}))
            .await,
    );
    assert_contains(&refused, "has not declared `elicitation`");
    let events = gateway.events_of("gateway.confirmation").await.to_string();
    assert_contains(&events, "\"tool_name\":\"gateway_restart\"");
}
