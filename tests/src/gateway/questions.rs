//! Questions and log messages of backends that name no call: each reaches its own caller or no caller.

use std::sync::Arc;

use futures_util::future::join_all;
use mcp_client::{Client, EraChoice, Handler, Options, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::env::{Folder, Gateway, misbehaving, request, tokens};
use super::input_requests::answer_all;
use super::stdio_bridge::StdioBridge;
use crate::harness::{
    assert_contains, assert_lacks, eventually, initialize, post_message, rpc_call, wait_until,
};

/// A client that answers questions with its name.
pub(super) struct Person {
    name: &'static str,
    client: Client,
}

/// Answers with its name, and records questions and log messages.
struct Answers(&'static str, mpsc::UnboundedSender<String>);

impl Handler for Answers {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
        assert_eq!(method, "notifications/message");
        let _ = self.1.send(format!("log {}", params["data"]));
    }

    fn request(&self, _: &str, params: Option<&RawValue>) -> Reply {
        let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
        let _ = self.1.send(format!("asked {}", params["message"]));
        let answer = to_raw_value(&answer(self.0)).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

fn answer(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

impl Person {
    /// With its token, also where the gateway has none.
    pub(super) async fn connect(gateway: &Gateway, era: EraChoice, name: &'static str) -> Self {
        let client = gateway.client_by(name, era, None).await;
        Self { name, client }
    }

    /// Calls `work`. Returns the text of the result or error, and the messages that came meanwhile.
    pub(super) async fn call(&self, arguments: Value) -> (String, Vec<String>) {
        let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
        let mut params = json!({"name": "b__work", "arguments": arguments, "_meta": meta});
        let (sender, mut messages) = mpsc::unbounded_channel();
        let text = loop {
            let handler = Arc::new(Answers(self.name, sender.clone()));
            let options = Options::default().handler(handler);
            let result = self.client.request_with("tools/call", &params, options);
            let result: Value = match result.await {
                Ok(result) => serde_json::from_str(result.get()).unwrap(),
                Err(error) => break format!("{error:?}"),
            };
            if result["resultType"] != "input_required" {
                break result["content"][0]["text"].as_str().unwrap().to_owned();
            }
            for question in result["inputRequests"].as_object().unwrap().values() {
                let _ = sender.send(format!("asked {}", question["params"]["message"]));
            }
            answer_all(&mut params, &result, |_| answer(self.name));
        };
        drop(sender);
        let mut seen = Vec::new();
        while let Some(message) = messages.recv().await {
            seen.push(message);
        }
        (text, seen)
    }

    /// Ends its session.
    pub(super) async fn close(&self) {
        self.client.close().await;
    }

    /// Asserts that the backend asks this client, and gets its answer.
    pub(super) async fn assert_is_asked(&self, question: &str) {
        let (text, seen) = self.call(json!({"ask": question})).await;
        assert_contains(&text, self.name);
        let named = json!(format!("Backend b asks: {question}"));
        let question = json!(question);
        assert_eq!(seen, [format!("log {question}"), format!("asked {named}")]);
    }

    /// Asserts that a question that may be for another caller reaches no caller.
    async fn assert_is_not_asked(&self) {
        let (text, seen) = self.call(json!({"ask": "What is your secret?"})).await;
        assert_contains(&text, "not certain");
        assert_contains(&text, r#"`isolation = \"session\"`"#);
        assert_eq!(seen, [""; 0], "{text}");
    }
}

/// The backend `b` over stdio or HTTP, whose child asks and logs its input in `journal`.
pub(super) async fn asking(folder: &Folder, over_http: bool) -> (String, Option<StdioBridge>) {
    let journal = folder.path("journal");
    let args = ["asks", "--journal", &journal];
    if !over_http {
        return (misbehaving(&args), None);
    }
    let bridge = StdioBridge::start(&[&["misbehaving"][..], &args].concat()).await;
    (format!("url = {:?}", bridge.url), Some(bridge))
}

/// A way to leave a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    /// `notifications/cancelled`, or in the modern era the end of the stream.
    Cancel,
    /// The end of the connection, which before the modern era does not cancel the call.
    Disconnect,
    /// The timeout of the backend.
    Timeout,
}

#[tokio::test]
async fn question_of_a_call_that_was_left_reaches_no_other_caller() {
    let ways = [
        (EraChoice::Newest, Leave::Cancel),
        (EraChoice::Newest, Leave::Timeout),
        (EraChoice::Legacy, Leave::Cancel),
        (EraChoice::Legacy, Leave::Disconnect),
        (EraChoice::Legacy, Leave::Timeout),
    ];
    let rows = [false, true].map(|over_http| ways.map(|(era, leave)| (over_http, era, leave)));
    join_all(rows.concat().into_iter().map(leave)).await;
}

async fn leave((over_http, era, leave): (bool, EraChoice, Leave)) {
    let folder = Folder::new();
    let (target, _bridge) = asking(&folder, over_http).await;
    // Long enough for the other calls on a busy machine.
    let timeout = if leave == Leave::Timeout {
        "15s"
    } else {
        "60s"
    };
    let config = format!("[backends.b]\n{target}\ntimeout = {timeout:?}\n");
    let gateway = Gateway::running(folder, &config).await;
    let bob = Person::connect(&gateway, era, "bob").await;
    bob.assert_is_asked("Alone?").await;
    let alice = Person::connect(&gateway, era, "alice").await;
    match leave {
        Leave::Timeout => {
            let (text, _) = alice.call(json!({"hold": true})).await;
            assert_contains(&text, "did not answer within 15 s");
        }
        Leave::Cancel | Leave::Disconnect => {
            let url = gateway.url.clone();
            let call = tokio::spawn(async move {
                match leave {
                    Leave::Disconnect => hold_in_session(&url).await,
                    _ => drop(alice.call(json!({"hold": true})).await),
                }
            });
            gateway.folder.until_counts("journal", "hold", 1).await;
            call.abort();
        }
    }
    if leave != Leave::Disconnect {
        gateway
            .folder
            .until_counts("journal", "notifications/cancelled", 1)
            .await;
    }
    bob.assert_is_not_asked().await;
    let status = gateway.backend("b").await;
    assert_has!(status, {"refused_questions": 1, "unattributed_logs": 1});
    assert_contains(&status["advice"], "`isolation = ");
    let counted = r#"mcp_gateway_backend_refused_questions_total{backend="b"} 1"#;
    assert_contains(&gateway.metrics().await, counted);
    gateway.wait_for_log("refused a question").await;
    assert_contains(&gateway.log(), "`isolation = ");
}

/// A client of 2026-07-28 that never answers keeps its question for ten minutes, unless another client of the same process
/// has to be asked.
#[tokio::test]
async fn question_without_an_answer_does_not_keep_others_from_being_asked() {
    let folder = Folder::new();
    let (target, _) = asking(&folder, false).await;
    let config = format!("[backends.b]\n{target}\ntimeout = \"2s\"\n");
    let gateway = Gateway::running(folder, &config).await;
    let alice = gateway.client(EraChoice::Modern, None).await;
    let call = json!({"name": "b__work", "arguments": {"ask": "Alice?"}});
    let asked = request(&alice, "tools/call", call).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let bob = Person::connect(&gateway, EraChoice::Newest, "bob").await;
    wait_until("the question to bob", async || {
        bob.call(json!({"ask": "Bob?"})).await.0.contains("bob")
    })
    .await;
}

/// Calls `work` in a session of the legacy era, without `notifications/cancelled` at the end.
async fn hold_in_session(url: &str) {
    let hello = post_message(url, &[], &initialize("2025-06-18")).await;
    let session = hello.headers["mcp-session-id"].to_str().unwrap();
    let call = rpc_call("b__work", json!({"hold": true}));
    post_message(url, &[("mcp-session-id", session)], &call).await;
}

#[tokio::test]
async fn one_caller_is_asked_during_several_calls() {
    for over_http in [false, true] {
        let folder = Folder::new();
        let (target, _bridge) = asking(&folder, over_http).await;
        let gateway = Gateway::running(folder, &format!("[backends.b]\n{target}\n")).await;
        let alice = Person::connect(&gateway, EraChoice::Legacy, "alice").await;
        // One that she has cancelled and one that still runs.
        let hold = || {
            let call = json!({"name": "b__work", "arguments": {"hold": true}});
            let client = alice.client.clone();
            tokio::spawn(async move { client.request("tools/call", &call).await })
        };
        let [cancelled, _running] = [hold(), hold()];
        gateway.folder.until_counts("journal", "hold", 2).await;
        cancelled.abort();
        gateway
            .folder
            .until_counts("journal", "notifications/cancelled", 1)
            .await;
        let questions = ["One?", "Two?", "Three?"];
        let asked = questions.map(|question| alice.call(json!({"ask": question})));
        for (text, _) in join_all(asked).await {
            assert_contains(&text, "alice");
        }
    }
}

/// A backend that quotes what a person has answered does not bring it into the log.
#[tokio::test]
async fn answer_in_the_text_of_a_failure_is_not_recorded() {
    let folder = Folder::new();
    let (target, _) = asking(&folder, false).await;
    let config = format!("[backends.b]\n{target}\n");
    let gateway = Gateway::running(folder, &config).await;
    for (n, era) in [(0, EraChoice::Legacy), (1, EraChoice::Newest)] {
        let person = Person::connect(&gateway, era, "ottilie").await;
        let (text, _) = person.call(json!({"ask": "Who?"})).await;
        assert_contains(&text, "ottilie");
        let failed = eventually("the event", async || {
            let mut failed = gateway.calls().await;
            failed.retain(|facts| facts["kind"] == "tool_error");
            (failed.len() > n).then_some(failed)
        })
        .await;
        let error = failed[n]["error"].as_str().unwrap();
        assert_lacks(error, "ottilie");
        assert_contains(error, "***");
    }
}

/// Two agents may use one token: neither gets a question that may be the other's.
#[tokio::test]
async fn clients_with_one_token_are_not_taken_for_one() {
    for over_http in [false, true] {
        let folder = Folder::new();
        let (target, _bridge) = asking(&folder, over_http).await;
        let tokens = folder.write("tokens", &tokens(&["alice"]));
        let args = ["--token-file", tokens.as_str()];
        let config = format!("[backends.b]\n{target}\n");
        let gateway = Gateway::start(folder, &config, &args).await;
        let connect = || Person::connect(&gateway, EraChoice::Newest, "alice");
        let (one, other) = (connect().await, connect().await);
        let until_asked = async || {
            wait_until("b to run", async || {
                let (text, _) = other.call(json!({"ask": "Alone?"})).await;
                text.contains("accept")
            })
            .await;
        };
        until_asked().await;
        let held = tokio::spawn(async move { drop(one.call(json!({"hold": true})).await) });
        gateway.folder.until_counts("journal", "hold", 1).await;
        other.assert_is_not_asked().await;
        held.abort();
        gateway
            .folder
            .until_counts("journal", "notifications/cancelled", 1)
            .await;
        let (text, _) = other.call(json!({"ask": "Mine?"})).await;
        for setting in ["`isolation = ", "`--token-file`", "`gateway_restart`"] {
            assert_contains(&text, setting);
        }
        let restart = json!({"name": "gateway_restart", "arguments": {"backend": "b"}});
        other.client.request("tools/call", &restart).await.unwrap();
        until_asked().await;
    }
}
