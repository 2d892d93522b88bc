//! The page shows and does what the role of its viewer allows, and nothing else opens it.

use serde_json::{Value, json};

use super::{TOKENS, start, start_with};
use crate::gateway::approvals::answer;
use crate::gateway::env::{Folder, Gateway, bearer, tokens};
use crate::harness::{
    Reply, assert_contains, assert_lacks, eventually, post_message, rpc_call, wait_until,
};

/// A person with a token, on the page of a gateway.
pub(in crate::gateway) struct Viewer {
    origin: String,
    bearer: String,
}

impl Viewer {
    pub(in crate::gateway) fn of(gateway: &Gateway, principal: &str) -> Self {
        Self {
            origin: gateway.url.replace("/mcp", ""),
            bearer: bearer(principal),
        }
    }

    async fn send(&self, path: &str, body: &Value) -> Reply {
        let url = format!("{}/page/{path}", self.origin);
        let headers = [
            ("origin", &*self.origin),
            ("sec-fetch-site", "same-origin"),
            ("authorization", &*self.bearer),
        ];
        post_message(&url, &headers, body).await
    }

    /// The status and the text of an answer of the gateway.
    pub(in crate::gateway) async fn data(&self, topic: &str, body: Value) -> (u16, String) {
        let reply = self.send(&format!("data/{topic}"), &body).await;
        (reply.status, reply.body)
    }

    /// The text of an answer of the gateway to no more than the topic.
    async fn seen(&self, topic: &str) -> String {
        self.data(topic, json!({})).await.1
    }

    async fn call(&self, tool: &str, arguments: Value) -> String {
        self.send("mcp", &rpc_call(tool, arguments)).await.body
    }
}

/// Backends with variables, which hold secrets.
const WRITTEN: &str = "[backends.command]\ndisabled = true\ncommand = [\"srv\", \"${PATH}\"]\n\
    [backends.url]\ndisabled = true\nurl = \"http://127.0.0.1:1/s/${PATH}/mcp\"\n";

const APPROVALS: &str = "[approvals]\napprove = [\"b__greet\"]\n";

