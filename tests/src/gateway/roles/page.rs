//! The page shows and does what the role of its viewer allows, and nothing else opens it.

use serde_json::{Value, json};

use super::Roles;
use crate::gateway::env::{Folder, Gateway, stdio_fixture};
use crate::harness::{assert_contains, assert_lacks, http_client, wait_until};

/// A person with a token, on the page of a gateway.
pub(in crate::gateway) struct Viewer {
    origin: String,
    bearer: String,
}

impl Viewer {
    pub(in crate::gateway) fn new(gateway: &Gateway, token: &str) -> Self {
        Self {
            origin: gateway.server.url.replace("/mcp", ""),
            bearer: format!("Bearer {token}"),
        }
    }

    fn of(gateway: &Gateway, principal: &str) -> Self {
        Self::new(gateway, &super::bearer(principal).replace("Bearer ", ""))
    }

    async fn send(&self, path: &str, body: &Value) -> reqwest::Response {
        let request = http_client().post(format!("{}/page/{path}", self.origin));
        let request = request
            .header("origin", &self.origin)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/json")
            .header("authorization", &self.bearer);
        request.body(body.to_string()).send().await.unwrap()
    }

    /// The status and the text of an answer of the gateway.
    pub(in crate::gateway) async fn data(&self, topic: &str, body: Value) -> (u16, String) {
        let reply = self.send(&format!("data/{topic}"), &body).await;
        (reply.status().as_u16(), reply.text().await.unwrap())
    }

    async fn call(&self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.send("mcp", &call).await.text().await.unwrap()
    }
}

/// Backends with variables, which hold secrets.
const WRITTEN: &str = "[backends.command]\ndisabled = true\ncommand = [\"srv\", \"${PATH}\"]\n\
    [backends.url]\ndisabled = true\nurl = \"http://127.0.0.1:1/s/${PATH}/mcp\"\n";

const APPROVALS: &str = "[approvals]\napprove = [\"b__greet\"]\n";

