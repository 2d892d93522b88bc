//! Calls that wait for an operator.

mod docker;
mod leaving;
mod shown;
mod tasks;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::env::{Folder, Gateway, stdio_fixture};
use crate::harness::{
    FakeService, Response, assert_contains, assert_lacks, eventually, wait_until,
};

/// A gateway where calls of `echo` wait for an operator.
struct Operated(Gateway);

impl Operated {
    async fn start(folder: Folder, timeout: &str) -> Self {
        let gateway = Self::with(folder, &format!("timeout = \"{timeout}\""), &[]).await;
        gateway.0.until("b", "running").await;
        let names = async || gateway.0.tool_names().await;
        wait_until("the tools", async || names().await.len() > 4).await;
        gateway
    }

    async fn with(folder: Folder, lines: &str, args: &[&str]) -> Self {
        let store = folder.path("events.db");
        let config = format!("[approvals]\napprove = [\"b__echo\"]\n{lines}\n");
        let config = format!("{config}[backends.b]\n{}\n", stdio_fixture());
        let args = [&["--events", store.as_str()], args].concat();
        Self(Gateway::start(folder, &config, &args).await)
    }

    /// Runs `mcp-gateway approvals`. Returns its exit code and its output.
    async fn command(&self, args: &[&str]) -> (i32, String) {
        let folder = &self.0.folder;
        let args = [&["approvals"], args].concat();
        folder.command(&folder.path("events.db"), &args).await
    }