#[tokio::test]
async fn page_shows_and_does_for_each_viewer_what_its_tools_would() {
    let roles = start(WRITTEN).await;
    for principal in ["admin", "reader"] {
        let name = json!({"name": format!("of-the-{principal}")});
        roles.told(principal, "b__greet", name).await;
    }
    let [reader, oncall, admin, guest] =
        ["reader", "oncall", "admin", "guest"].map(|principal| Viewer::of(&roles, principal));
    for (viewer, topic, status) in [
        (&guest, "state", 403),
        (&guest, "events", 403),
        (&guest, "settings", 403),
        (&reader, "state", 403),
        (&reader, "events", 200),
        (&reader, "settings", 403),
        (&oncall, "state", 200),
        (&oncall, "settings", 403),
        (&admin, "state", 200),
        (&admin, "events", 200),
        (&admin, "settings", 200),
        (&admin, "nothing", 404),
    ] {
        assert_eq!(viewer.data(topic, json!({})).await.0, status, "{topic}");
    }
    let events = reader.data("events", json!({"most": 9999})).await.1;
    assert_contains(&events, r#""principal":"reader""#);
    assert_lacks(&events, r#""principal":"admin""#);
    assert_lacks(&events, "allowed_by");
    assert_contains(&admin.seen("events").await, r#""principal":"reader""#);
    // The tools of its list, and who may call them only for those who see everything.
    let tools = reader.seen("tools").await;
    assert_contains(&tools, "b__test_simple_text");
    assert_lacks(&tools, "b__echo");
    assert_lacks(&tools, "oncall");
    assert_contains(&admin.seen("tools").await, r#""oncall""#);
    assert_contains(&guest.seen("tools").await, r#""tools":[]"#);
    // Where the backend is, and what it prints, is for operators.
    assert_contains(&admin.seen("state").await, "mcp-conformance");
    let state = oncall.seen("state").await;
    for name in ["address", "stderr", "transport"] {
        assert_lacks(&state, name);
    }
    let settings = admin.seen("settings").await;
    assert_contains(&settings, "\"srv ${PATH}\"");
    assert_contains(&settings, "\"http://127.0.0.1:1/s/${PATH}/mcp\"");
    // Calls have the role of the viewer, and are recorded.
    let greeted = reader.call("b__greet", json!({"name": "Ada"})).await;
    assert_contains(&greeted, "Ada");
    let denied = reader.call("b__echo", json!({"value": 1})).await;
    let unknown = reader.call("b__nothing", json!({})).await;
    assert_eq!(denied, unknown.replace("b__nothing", "b__echo"));
    let backend = json!({"backend": "b"});
    let refused = reader.call("gateway_restart", backend).await;
    assert_lacks(&refused, "is starting");
    wait_until("the record", async || {
        let events = roles.told("admin", "get_events", json!({})).await;
        events.contains(r#"\"item\":\"b__nothing\""#)
    })
    .await;
    // Looking is not recorded: it would hide what it shows.
    let count = async || {
        let events = admin.data("events", json!({"most": 9999})).await.1;
        serde_json::from_str::<Vec<Value>>(&events).unwrap().len()
    };
    let before = count().await;
    for topic in ["state", "tools", "events", "approvals", "settings"] {
        admin.data(topic, json!({})).await;
    }
    assert_eq!(count().await, before);
}

#[tokio::test]
async fn decisions_need_the_right_and_nobody_approves_an_own_call() {
    let approver =
        "[roles.approver]\nallow = [\"b__greet\"]\nown = [\"approve\", \"gateway_status\"]\n";
    let roles = start_with(APPROVALS, approver, &[("oncall", "approver")]).await;
    let oncall = Viewer::of(&roles, "oncall");
    let waiting = async || {
        let calls: Value = serde_json::from_str(&oncall.seen("approvals").await).unwrap();
        let mut calls = calls["calls"].as_array().unwrap().iter();
        let call = calls.find(|call| call["status"] == "waiting")?;
        Some(call["id"].as_str().unwrap().to_owned())
    };
    // On the page and over HTTP, in both orders.
    for (caller, approved, after) in [("oncall", 403, 200), ("reader", 200, 409)] {
        let decide = async {
            let id = eventually("the call", waiting).await;
            // A page that is not looked at tells of each once.
            let state: Value = serde_json::from_str(&oncall.seen("state").await).unwrap();
            assert_eq!(state["waiting"], json!([id]), "{state}");
            let by_path = async |principal, decision| {
                let (path, body) = (format!("/approvals/{id}"), json!({"answer": decision}));
                answer(&roles.url, &path, Some(principal), body).await
            };
            let on_page = async |principal, decision| {
                let body = json!({"id": id, "answer": decision});
                Viewer::of(&roles, principal)
                    .data("decide-call", body)
                    .await
            };
            assert_eq!(by_path("wrong", "approve").await.0, 401);
            for (principal, decision, expected) in [
                ("reader", "approve", 403),
                ("oncall", "approve", approved),
                ("oncall", "refuse", after),
            ] {
                let (first, second) = if decision == "approve" {
                    let first = by_path(principal, decision).await;
                    (first, on_page(principal, decision).await)
                } else {
                    let first = on_page(principal, decision).await;
                    (first, by_path(principal, decision).await)
                };
                let late = if expected == 200 { 409 } else { expected };
                assert_eq!((first.0, second.0), (expected, late), "{caller} {first:?}");
                let is_own = (principal, expected) == ("oncall", 403);
                assert!(!is_own || first.1.contains("its own call"), "{first:?}");
            }
        };
        let greet = roles.told(caller, "b__greet", json!({"name": "Ada"}));
        let (answer, ()) = tokio::join!(greet, decide);
        assert_eq!(answer.contains("Hello"), approved == 200, "{answer}");
        assert_eq!(
            answer.contains("who has refused"),
            approved != 200,
            "{answer}"
        );
    }
    let reader = Viewer::of(&roles, "reader");
    let pin = json!({"backend": "b", "tool": "greet", "hash": "0", "approve": true});
    assert_eq!(reader.data("decide-tool", pin.clone()).await.0, 403);
    assert_eq!(oncall.data("decide-tool", pin).await.0, 409);
}

/// All tokens have the same rights there, also those of agents.
#[tokio::test]
async fn token_without_roles_decides_nothing_and_sees_no_configuration() {
    let folder = Folder::new();
    let tokens = folder.write("tokens", &tokens(&TOKENS[..4]));
    let store = folder.path("events.db");
    let config = format!("{APPROVALS}[backends.b]\nFIXTURE\n");
    let args = ["--token-file", &tokens, "--events", &store];
    let gateway = Gateway::start(folder, &config, &args).await;
    let admin = Viewer::of(&gateway, "admin");
    let decision = json!({"backend": "b", "tool": "greet", "hash": "0", "approve": true});
    for (topic, body) in [
        ("decide-call", json!({"id": "0", "answer": "approve"})),
        ("decide-tool", decision),
        ("settings", json!({})),
    ] {
        assert_eq!(admin.data(topic, body).await.0, 403, "{topic}");
    }
    let (status, state) = admin.data("state", json!({})).await;
    assert_eq!(status, 200);
    for name in ["address", "stderr"] {
        assert_lacks(&state, name);
    }
}

/// A role whose views do not have `/mcp` sees nothing of the gateway there, so nothing on the page either.
#[tokio::test]
async fn role_of_a_view_only_sees_nothing_on_the_page() {
    let view = "[views.support]\nbackends = [\"b\"]\nown = [\"gateway_status\"]\n";
    let desk = "[roles.desk]\nallow = [\"*\"]\nown = [\"gateway_status\", \"events:all\"]\nviews = [\"support\"]\n";
    let roles = start_with(view, desk, &[("oncall", "desk")]).await;
    let desk = Viewer::of(&roles, "oncall");
    for topic in ["state", "events", "settings"] {
        assert_eq!(desk.data(topic, json!({})).await.0, 403, "{topic}");
    }
    assert_contains(&desk.seen("tools").await, r#""tools":[]"#);
}