#[tokio::test]
async fn page_shows_each_viewer_what_its_tools_would() {
    let roles = Roles::start(WRITTEN).await;
    let gateway = &roles.0;
    roles
        .call("admin", "b__greet", json!({"name": "of-the-admin"}))
        .await;
    roles
        .call("reader", "b__greet", json!({"name": "of-the-reader"}))
        .await;
    let [reader, oncall, admin, guest] =
        ["reader", "oncall", "admin", "guest"].map(|principal| Viewer::of(gateway, principal));
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
    assert_contains(
        &admin.data("events", json!({})).await.1,
        r#""principal":"reader""#,
    );
    // The tools of its list, and who may call them only for those who see everything.
    let tools = reader.data("tools", json!({})).await.1;
    assert_contains(&tools, "b__test_simple_text");
    assert_lacks(&tools, "b__echo");
    assert_lacks(&tools, "oncall");
    assert_contains(&admin.data("tools", json!({})).await.1, r#""oncall""#);
    assert_contains(&guest.data("tools", json!({})).await.1, r#""tools":[]"#);
    // Where the backend is, and what it prints, is for operators.
    assert_contains(&admin.data("state", json!({})).await.1, "mcp-conformance");
    let state = oncall.data("state", json!({})).await.1;
    for name in ["address", "stderr", "transport"] {
        assert_lacks(&state, name);
    }
    let settings = admin.data("settings", json!({})).await.1;
    assert_contains(&settings, "\"srv ${PATH}\"");
    assert_contains(&settings, "\"http://127.0.0.1:1/s/${PATH}/mcp\"");
}

#[tokio::test]
async fn calls_of_the_page_have_the_role_of_the_viewer_and_are_recorded() {
    let roles = Roles::start("").await;
    let reader = Viewer::of(&roles.0, "reader");
    assert_contains(
        &reader.call("b__greet", json!({"name": "Ada"})).await,
        "Ada",
    );
    let denied = reader.call("b__echo", json!({"value": 1})).await;
    assert_eq!(
        denied,
        reader
            .call("b__nothing", json!({}))
            .await
            .replace("b__nothing", "b__echo")
    );
    assert_lacks(
        &reader
            .call("gateway_restart", json!({"backend": "b"}))
            .await,
        "is starting",
    );
    wait_until("the record", async || {
        let events = roles.call("admin", "get_events", json!({})).await;
        events.contains(r#"\"principal\":\"reader\""#)
    })
    .await;
    // Looking is not recorded: it would hide what it shows.
    let admin = Viewer::of(&roles.0, "admin");
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
    let approver = "[roles.approver]\nallow = [\"b__greet\"]\nown = [\"approve\"]\n";
    let roles = Roles::start_with(APPROVALS, approver, &[("oncall", "approver")]).await;
    let gateway = &roles.0;
    let [reader, oncall] = ["reader", "oncall"].map(|principal| Viewer::of(gateway, principal));
    let waiting = async |viewer: &Viewer| {
        let calls: Value =
            serde_json::from_str(&viewer.data("approvals", json!({})).await.1).unwrap();
        let calls = calls["calls"].as_array().unwrap().clone();
        let mut calls = calls.into_iter().filter(|call| call["status"] == "waiting");
        calls
            .next()
            .map(|call| call["id"].as_str().unwrap().to_owned())
    };
    for (caller, approved) in [("oncall", 403), ("reader", 200)] {
        let decide = async {
            let mut id = None;
            wait_until("the call", async || {
                id = waiting(&oncall).await;
                id.is_some()
            })
            .await;
            let answer = json!({"id": id, "answer": "approve"});
            assert_eq!(reader.data("decide-call", answer.clone()).await.0, 403);
            assert_eq!(
                oncall.data("decide-call", answer).await.0,
                approved,
                "{caller}"
            );
            let refuse = json!({"id": id, "answer": "refuse"});
            let after = if approved == 200 { 409 } else { 200 };
            assert_eq!(oncall.data("decide-call", refuse).await.0, after);
        };
        let greet = roles.call(caller, "b__greet", json!({"name": "Ada"}));
        let (answer, ()) = tokio::join!(greet, decide);
        assert_eq!(answer.contains("Hello"), approved == 200, "{answer}");
    }
    let pin = json!({"backend": "b", "tool": "greet", "hash": "0", "approve": true});
    assert_eq!(reader.data("decide-tool", pin.clone()).await.0, 403);
    assert_eq!(oncall.data("decide-tool", pin).await.0, 409);
}

/// All tokens have the same rights there, also those of agents.
#[tokio::test]
async fn token_without_roles_decides_nothing_and_sees_no_configuration() {
    let folder = Folder::new();
    let tokens = folder.write("tokens", super::TOKENS);
    let store = folder.path("events.db");
    let config = format!("{APPROVALS}[backends.b]\n{}\n", stdio_fixture());
    let args = ["--token-file", &tokens, "--events", &store];
    let gateway = Gateway::start(folder, &config, &args).await;
    let admin = Viewer::of(&gateway, "admin");
    for (topic, body) in [
        ("decide-call", json!({"id": "0", "answer": "approve"})),
        (
            "decide-tool",
            json!({"backend": "b", "tool": "greet", "hash": "0", "approve": true}),
        ),
    ] {
        assert_eq!(admin.data(topic, body).await.0, 403, "{topic}");
    }
    assert_eq!(admin.data("settings", json!({})).await.0, 403);
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
    let roles = Roles::start_with(view, desk, &[("oncall", "desk")]).await;
    let desk = Viewer::of(&roles.0, "oncall");
    for topic in ["state", "events", "settings"] {
        assert_eq!(desk.data(topic, json!({})).await.0, 403, "{topic}");
    }
    assert_contains(&desk.data("tools", json!({})).await.1, r#""tools":[]"#);
}
