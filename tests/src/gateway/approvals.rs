//! Calls that wait for an operator.

mod changing;
mod leaving;
mod shown;
mod tasks;

use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::env::{Folder, Gateway, bearer, tokens};
use crate::harness::{
    FakeService, Response, assert_contains, assert_lacks, eventually, post_message, rpc_call,
    wait_until,
};

/// Of ada, who waits, and olga, who decides.
const ROLES: &str = r#"
[roles.user]
allow = ["b__*"]
[roles.operator]
allow = ["b__*"]
own = ["approve"]
[principals]
ada = "user"
olga = "operator"
"#;

/// A gateway where calls of `echo` wait for an operator.
struct Operated(Gateway);

impl Operated {
    async fn start(folder: Folder, timeout: &str) -> Self {
        Self::without_tokens(folder, &format!("timeout = \"{timeout}\"")).await
    }

    async fn without_tokens(folder: Folder, lines: &str) -> Self {
        let operated = Self::with(folder, lines, &[]).await;
        operated.0.until_lists("b__echo", true).await;
        operated
    }

    /// With tokens of ada and olga.
    async fn guarded(lines: &str) -> Self {
        let folder = Folder::new();
        let tokens = folder.write("tokens", &tokens(&["olga", "ada"]));
        let operated = Self::with(folder, lines, &["--token-file", &tokens]).await;
        operated.0.until_sees("olga", "b__echo").await;
        operated
    }

