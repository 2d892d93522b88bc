//! `run_task` and `cancel_task` while the agent server misbehaves: no task is lost or started twice.

use mcp_core::tool::ToolErrorKind as Kind;
use serde_json::{Value, json};

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, assert_error};

const CREATE: &str = "POST /api/conversations";

fn is_poll(request: &RecordedRequest) -> bool {
    let target = &request.target;
    target.starts_with("GET /api/conversations/") && target.len() == 23 + 36
}

/// An agent server that does not confirm the creation of a task, the first time or always.
async fn unconfirmed(always: bool) -> FakeAgentServer {
    FakeAgentServer::start(move |request, before| match request.target.as_str() {
        CREATE if always || before == 0 => Reply::Disconnect,
        _ => Reply::Default,
    })
    .await
}

#[tokio::test]
async fn nothing_is_created_without_a_model() {
    let fake = FakeAgentServer::start(|request, _| match request.target.as_str() {
        "GET /api/settings" => Reply::Json(
            200,
            json!({"agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
                "llm_api_key_is_set": false, "active_agent_profile_id": null}),
        ),
        _ => Reply::Default,
    })
    .await;
    let error = fake.refuse("run_task", json!({"task": "t"})).await;
    assert_error(&error, Kind::Conflict, "PATCH /api/settings");
    // To list the profiles would create a broken one.
    assert_eq!(fake.requests("GET /api/agent-profiles").len(), 0);
    assert_eq!(fake.requests("POST").len(), 0);
}

#[tokio::test]
async fn full_agent_server_queues_the_task() {
    let idle = |status, tags: &Value| {
        Reply::Json(
            status,
            json!({"id": super::ID, "execution_status": "idle", "tags": tags}),
        )
    };
    let fake = FakeAgentServer::start(move |request, before| match request.target.as_str() {
        CREATE if before == 0 => Reply::Json(429, json!({"detail": "Run limit reached."})),
        CREATE => {
            let body = request.json();
            let prompt = body.get("initial_message");
            assert!(prompt.is_none(), "it would run: {body}");
            idle(201, &body["tags"])
        }
        _ if is_poll(request) => idle(200, &json!({"mcpwaits": "room"})),
        _ => Reply::Default,
    })
    .await;
    let arguments = json!({"task": "t", "wait_seconds": 0});
    let run = fake.call("run_task", arguments).await;
    assert_eq!(run["status"], "queued");
    let id = run["task_id"].as_str().unwrap();
    let prompts = fake.requests(&format!("POST /api/conversations/{id}/events"));
    assert_eq!(prompts.len(), 1);
    let prompt = prompts[0].json();
    assert_eq!(prompt["run"], false);
    assert_eq!(prompt["content"][0]["text"], "t");
}

#[tokio::test]
async fn lost_response_is_retried_with_the_same_id() {
    let fake = unconfirmed(false).await;
    let run = fake.call("run_task", json!({"task": "t"})).await;
    let creates = fake.requests(CREATE);
    assert_eq!(creates.len(), 2);
    assert_eq!(creates[0].body, creates[1].body);
    assert!(creates[0].body.contains(run["task_id"].as_str().unwrap()));
}

#[tokio::test]
async fn unconfirmed_start_reports_the_id() {
    let fake = unconfirmed(true).await;
    let error = fake.refuse("run_task", json!({"task": "t"})).await;
    let created = fake.requests(CREATE)[0].json();
    let id = created["conversation_id"].as_str().unwrap();
    assert!(error.message().contains("not known"), "{error}");
    assert!(error.message().contains(id), "{error}");
}

#[tokio::test]
async fn unconfirmed_stop_is_reported() {
    let fake = FakeAgentServer::start(|request, _| {
        if request.target.ends_with("/interrupt") {
            Reply::Disconnect
        } else if is_poll(request) {
            Reply::Json(200, json!({"id": super::ID, "execution_status": "running"}))
        } else {
            Reply::Default
        }
    })
    .await;
    let error = fake.refuse("cancel_task", json!({"task_id": ID})).await;
    assert!(error.message().contains("has not confirmed"), "{error}");
}
