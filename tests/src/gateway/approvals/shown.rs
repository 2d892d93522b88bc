//! A person sees the call as it runs, wherever the person decides.

use serde_json::{Value, json};

use super::{Operated, ROLES, answer};
use crate::gateway::roles::page::Viewer;
use crate::harness::{FakeService, Response, assert_contains, assert_lacks, eventually};

/// The arguments of calls, and a part of what a person sees; without it the call is refused.
const CASES: &str = r#"
{"command": "ls\u202e fr- mr"} => "ls\u{202e} fr- mr"
{"command": "a\u200bb\udb40\udc41\ufe0f"} => "a\u{200b}b\u{e0041}\u{fe0f}"
{"command": "a\rb\u009b\u001b[2K"} => "a\rb\u{9b}\u001b[2K"
{"\u2066x": 1} => "\u{2066}x": 1
{"password": "hunter2-of-ada"} => "*** (14 characters are hidden)"
{"command": "login", "password": "$(rm -rf /)"}
{"command": "token=`rm -rf /srv/data`; echo done"}
{"list": [{"token": "a\u202eb"}]}
"#;

fn cases() -> impl Iterator<Item = (Value, Option<&'static str>)> {
    CASES.trim().lines().map(|line| {
        let (value, shown) = line
            .split_once(" => ")
            .map_or((line, None), |(value, shown)| (value, Some(shown)));
        (serde_json::from_str(value).unwrap(), shown)
    })
}

#[tokio::test]
async fn operator_sees_what_runs_on_the_command_line_the_page_and_the_webhook() {
    let program = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let hook = format!("webhook = \"{}/hook\"\n{ROLES}", program.url);
    let gateway = Operated::guarded(&hook).await;
    let page = Viewer::of(&gateway.0, "olga");
    for (value, expected) in cases() {
        let call = gateway
            .0
            .call_by("olga", "b__echo", json!({"value": value}));
        let Some(expected) = expected else {
            let refusal = call.await.body;
            for part in ["looks like a secret", "`value.", "Nothing was done"] {
                assert_contains(&refusal, part);
            }
            continue;
        };
        let refuse = async {
            let id = gateway.waiting().await;
            let told = eventually("the webhook", async || {
                let told = program.requests().pop()?.json();
                (told["id"] == id).then_some(told)
            })
            .await;
            check_what_is_shown(&gateway, &page, &told, &value, expected).await;
            assert_eq!(gateway.command(&["refuse", &id]).await.0, 0);
        };
        let (answer, ()) = tokio::join!(call, refuse);
        assert_contains(&answer.body, "who has refused");
    }
}

/// `told` is what the webhook got.
async fn check_what_is_shown(
    gateway: &Operated,
    page: &Viewer,
    told: &Value,
    value: &Value,
    expected: &str,
) {
    let id = told["id"].as_str().unwrap();
    let (_, shown) = gateway.command(&["show", id]).await;
    assert_contains(&shown, expected);
    let (_, waiting) = page.data("approvals", json!({})).await;
    let waiting: Value = serde_json::from_str(&waiting).unwrap();
    assert_contains(&waiting["calls"][0]["arguments"], expected);
    assert_contains(&told["arguments"], expected);
    let [effect, description] = ["effect", "description"].map(|part| told[part].as_str().unwrap());
    assert!(!effect.is_empty(), "{told}");
    for place in [&shown, &waiting.to_string(), &told.to_string()] {
        assert_lacks(place, "hunter2");
        for known in ["approvals.approve", effect, description] {
            assert_contains(place, known);
        }
    }
    // On demand the hidden values are shown to one who may decide, and nothing is decided by it.
    let (url, path) = (&gateway.0.url, format!("/approvals/{id}"));
    let show = json!({"answer": "show"});
    let (status, whole) = answer(url, &path, Some("olga"), show.clone()).await;
    assert_eq!(status, 200, "{whole}");
    let on_page = json!({"id": id, "answer": "show"});
    assert_eq!(page.data("decide-call", on_page).await.1, whole);
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_contains(
        &whole["arguments"],
        value["password"].as_str().unwrap_or(expected),
    );
    let token = json!({"answer": "show", "token": told["answer"]["token"]});
    assert_eq!(answer(url, &path, None, token).await.0, 403);
    assert_eq!(answer(url, &path, None, show).await.0, 401);
}