    /// Calls `echo` in the background, in the unversioned era.
    fn call(&self, name: &str) -> JoinHandle<String> {
        let url = self.0.server.url.clone();
        let params = json!({"name": "b__echo", "arguments": {"value": {"name": name, "token": "hunter2-of-ada"}}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        tokio::spawn(async move {
            let http = crate::harness::http_client();
            let reply = http.post(url).header("content-type", "application/json");
            let reply = reply.body(call.to_string()).send().await;
            match reply {
                Ok(reply) => reply.text().await.unwrap_or_default(),
                Err(error) => error.to_string(),
            }
        })
    }

    /// Waits for the only call that waits, and returns its id.
    async fn waiting(&self) -> String {
        eventually("a call that waits", async || {
            let (code, list) = self.command(&["list"]).await;
            assert_eq!(code, 0, "{list}");
            let mut lines = list.lines();
            let id = lines.next()?.split_whitespace().nth(1)?.to_owned();
            assert_eq!(lines.count(), 0, "{list}");
            Some(id)
        })
        .await
    }

    /// Waits until a call has ended like this.
    async fn until(&self, id: &str, status: &str) {
        wait_until(status, async || {
            let (_, list) = self.command(&["list", "--all"]).await;
            list.lines()
                .any(|line| line.starts_with(status) && line.contains(id))
        })
        .await;
    }
}

#[tokio::test]
async fn call_waits_until_an_operator_decides_about_exactly_this_call() {
    let gateway = Operated::start(Folder::new(), "10m").await;
    let call = gateway.call("Ada");
    let id = gateway.waiting().await;
    let (_, shown) = gateway.command(&["show", &id]).await;
    assert_contains(&shown, "\"name\": \"Ada\"");
    assert_lacks(&shown, "hunter2");
    assert!(!call.is_finished());
    let (code, text) = gateway.command(&["approve", &id]).await;
    assert_eq!(code, 0, "{text}");
    assert_contains(&call.await.unwrap(), "hunter2-of-ada");
    gateway.until(&id, "used").await;
    let (code, text) = gateway.command(&["approve", &id]).await;
    assert_eq!(
        (code, text.trim()),
        (1, "nothing done: the call is used already")
    );

    // The same call again needs another decision.
    let call = gateway.call("Ada");
    let second = gateway.waiting().await;
    assert_ne!(second, id);
    let decisions = ["approve", "refuse", "approve", "refuse"];
    let decided = decisions.map(|decision| {
        let (gateway, second) = (&gateway, &second);
        async move { gateway.command(&[decision, second]).await.0 }
    });
    let codes = join_all(decided).await;
    assert_eq!(
        codes.iter().filter(|code| **code == 0).count(),
        1,
        "{codes:?}"
    );
    let is_approved = codes[0] == 0 || codes[2] == 0;
    let answer = call.await.unwrap();
    assert_eq!(answer.contains("hunter2-of-ada"), is_approved, "{answer}");
    assert_eq!(answer.contains("who has refused"), !is_approved, "{answer}");

    let receipts = gateway.0.events_of("gateway.approval").await;
    let receipts = receipts
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["metadata"]);
    let mut first = receipts.filter(|facts| facts["approval"] == json!(id));
    assert_eq!(first.next().unwrap()["outcome"], "waiting");
    let used = first.next().unwrap();
    assert_eq!(
        (&used["outcome"], &used["decided_by"]),
        (&json!("used"), &json!("command of olga"))
    );
    assert!(
        used["hash"].as_str().is_some_and(|hash| hash.len() == 64),
        "{used}"
    );
    assert!(first.next().is_none());
}

#[tokio::test]
async fn call_expires_or_is_made_when_both_happen_at_once() {
    let gateway = Operated::start(Folder::new(), "2s").await;
    let call = gateway.call("Ada");
    let id = gateway.waiting().await;
    assert_contains(&call.await.unwrap(), "no operator has decided in time");
    let (code, text) = gateway.command(&["approve", &id]).await;
    assert_eq!(
        (code, text.trim()),
        (1, "nothing done: the call is expired already")
    );
    for early in [1700, 1850, 1950, 2000] {
        let call = gateway.call("Ada");
        let start = tokio::time::Instant::now();
        let id = gateway.waiting().await;
        tokio::time::sleep_until(start + Duration::from_millis(early)).await;
        let (code, text) = gateway.command(&["approve", &id]).await;
        let answer = call.await.unwrap();
        assert_eq!(
            answer.contains("hunter2-of-ada"),
            code == 0,
            "{text} {answer}"
        );
        assert_eq!(
            answer.contains("Nothing was done"),
            code == 1,
            "{text} {answer}"
        );
    }
}

#[tokio::test]
async fn approval_of_a_gateway_that_was_killed_is_gone() {
    let gateway = Operated::start(Folder::new(), "10m").await;
    let call = gateway.call("Ada");
    let id = gateway.waiting().await;
    let Operated(Gateway { server, folder }) = gateway;
    server.kill().await;
    call.await.unwrap();
    let gateway = Operated::start(folder, "10m").await;
    // It is not known yet that it is gone: the approval is withdrawn, since no gateway takes it.
    let (code, _) = gateway.command(&["approve", &id]).await;
    assert_eq!(code, 1);
    gateway.until(&id, "gone").await;
    let (code, text) = gateway.command(&["approve", &id]).await;
    assert_eq!(
        (code, text.trim()),
        (1, "nothing done: the call is gone already")
    );
    let receipts = gateway.0.events_of("gateway.approval").await.to_string();
    assert_lacks(&receipts, "\"used\"");
    assert!(
        gateway
            .0
            .calls()
            .await
            .iter()
            .all(|call| call["outcome"] != "ok")
    );
}

/// Posts an answer with this bearer token. Returns the status and the body.
async fn answer(url: &str, path: &str, bearer: Option<&str>, body: Value) -> (u16, String) {
    let url = url.replace("/mcp", path);
    let mut request = crate::harness::http_client().post(url);
    if let Some(bearer) = bearer {
        request = request.header("authorization", format!("Bearer {bearer}"));
    }
    let reply = request.body(body.to_string()).send().await.unwrap();
    (reply.status().as_u16(), reply.text().await.unwrap())
}

#[tokio::test]
async fn webhook_gets_each_waiting_call_and_answers_it_once() {
    let program = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let folder = Folder::new();
    let hook = format!("webhook = \"{}/hook/secret\"", program.url);
    let gateway = Operated::with(folder, &hook, &[]).await;
    wait_until("the tools", async || gateway.0.tool_names().await.len() > 4).await;
    let call = gateway.call("Ada");
    let told = eventually("the webhook", async || program.requests().pop()).await;
    let told: Value = serde_json::from_slice(&told.body).unwrap();
    assert_eq!(told["tool"], "b__echo");
    assert_contains(&told.to_string(), "Ada");
    assert_lacks(&told.to_string(), "hunter2");
    let (path, token) = (&told["answer"]["path"], &told["answer"]["token"]);
    let (path, url) = (path.as_str().unwrap(), gateway.0.server.url.clone());
    for (path, body, expected) in [
        (path, json!({"answer": "approve"}), 401),
        (path, json!({"answer": "approve", "token": "x"}), 403),
        (
            "/approvals/0",
            json!({"answer": "approve", "token": token}),
            403,
        ),
        (path, json!({"answer": "perhaps", "token": token}), 400),
        (path, json!({}), 400),
    ] {
        let (status, text) = answer(&url, path, None, body).await;
        assert_eq!(status, expected, "{text}");
    }
    let yes = json!({"answer": "approve", "token": token});
    let (status, text) = answer(&url, path, None, yes.clone()).await;
    assert_eq!((status, text.contains("approved")), (200, true), "{text}");
    assert_contains(&call.await.unwrap(), "hunter2-of-ada");
    assert_eq!(answer(&url, path, None, yes).await.0, 409);
    let log = gateway.0.events_of("gateway.approval").await.to_string() + &gateway.0.server.log();
    assert_lacks(&log, token.as_str().unwrap());
}

#[tokio::test]
async fn principal_with_the_right_approves_calls_of_others_only() {
    const TOKENS: &str =
        "olga olga-has-a-token-of-32-characters!!\nada ada-has-a-token-of-32-characters!!!\n";
    let [olga, ada] = [
        "olga-has-a-token-of-32-characters!!",
        "ada-has-a-token-of-32-characters!!!",
    ];
    let folder = Folder::new();
    let tokens = folder.write("tokens", TOKENS);
    let roles = "[roles.user]\nallow = [\"b__*\"]\n[roles.operator]\nallow = [\"b__*\"]\nown = [\"approve\"]\n\
        [principals]\nada = \"user\"\nolga = \"operator\"";
    let gateway = Operated::with(folder, roles, &["--token-file", &tokens]).await;
    let url = gateway.0.server.url.clone();
    let call = async |token: &str| {
        let params = json!({"name": "b__echo", "arguments": {"value": "Ada"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = crate::harness::http_client().post(&url);
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let reply = request.body(call.to_string()).send().await.unwrap();
        reply.text().await.unwrap()
    };
    let yes = json!({"answer": "approve"});
    let (of_ada, ()) = tokio::join!(call(ada), async {
        let path = format!("/approvals/{}", gateway.waiting().await);
        assert_eq!(answer(&url, &path, Some(ada), yes.clone()).await.0, 403);
        assert_eq!(answer(&url, &path, Some("wrong"), yes.clone()).await.0, 401);
        let (status, text) = answer(&url, &path, Some(olga), yes.clone()).await;
        assert_eq!(status, 200, "{text}");
    });
    assert_contains(&of_ada, "Ada");
    let (of_olga, ()) = tokio::join!(call(olga), async {
        let path = format!("/approvals/{}", gateway.waiting().await);
        let (status, text) = answer(&url, &path, Some(olga), yes.clone()).await;
        assert_eq!(
            (status, text.contains("its own call")),
            (403, true),
            "{text}"
        );
        let no = json!({"answer": "refuse"});
        assert_eq!(answer(&url, &path, Some(olga), no).await.0, 200);
    });
    assert_contains(&of_olga, "who has refused this call");
}