    async fn with(folder: Folder, lines: &str, args: &[&str]) -> Self {
        let store = folder.path("events.db");
        let config = format!(
            "[approvals]\napprove = [\"b__echo\"]\n{lines}\n[events]\nrecord = [\"b__echo.value\"]\n[backends.b]\nFIXTURE\n"
        );
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
        let value = json!({"name": name, "token": "hunter2-of-ada"});
        let call = rpc_call("b__echo", json!({"value": value}));
        let request = crate::harness::http_client().post(&self.0.url);
        let request = request.header("content-type", "application/json");
        let request = request.body(call.to_string());
        tokio::spawn(async move {
            match request.send().await {
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

    /// Waits for a call that is none of these, also for one that has ended, and returns its id.
    async fn other_than(&self, known: &[String]) -> String {
        eventually("another call", async || {
            let (code, list) = self.command(&["list", "--all"]).await;
            let mut ids = list
                .lines()
                .filter_map(|line| line.split_whitespace().nth(1));
            let new = ids.find(|id| known.iter().all(|known| known != id))?;
            (code == 0).then(|| new.to_owned())
        })
        .await
    }

    /// Approves a call that has ended already, which does nothing.
    async fn assert_is_over(&self, id: &str, end: &str) {
        let (code, text) = self.command(&["approve", id]).await;
        let told = format!("nothing done: the call is {end} already");
        assert_eq!((code, text.trim()), (1, &*told));
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
    gateway.assert_is_over(&id, "used").await;

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
    let done = codes.iter().filter(|code| **code == 0).count();
    assert_eq!(done, 1, "{codes:?}");
    let is_approved = codes[0] == 0 || codes[2] == 0;
    let answer = call.await.unwrap();
    assert_eq!(answer.contains("hunter2-of-ada"), is_approved, "{answer}");
    assert_eq!(answer.contains("who has refused"), !is_approved, "{answer}");

    let mut first = gateway.0.facts_of("gateway.approval").await;
    first.retain(|facts| facts["approval"] == id);
    let [waiting, used] = &first[..] else {
        panic!("{first:?}")
    };
    assert_eq!(waiting["outcome"], "waiting");
    assert_has!(used, {"outcome": "used", "decided_by": "command of olga"});
    let hash = used["hash"].as_str().unwrap_or_default();
    assert_eq!(hash.len(), 64, "{used}");
    let about = ["events", "--about", "Ada", "--type", "gateway.tool_call"];
    let store = gateway.0.folder.path("events.db");
    let (_, about) = gateway.0.folder.command(&store, &about).await;
    assert_contains(&about, "approved by command of olga");
}

#[tokio::test]
async fn call_expires_or_is_made_when_both_happen_at_once() {
    let gateway = Operated::start(Folder::new(), "2s").await;
    let call = gateway.call("Ada");
    assert_contains(&call.await.unwrap(), "no operator has decided in time");
    let mut known = vec![gateway.other_than(&[]).await];
    gateway.assert_is_over(&known[0], "expired").await;
    for early in [1700, 1850, 1950, 2000] {
        let call = gateway.call("Ada");
        let start = tokio::time::Instant::now();
        // A busy machine may have shown it too late.
        let id = gateway.other_than(&known).await;
        tokio::time::sleep_until(start + Duration::from_millis(early)).await;
        let (code, text) = gateway.command(&["approve", &id]).await;
        let answer = call.await.unwrap();
        let [made, refused] =
            ["hunter2-of-ada", "Nothing was done"].map(|part| answer.contains(part));
        assert_eq!((made, refused), (code == 0, code == 1), "{text} {answer}");
        known.push(id);
    }
}

/// Its end is known without a gateway that runs.
#[tokio::test]
async fn call_of_a_killed_or_stopped_gateway_is_gone() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let operated = Operated::start(Folder::new(), "10m").await;
        let call = operated.call("Ada");
        let id = operated.waiting().await;
        let Operated(Gateway { mut server, folder }) = operated;
        server.signal(signal);
        let is_told = call.await.unwrap().contains("the gateway stops");
        assert_eq!(is_told, signal == Signal::SIGTERM);
        server.wait_for_exit().await;
        let store = folder.path("events.db");
        let approvals = async |args: &[&str]| {
            let args = [&["approvals"], args].concat();
            folder.command(&store, &args).await
        };
        wait_until("its end", async || {
            let (_, all) = approvals(&["list", "--all"]).await;
            all.starts_with("gone") && all.contains(&id)
        })
        .await;
        assert_eq!(approvals(&["list"]).await.1, "");
        let (code, text) = approvals(&["approve", &id]).await;
        assert_eq!(
            (code, text.trim()),
            (1, "nothing done: the call is gone already")
        );
        let gateway = Operated::start(folder, "10m").await;
        gateway.until(&id, "gone").await;
        gateway.assert_is_over(&id, "gone").await;
        let receipts = json!(gateway.0.facts_of("gateway.approval").await);
        assert_lacks(&receipts, "\"used\"");
        assert_eq!(gateway.0.made().await, 0);
    }
}

/// Posts an answer as this principal. Returns the status and the body.
pub(super) async fn answer(
    url: &str,
    path: &str,
    principal: Option<&str>,
    body: Value,
) -> (u16, String) {
    let bearer = principal.map(bearer);
    let headers = bearer.iter().map(|bearer| ("authorization", &**bearer));
    let headers: Vec<_> = headers.collect();
    let reply = post_message(&url.replace("/mcp", path), &headers, &body).await;
    (reply.status, reply.body)
}

#[tokio::test]
async fn webhook_gets_each_waiting_call_and_answers_it_once() {
    let program = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let hook = format!("webhook = \"{}/hook/secret\"", program.url);
    let gateway = Operated::without_tokens(Folder::new(), &hook).await;
    let call = gateway.call("Ada");
    let told = eventually("the webhook", async || program.requests().pop()).await;
    let told = told.json();
    assert_eq!(told["tool"], "b__echo");
    assert_contains(&told, "Ada");
    assert_lacks(&told, "hunter2");
    let [path, token] = ["path", "token"].map(|part| told["answer"][part].as_str().unwrap());
    let yes = json!({"answer": "approve", "token": token});
    for (path, body, expected, part) in [
        (path, json!({"answer": "approve"}), 401, ""),
        (path, json!({"answer": "approve", "token": "x"}), 403, ""),
        ("/approvals/0", yes.clone(), 403, ""),
        (path, json!({"answer": "perhaps", "token": token}), 400, ""),
        (path, json!({}), 400, ""),
        (path, yes.clone(), 200, "approved"),
        (path, yes, 409, ""),
    ] {
        let (status, text) = answer(&gateway.0.url, path, None, body).await;
        assert_eq!(status, expected, "{text}");
        assert_contains(&text, part);
    }
    assert_contains(&call.await.unwrap(), "hunter2-of-ada");
    let query = json!({"event_type": "gateway.approval"});
    gateway.0.facts_of("gateway.approval").await;
    let events = gateway.0.own("get_events", query).await.to_string();
    assert_lacks(&(events + &gateway.0.log()), token);
}
