//! Calls that the client's user has to confirm.

use std::sync::Arc;

use mcp_client::{Client, EraChoice, Handler, Reply, RpcError};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::env::{Folder, Gateway, misbehaving, request, tools_json};
use super::input_requests::answer_all;
use crate::harness::{assert_contains, assert_lacks, wait_until};

const CONFIG: &str =
    "[approvals]\nconfirm = [\"b__gree*\", \"gateway_*\"]\n[backends.b]\nFIXTURE\n";

/// Gives one answer to every question; `None` refuses it with an error.
struct Answer(Option<Value>);

impl Handler for Answer {
    fn request(&self, _: &str, params: Option<&RawValue>) -> Reply {
        assert_is_shown(params.unwrap().get());
        let answer = self.0.as_ref().map(|answer| to_raw_value(answer).unwrap());
        Box::pin(async move { answer.ok_or_else(|| RpcError::new(-1, "no")) })
    }
}

/// Asserts that a question shows the call as it runs.
fn assert_is_shown(question: &str) {
    assert_contains(question, "Allow the call of b__greet");
    assert_contains(question, r#"\"name\": \"Ada\\u{200b}\""#);
    assert_contains(question, "(backend b, effect: reads)");
    assert_contains(question, "The tool's description: ");
}

async fn connect(
    gateway: &Gateway,
    era: EraChoice,
    capabilities: Value,
    answer: Option<Value>,
) -> Client {
    let handler = Arc::new(Answer(answer));
    gateway.client_with(era, capabilities, Some(handler)).await
}

/// Calls `b__greet` with a client of this era, whose user gives this answer. Returns the text of the result.
async fn greet(gateway: &Gateway, era: EraChoice, answer: Option<Value>) -> String {
    let client = connect(gateway, era, json!({"elicitation": {}}), answer.clone()).await;
    let mut params = json!({"name": "b__greet", "arguments": {"name": "Ada\u{200b}"}});
    for _ in 0..2 {
        let result = client.request("tools/call", &params).await;
        let result: Value = match result {
            Ok(result) => serde_json::from_str(result.get()).unwrap(),
            Err(error) => return format!("{error:?}"),
        };
        if result["resultType"] != "input_required" {
            return result.to_string();
        }
        assert_is_shown(&result["inputRequests"].to_string());
        let given = answer.clone().unwrap_or(json!({"action": "cancel"}));
        answer_all(&mut params, &result, |_| given.clone());
    }
    panic!("asked again")
}

#[tokio::test]
async fn only_an_explicit_yes_of_the_user_confirms_a_call() {
    let gateway = Gateway::of(CONFIG).await;
    let accept = |content: Value| Some(json!({"action": "accept", "content": content}));
    let refusals = [
        accept(json!({"confirm": false})),
        accept(json!({"confirm": "true"})),
        accept(json!({"confirm": 1})),
        accept(json!({})),
        Some(json!({"action": "accept"})),
        Some(json!({"action": "decline"})),
        Some(json!({"action": "decline", "content": {"confirm": true}})),
        Some(json!({"action": "cancel", "content": {"confirm": true}})),
        Some(json!({"content": {"confirm": true}})),
        Some(json!({"confirm": true})),
        None,
    ];
    for era in [EraChoice::Legacy, EraChoice::Newest] {
        let answer = greet(&gateway, era, accept(json!({"confirm": true}))).await;
        assert_contains(&answer, "Hello, Ada\u{200b}!");
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
        // Nor is a client asked that can, if its user cannot see the call.
        let client = connect(&gateway, era, json!({"elicitation": {}}), None).await;
        let call = json!({"name": "b__greet", "arguments": {"list": [{"token": "a\u{202e}b"}]}});
        let refused = client.request("tools/call", &call).await.unwrap();
        assert_contains(refused.get(), "looks like a secret");
        // Other tools are not asked about.
        let call = json!({"name": "b__test_simple_text", "arguments": {}});
        let simple = client.request("tools/call", &call).await.unwrap();
        assert_lacks(simple.get(), "isError\":true");
    }
    let arguments = json!({"name": "Ada", "confirm": true});
    let refused = gateway.refusal("b__greet", arguments).await;
    assert_contains(&refused, "has not declared `elicitation`");
    let backend = json!({"backend": "b"});
    let refused = gateway.refusal("gateway_restart", backend).await;
    assert_contains(&refused, "has not declared `elicitation`");
    let facts = gateway.facts_of("gateway.confirmation").await;
    let last = facts.last().unwrap();
    assert_has!(last, {"tool_name": "gateway_restart", "outcome": "not asked"});
    assert_contains(&last["rule"], "approvals.confirm: \"gateway_*\"");
    let outcomes = [
        "confirmed",
        "not confirmed",
        "declined",
        "dismissed",
        "not asked",
    ];
    for outcome in outcomes {
        assert!(
            facts.iter().any(|facts| facts["outcome"] == outcome),
            "{facts:?}"
        );
    }
    let made = gateway.made().await;
    assert_eq!(made, 4, "two confirmed calls and two of another tool");
}

/// Two gateways of one database, of which the second is as good as a restart of the first.
#[tokio::test]
async fn yes_counts_once_at_all_gateways_and_only_for_a_question_that_was_asked() {
    let folder = Folder::new();
    let (key, store) = ("a-key-that-both-gateways-share!!", folder.path("events.db"));
    let args = ["--session-key", key, "--events", &store];
    let one = Gateway::start(Folder::new(), CONFIG, &args).await;
    let other = Gateway::start(Folder::new(), CONFIG, &args).await;
    let mut clients = Vec::new();
    for gateway in [&one, &other] {
        gateway.until("b", "running").await;
        let capabilities = json!({"elicitation": {}});
        clients.push(connect(gateway, EraChoice::Newest, capabilities, None).await);
    }
    // Each of them may get the answer.
    for answered in &clients {
        let call = async |client: &Client, params: &Value| {
            request(client, "tools/call", params.clone()).await
        };
        let mut params = json!({"name": "b__greet", "arguments": {"name": "Ada"}});
        let asked = call(&clients[0], &params).await;
        let yes = json!({"action": "accept", "content": {"confirm": true}});
        answer_all(&mut params, &asked, |_| yes.clone());
        let mut early = params.clone();
        early.as_object_mut().unwrap().remove("requestState");
        let early = call(answered, &early).await;
        assert_eq!(early["resultType"], "input_required", "{early}");
        assert_contains(&call(answered, &params).await, "Hello, Ada!");
        for client in &clients {
            let again = call(client, &params).await;
            assert_eq!(again["resultType"], "input_required", "{again}");
        }
    }
}

#[tokio::test]
async fn yes_is_for_the_tool_as_it_was() {
    let folder = Folder::new();
    let tools = tools_json(&["work", "other"]);
    let child = misbehaving(&["--tools", &folder.write("tools", &tools)]);
    let config = format!("[approvals]\nconfirm = [\"b__work\"]\n[backends.b]\n{child}\n");
    let gateway = Gateway::running(folder, &config).await;
    let capabilities = json!({"elicitation": {}});
    let client = connect(&gateway, EraChoice::Newest, capabilities, None).await;
    let mut params = json!({"name": "b__work", "arguments": {}});
    for is_changed in [false, true] {
        let asked = request(&client, "tools/call", params.clone()).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let yes = json!({"action": "accept", "content": {"confirm": true}});
        answer_all(&mut params, &asked, |_| yes.clone());
        if !is_changed {
            let changed = tools.replacen("Works.", "Pays all of it.", 1);
            gateway.folder.write("tools", &changed);
            gateway.tool("b__other", json!({"change": true})).await;
            wait_until("the changed tool", async || {
                let listed = gateway.result("tools/list", json!({})).await;
                listed.to_string().contains("Pays")
            })
            .await;
        }
    }
    let made = request(&client, "tools/call", params).await;
    assert_contains(&made, "done");
}

/// A store that cannot be opened: nothing is done that a person has to agree to, until it can be.
#[tokio::test]
async fn calls_that_need_a_person_are_refused_without_a_store() {
    let folder = Folder::new();
    let store = folder.path("events.db");
    std::fs::create_dir(&store).unwrap();
    let config = "[approvals]\nconfirm = [\"b__greet\"]\napprove = [\"b__echo\"]\n\
        [backends.b]\nFIXTURE\n[backends.held]\npins = \"hold\"\nFIXTURE\n";
    let gateway = Gateway::start(folder, config, &["--events", &store]).await;
    gateway.until_lists("b__greet", true).await;
    gateway.until("held", "running").await;
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let eras = [EraChoice::Legacy, EraChoice::Newest];
    for era in eras {
        let answer = greet(&gateway, era, Some(yes.clone())).await;
        assert_contains(&answer, "cannot store the answer now. Nothing was done");
        assert_lacks(&answer, "Hello");
    }
    let refused = gateway.refusal("b__echo", json!({"value": 1})).await;
    assert_contains(&refused, "cannot store that now. Nothing was done");
    let refused = gateway.refusal("held__greet", json!({"name": "Ada"})).await;
    assert_contains(
        &refused,
        "held back: the store that knows it cannot be read",
    );
    let told = &gateway.status().await["decisions"];
    assert_contains(told, "calls that need a person are refused");
    gateway.until_ready(503).await;

    std::fs::remove_dir(&store).unwrap();
    gateway.until_lists("held__greet", true).await;
    for era in eras {
        let answer = greet(&gateway, era, Some(yes.clone())).await;
        assert_contains(&answer, "Hello");
    }
    gateway.until_ready(200).await;
}
