//! Calls that wait for an operator as tasks of the protocol.

use serde_json::{Value, json};

use super::{Folder, Operated};
use crate::harness::{assert_contains, assert_lacks, eventually, rpc, wait_until};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client that supports tasks.
struct TaskClient<'a> {
    gateway: &'a Operated,
    /// Of 2025-11-25; none with the extension of 2026-07-28.
    session: Option<String>,
}

impl<'a> TaskClient<'a> {
    fn modern(gateway: &'a Operated) -> Self {
        Self {
            gateway,
            session: None,
        }
    }

    async fn legacy(gateway: &'a Operated) -> Self {
        let session = Some(gateway.0.session("2025-11-25", &[]).await);
        Self { gateway, session }
    }

    /// The status of a task whose tool has failed: it has failed, too, but not with the extension.
    fn failed(&self) -> &'static str {
        self.session.as_ref().map_or("completed", |_| "failed")
    }

    /// The response to a request.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let gateway = &self.gateway.0;
        let Some(session) = &self.session else {
            let capabilities = json!({"extensions": {EXTENSION: {}}});
            return gateway.ask_modern("", capabilities, method, params).await;
        };
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let body = rpc(method, params).to_string();
        gateway.post_with(&headers, body).await.json()
    }

    /// Calls `echo` as a task. Returns its id.
    async fn start(&self) -> Value {
        let mut params = json!({"name": "b__echo", "arguments": {"value": "made-for-ada"}});
        if self.session.is_some() {
            params["task"] = json!({"ttl": 600_000});
        }
        let created = self.ask("tools/call", params).await;
        let task = match &self.session {
            Some(_) => &created["result"]["task"],
            None => &created["result"],
        };
        assert!(task["taskId"].is_string(), "{created}");
        task["taskId"].clone()
    }

    async fn until(&self, task: &Value, status: &str) -> Value {
        eventually(status, async || {
            let found = self.ask("tasks/get", json!({"taskId": task})).await;
            (found["result"]["status"] == status).then(|| found["result"].clone())
        })
        .await
    }

    /// The text of all that an ended task has given.
    async fn outcome(&self, task: &Value) -> String {
        let method = match &self.session {
            Some(_) => "tasks/result",
            None => "tasks/get",
        };
        self.ask(method, json!({"taskId": task})).await.to_string()
    }
}

async fn decisions_end_the_task(gateway: &Operated, client: &TaskClient<'_>) {
    let task = client.start().await;
    let id = gateway.waiting().await;
    wait_until("the reason of the wait", async || {
        let found = client.ask("tasks/get", json!({"taskId": task})).await;
        assert_eq!(found["result"]["status"], "working", "{found}");
        let status = found["result"]["statusMessage"].to_string();
        status.contains("waiting for an operator") && status.contains(&id)
    })
    .await;
    assert_eq!(gateway.command(&["approve", &id]).await.0, 0);
    client.until(&task, "completed").await;
    assert_contains(&client.outcome(&task).await, "made-for-ada");

    let task = client.start().await;
    let id = gateway.waiting().await;
    assert_eq!(gateway.command(&["refuse", &id]).await.0, 0);
    client.until(&task, client.failed()).await;
    let outcome = client.outcome(&task).await;
    assert_contains(&outcome, "who has refused this call");
    assert_lacks(&outcome, "made-for-ada");

    let task = client.start().await;
    let id = gateway.waiting().await;
    let cancelled = client.ask("tasks/cancel", json!({"taskId": task})).await;
    assert!(cancelled["result"].is_object(), "{cancelled}");
    gateway.until(&id, "cancelled").await;
    assert_eq!(gateway.command(&["approve", &id]).await.0, 1);
    client.until(&task, "cancelled").await;
    assert_lacks(&client.outcome(&task).await, "made-for-ada");
}

#[tokio::test]
async fn task_waits_for_an_operator_in_2025_11_25_and_with_the_extension() {
    let gateway = Operated::start(Folder::new(), "10m").await;
    let legacy = TaskClient::legacy(&gateway).await;
    let tools = legacy.ask("tools/list", json!({})).await.to_string();
    let support = r#""taskSupport":"optional""#;
    let mut tools = tools.split("\"name\":");
    let echo = tools.find(|tool| tool.starts_with("\"b__echo\""));
    assert_contains(echo.unwrap(), support);
    for client in [legacy, TaskClient::modern(&gateway)] {
        decisions_end_the_task(&gateway, &client).await;
    }
    assert_eq!(gateway.0.made().await, 2, "one approved task of each");
}

#[tokio::test]
async fn task_that_no_operator_decides_about_ends_without_a_call() {
    let gateway = Operated::start(Folder::new(), "2s").await;
    for client in [
        TaskClient::legacy(&gateway).await,
        TaskClient::modern(&gateway),
    ] {
        let task = client.start().await;
        client.until(&task, client.failed()).await;
        let outcome = client.outcome(&task).await;
        assert_contains(&outcome, "no operator has decided in time");
    }
    assert_eq!(gateway.0.made().await, 0);
}
