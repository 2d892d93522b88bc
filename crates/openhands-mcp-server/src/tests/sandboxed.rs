//! Tasks behind a V1 app server. Each call uses a server that has just started, so nothing depends on
//! state in memory.

use mcp_core::tool::{Call, ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::{Value, json};

use super::app_server::{FakeAppServer, SANDBOX, SANDBOX_KEY, STEPS};
use super::{ID, KEY, openhands, options, try_call};
use crate::OpenHands;

/// Calls a tool and asserts that its answer holds no key.
async fn call(app: &FakeAppServer, tool: &str, arguments: Value) -> Result<Value, ToolError> {
    let answer = super::call(&app.front.url, tool, arguments).await;
    let told = format!("{answer:?}");
    assert!(!told.contains(SANDBOX_KEY) && !told.contains(KEY), "{told}");
    answer
}

async fn started(app: &FakeAppServer) -> Value {
    let task = json!({"task": "Fix it", "wait_seconds": 0});
    let run = call(app, "run_task", task).await.unwrap();
    assert_eq!(run["status"], "queued", "{run}");
    json!({"task_id": run["task_id"]})
}

#[tokio::test]
async fn task_is_started_and_followed_in_a_sandbox() {
    let app = FakeAppServer::start().await;
    openhands(&app.front.url).probe().await.unwrap();
    let context = json!({"repository": "https://github.com/owner/name", "branch": "dev"});
    let task = json!({"task": "Fix it", "context": context});
    let run = call(&app, "run_task", task).await.unwrap();
    assert_eq!(
        (&run["status"], &run["result"]),
        (&json!("finished"), &json!("all good")),
        "{run}"
    );
    let prompt = "Fix it\n\nYour working directory is a checkout of \
                  https://github.com/owner/name (branch dev).";
    let start = json!({
        "conversation_id": run["task_id"],
        "initial_message": {
            "role": "user", "content": [{"type": "text", "text": prompt}], "run": true,
        },
        "git_provider": "github",
        "selected_repository": "owner/name",
        "selected_branch": "dev",
    });
    assert_eq!(app.state.lock().unwrap().starts, [start]);
    // The sandbox does not get our key, and this server creates no conversation there.
    let requests = app.sandbox.requests("");
    assert!(!requests.is_empty() && requests.iter().all(|request| !request.head.contains(KEY)));
    assert!(app.sandbox.requests("POST /api/conversations ").is_empty());
    for tool in ["get_task_status", "get_task_result", "wait_task"] {
        let id = json!({"task_id": run["task_id"]});
        assert_eq!(call(&app, tool, id).await.unwrap()["status"], "finished");
    }
}

#[tokio::test]
async fn task_is_queued_while_its_sandbox_starts() {
    let app = FakeAppServer::start().await;
    let id = started(&app).await;
    let mut seen = Vec::new();
    for _ in 0..=STEPS.len() {
        let state = call(&app, "get_task_status", id.clone()).await.unwrap();
        seen.push(state["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.first().unwrap(), "queued");
    assert_eq!(seen.last().unwrap(), "finished");
    let unknown = call(&app, "get_task_status", json!({"task_id": ID})).await;
    assert_eq!(unknown.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn same_key_is_started_once() {
    let app = FakeAppServer::start().await;
    let arguments = json!({"task": "t", "idempotency_key": "k", "wait_seconds": 0});
    let first = call(&app, "run_task", arguments.clone()).await.unwrap();
    let early = call(&app, "run_task", arguments.clone()).await.unwrap();
    app.ready();
    let late = call(&app, "run_task", arguments).await.unwrap();
    assert_eq!(first["task_id"], early["task_id"]);
    assert_eq!(first["task_id"], late["task_id"]);
    assert_eq!(app.state.lock().unwrap().starts.len(), 1);
}

#[tokio::test]
async fn failed_start_is_a_failed_task() {
    let app = FakeAppServer::start().await;
    app.state.lock().unwrap().fails = true;
    let run = call(&app, "run_task", json!({"task": "t"})).await.unwrap();
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].as_str().unwrap();
    assert!(
        error.ends_with("docker: no such image at registry.example.test."),
        "{run}"
    );
    let events = json!({"task_id": run["task_id"]});
    let events = call(&app, "get_task_changes", events).await.unwrap_err();
    assert!(
        events.message().contains("could not be started"),
        "{events}"
    );
}

#[tokio::test]
async fn task_that_starts_is_listed_and_can_be_deleted() {
    let app = FakeAppServer::start().await;
    let id = started(&app).await;
    app.state.lock().unwrap().step = 0;
    let list = call(&app, "list_tasks", json!({})).await.unwrap();
    let row = &list["tasks"][0];
    assert_eq!(
        (&row["task_id"], &row["status"]),
        (&id["task_id"], &json!("queued"))
    );
    assert_eq!(row["task"], "Fix it");
    let confirmed = json!({"task_id": id["task_id"], "confirm": id["task_id"]});
    app.state.lock().unwrap().step = 0;
    let gone = call(&app, "delete_task", confirmed).await.unwrap();
    assert_eq!(gone["deleted"], true);
    let sandbox = id["task_id"].as_str().unwrap().replace('-', "");
    let deleted = format!("DELETE /api/v1/sandboxes/{sandbox}?sandbox_id={sandbox}");
    assert_eq!(app.front.requests(&deleted).len(), 1);
}

#[tokio::test]
async fn message_resumes_a_paused_sandbox() {
    let app = FakeAppServer::start().await;
    let id = started(&app).await;
    app.ready();
    app.state.lock().unwrap().sandbox = "PAUSED";
    let state = call(&app, "get_task_result", id.clone()).await.unwrap();
    assert_eq!(state["status"], "paused", "{state}");
    assert!(state["next"].as_str().unwrap().contains("resumes it"));
    let mut message = id.clone();
    message["message"] = json!("Go on");
    call(&app, "send_message", message).await.unwrap();
    let resume = format!("POST /api/v1/sandboxes/{SANDBOX}/resume");
    assert_eq!(app.front.requests(&resume).len(), 1);
    let sent = app.sandbox.requests("POST /api/conversations/");
    assert!(sent.iter().any(|request| request.body.contains("Go on")));
    app.state.lock().unwrap().sandbox = "MISSING";
    let gone = call(&app, "get_task_status", id).await.unwrap();
    assert_eq!(gone["status"], "failed", "{gone}");
}

#[tokio::test]
async fn app_server_lists_and_deletes_tasks() {
    let app = FakeAppServer::start().await;
    let id = started(&app).await;
    app.ready();
    let list = json!({"limit": 5, "cursor": "MQ=="});
    let list = call(&app, "list_tasks", list).await.unwrap();
    let row = json!({"task_id": id["task_id"], "status": "finished", "task": "Fix it",
        "created_at": "2026-11-21T09:48:26", "cost": 0.25});
    assert_eq!(list, json!({"tasks": [row], "next_cursor": "Mg=="}));
    let asked = app.front.requests("GET /api/v1/app-conversations/search");
    assert!(asked[0].target.ends_with("?limit=5&page_id=MQ%3D%3D"));
    let unconfirmed = call(&app, "delete_task", id.clone()).await.unwrap_err();
    assert!(unconfirmed.message().contains("sandbox"), "{unconfirmed}");
    let confirmed = json!({"task_id": id["task_id"], "confirm": id["task_id"]});
    let gone = call(&app, "delete_task", confirmed).await.unwrap();
    assert_eq!(gone["deleted"], true);
    assert_eq!(
        app.front
            .requests("DELETE /api/v1/app-conversations/")
            .len(),
        1
    );
}

#[tokio::test]
async fn callback_url_is_refused_before_anything_is_sent() {
    let app = FakeAppServer::start().await;
    let id = started(&app).await["task_id"].clone();
    app.ready();
    let url = "http://127.0.0.1:1/hook";
    for (tool, mut arguments) in [
        ("run_task", json!({"task": "t"})),
        ("run_parallel_tasks", json!({"tasks": [{"task": "t"}]})),
        (
            "send_message",
            json!({"task_id": id, "message": "never sent"}),
        ),
        ("resume_task", json!({"task_id": id})),
    ] {
        arguments["callback_url"] = json!(url);
        let mut options = options(&app.front.url);
        options.openhands_callback_hosts = vec!["127.0.0.1:1".into()];
        let service = OpenHands::new(options).unwrap();
        let call = try_call(service, tool, arguments, &Call::default()).await;
        let told = format!("{:?}", call.unwrap());
        assert!(
            told.contains("wait_task waits for the end"),
            "{tool}: {told}"
        );
    }
    assert_eq!(app.state.lock().unwrap().starts.len(), 1);
    let sent = app.sandbox.requests("POST /api/conversations/");
    assert!(
        !sent
            .iter()
            .any(|request| request.body.contains("never sent"))
    );
}

#[tokio::test]
async fn unsupported_calls_are_refused_in_one_line() {
    let app = FakeAppServer::start().await;
    let cases = [
        ("create_agent", json!({"config_file": "a.toml"})),
        ("get_agent", json!({"agent_id": "a"})),
        ("delete_agent", json!({"agent_id": "a", "confirm": "a"})),
        ("list_tasks", json!({"status": "running"})),
        ("run_task", json!({"task": "t", "workspace": "w"})),
        ("run_task", json!({"task": "t", "confirm": "always"})),
        ("run_task", json!({"task": "t", "max_iterations": 5})),
        ("run_task", json!({"task": "t", "agent": "reviewer"})),
        (
            "run_task",
            json!({"task": "t", "context": {"file": "a", "content": "b"}}),
        ),
        (
            "run_task",
            json!({"task": "t", "context": {"repository": "https://h.test/r"}}),
        ),
    ];
    for (tool, arguments) in cases {
        let error = call(&app, tool, arguments).await.unwrap_err();
        let message = error.message();
        assert!(
            message.contains("OpenHands V1 app server"),
            "{tool}: {message}"
        );
        assert!(!message.contains('\n') && message.len() < 250, "{message}");
    }
    assert!(app.state.lock().unwrap().starts.is_empty());
}
