//! Tasks behind the V1 app server. Every call is made by a server that has just started, so nothing
//! depends on what one remembers.

use mcp_core::tool::{ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::{Value, json};

use super::app_server::{AppServer, SANDBOX, SANDBOX_KEY, STEPS};
use super::{ID, KEY, openhands};

/// What a tool answers; no key is in it.
async fn call(app: &AppServer, tool: &str, arguments: Value) -> Result<Value, ToolError> {
    let answer = super::call(&app.front.url, tool, arguments).await;
    let told = format!("{answer:?}");
    assert!(!told.contains(SANDBOX_KEY) && !told.contains(KEY), "{told}");
    answer
}

async fn started(app: &AppServer) -> Value {
    let task = json!({"task": "Fix it", "wait_seconds": 0});
    let run = call(app, "run_task", task).await.unwrap();
    assert_eq!(run["status"], "queued", "{run}");
    json!({"task_id": run["task_id"]})
}

#[tokio::test]
async fn a_task_is_started_in_a_sandbox_and_followed_there() {
    let app = AppServer::start().await;
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
    // Our key stays with the app server, and nothing is started by ourselves.
    let asked = app.sandbox.seen("");
    assert!(!asked.is_empty() && asked.iter().all(|seen| !seen.head.contains(KEY)));
    assert!(app.sandbox.seen("POST /api/conversations ").is_empty());
    for tool in ["get_task_status", "get_task_result", "wait_task"] {
        let id = json!({"task_id": run["task_id"]});
        assert_eq!(call(&app, tool, id).await.unwrap()["status"], "finished");
    }
}

#[tokio::test]
async fn a_sandbox_that_starts_is_a_task_in_line() {
    let app = AppServer::start().await;
    let id = started(&app).await;
    let mut told = Vec::new();
    for _ in 0..=STEPS.len() {
        let state = call(&app, "get_task_status", id.clone()).await.unwrap();
        told.push(state["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(told.first().unwrap(), "queued");
    assert_eq!(told.last().unwrap(), "finished");
    let nobody = call(&app, "get_task_status", json!({"task_id": ID})).await;
    assert_eq!(nobody.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn the_same_key_is_one_start() {
    let app = AppServer::start().await;
    let order = json!({"task": "t", "idempotency_key": "k", "wait_seconds": 0});
    let first = call(&app, "run_task", order.clone()).await.unwrap();
    let early = call(&app, "run_task", order.clone()).await.unwrap();
    app.ready();
    let late = call(&app, "run_task", order).await.unwrap();
    assert_eq!(first["task_id"], early["task_id"]);
    assert_eq!(first["task_id"], late["task_id"]);
    assert_eq!(app.state.lock().unwrap().starts.len(), 1);
}

#[tokio::test]
async fn a_start_that_fails_is_a_task_that_failed() {
    let app = AppServer::start().await;
    app.state.lock().unwrap().fails = true;
    let run = call(&app, "run_task", json!({"task": "t"})).await.unwrap();
    assert_eq!(run["status"], "failed", "{run}");
    // What the app server says names its machines.
    assert!(!run.to_string().contains("registry"), "{run}");
    let events = json!({"task_id": run["task_id"]});
    let events = call(&app, "get_task_changes", events).await.unwrap_err();
    assert!(
        events.message().contains("could not be started"),
        "{events}"
    );
}

#[tokio::test]
async fn a_sandbox_that_is_paused_is_woken() {
    let app = AppServer::start().await;
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
    assert_eq!(app.front.seen(&resume).len(), 1);
    let told = app.sandbox.seen("POST /api/conversations/");
    assert!(told.iter().any(|seen| seen.body.contains("Go on")));
    app.state.lock().unwrap().sandbox = "MISSING";
    let gone = call(&app, "get_task_status", id).await.unwrap();
    assert_eq!(gone["status"], "failed", "{gone}");
}

#[tokio::test]
async fn tasks_are_listed_and_deleted_at_the_app_server() {
    let app = AppServer::start().await;
    let id = started(&app).await;
    app.ready();
    let list = json!({"limit": 5, "cursor": "MQ=="});
    let list = call(&app, "list_tasks", list).await.unwrap();
    let row = json!({"task_id": id["task_id"], "status": "finished", "task": "Conversation 82183",
        "created_at": "2026-11-21T09:48:26", "cost": 0.25});
    assert_eq!(list, json!({"tasks": [row], "next_cursor": "Mg=="}));
    let asked = app.front.seen("GET /api/v1/app-conversations/search");
    assert!(asked[0].target.ends_with("?limit=5&page_id=MQ%3D%3D"));
    let unsure = call(&app, "delete_task", id.clone()).await.unwrap_err();
    assert!(unsure.message().contains("sandbox"), "{unsure}");
    let sure = json!({"task_id": id["task_id"], "confirm": id["task_id"]});
    let gone = call(&app, "delete_task", sure).await.unwrap();
    assert_eq!(gone["deleted"], true);
    assert_eq!(app.front.seen("DELETE /api/v1/app-conversations/").len(), 1);
}

#[tokio::test]
async fn what_makes_no_sense_there_is_said_in_one_line() {
    let app = AppServer::start().await;
    let cases = [
        ("fork_task", json!({"task_id": ID})),
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
