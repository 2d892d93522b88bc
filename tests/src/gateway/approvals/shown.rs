//! A person sees the call as it runs, wherever the person decides.

use std::sync::{Arc, Mutex};

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{Operated, answer};
use crate::gateway::env::{CALL_TIMEOUT, Folder, Gateway, stdio_fixture};
use crate::gateway::roles::page::Viewer;
use crate::harness::{FakeService, Response, assert_contains, assert_lacks, eventually};

/// The arguments of calls, and a part of what a person sees; `None` if the call is refused.
fn cases() -> Vec<(Value, Option<&'static str>)> {
    vec![
        (
            json!({"command": "ls\u{202e} fr- mr"}),
            Some(r#""ls\u{202e} fr- mr""#),
        ),
        (
            json!({"command": "a\u{200b}b\u{e0041}\u{fe0f}"}),
            Some(r#""a\u{200b}b\u{e0041}\u{fe0f}""#),
        ),
        (
            json!({"command": "a\rb\u{9b}\u{1b}[2K"}),
            Some(r#""a\rb\u{9b}\u001b[2K""#),
        ),
        (json!({"\u{2066}x": 1}), Some(r#""\u{2066}x": 1"#)),
        (
            json!({"password": "hunter2-of-ada"}),
            Some(r#""*** (14 characters are hidden)""#),
        ),
        (json!({"command": "login", "password": "$(rm -rf /)"}), None),
        (
            json!({"command": "token=`rm -rf /srv/data`; echo done"}),
            None,
        ),
        (json!({"list": [{"token": "a\u{202e}b"}]}), None),
    ]
}

const OLGA: &str = "olga-has-a-token-of-32-characters!!";

#[tokio::test]
async fn operator_sees_what_runs_on_the_command_line_the_page_and_the_webhook() {
    let program = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let folder = Folder::new();
    let tokens = folder.write("tokens", &format!("olga {OLGA}\n"));
    let lines = format!(
        "webhook = \"{}/hook\"\n[roles.operator]\nallow = [\"b__*\"]\nown = [\"approve\"]\n[principals]\nolga = \"operator\"",
        program.url
    );
    let gateway = Operated::with(folder, &lines, &["--token-file", &tokens]).await;
    let page = Viewer::new(&gateway.0, OLGA);
    for (value, expected) in cases() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "b__echo", "arguments": {"value": value}}});
        let request = crate::harness::http_client().post(&gateway.0.server.url);
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {OLGA}"));
        let call = request.body(call.to_string()).send();
        let Some(expected) = expected else {
            let refusal = call.await.unwrap().text().await.unwrap();
            for part in ["looks like a secret", "`value.", "Nothing was done"] {
                assert_contains(&refusal, part);
            }
            continue;
        };
        let call = tokio::spawn(call);
        let id = gateway.waiting().await;
        let (_, shown) = gateway.command(&["show", &id]).await;
        assert_contains(&shown, expected);
        let (_, waiting) = page.data("approvals", json!({})).await;
        let waiting: Value = serde_json::from_str(&waiting).unwrap();
        assert_contains(waiting["calls"][0]["arguments"].as_str().unwrap(), expected);
        let told = eventually("the webhook", async || {
            let told = program.requests().pop()?;
            let told: Value = serde_json::from_slice(&told.body).unwrap();
            (told["id"] == json!(id)).then_some(told)
        })
        .await;
        assert_contains(told["arguments"].as_str().unwrap(), expected);
        for place in [&shown, &waiting.to_string(), &told.to_string()] {
            assert_lacks(place, "hunter2");
        }
        // On demand the hidden values are shown to one who may decide, and nothing is decided by it.
        let (url, path) = (&gateway.0.server.url, format!("/approvals/{id}"));
        let show = json!({"answer": "show"});
        let (status, whole) = answer(url, &path, Some(OLGA), show.clone()).await;
        assert_eq!(status, 200, "{whole}");
        let (_, on_page) = page
            .data("decide-call", json!({"id": id, "answer": "show"}))
            .await;
        assert_eq!(on_page, whole);
        let whole: Value = serde_json::from_str(&whole).unwrap();
        let whole = whole["arguments"].as_str().unwrap();
        match value["password"].as_str() {
            Some(password) => assert_contains(whole, password),
            None => assert_contains(whole, expected),
        }
        let token = json!({"answer": "show", "token": told["answer"]["token"]});
        assert_eq!(answer(url, &path, None, token).await.0, 403);
        assert_eq!(answer(url, &path, None, show).await.0, 401);
        assert_eq!(gateway.command(&["refuse", &id]).await.0, 0);
        let answer = call.await.unwrap().unwrap().text().await.unwrap();
        assert_contains(&answer, "who has refused");
    }
}

/// Keeps the questions, and says no.
struct Refusing(Arc<Mutex<Vec<String>>>);

impl Handler for Refusing {
    fn request(&self, _: &str, params: Option<&RawValue>) -> Reply {
        let params: Value = serde_json::from_str(params.unwrap().get()).unwrap();
        let message = params["message"].as_str().unwrap().to_owned();
        self.0.lock().unwrap().push(message);
        Box::pin(async { Ok(to_raw_value(&json!({"action": "decline"})).unwrap()) })
    }
}

#[tokio::test]
async fn user_is_asked_about_what_runs() {
    let config = format!(
        "[approvals]\nconfirm = [\"b__echo\"]\n[backends.b]\n{}\n",
        stdio_fixture()
    );
    let gateway = Gateway::running(Folder::new(), &config).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let client = Client::builder()
        .era(EraChoice::Legacy)
        .timeout(CALL_TIMEOUT);
    let client = client.handler(Arc::new(Refusing(Arc::clone(&asked))));
    let client = client
        .http(Endpoint::new(&gateway.server.url).unwrap())
        .unwrap();
    let info = ClientInfo::new("tests", "1").with_capabilities(json!({"elicitation": {}}));
    client.connect(&info).await.unwrap();
    for (value, expected) in cases() {
        let call = json!({"name": "b__echo", "arguments": {"value": value}});
        let answer = client.request("tools/call", &call).await;
        let question = asked.lock().unwrap().pop();
        match expected {
            Some(expected) => {
                assert_contains(&question.unwrap(), expected);
                assert_contains(&format!("{answer:?}"), "declined");
            }
            None => {
                assert_eq!(question, None);
                assert_contains(&format!("{answer:?}"), "looks like a secret");
            }
        }
    }
}
