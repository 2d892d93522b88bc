//! `run_task` and `cancel_task` while the agent server misbehaves: no task is lost or started twice.

use std::sync::{Arc, Mutex};

use mcp_core::tool::{Call, ToolErrorKind as Kind};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, assert_error, openhands, try_call};

const CREATE: &str = "POST /api/conversations";
const UPLOAD: &str = "POST /api/file/upload";

fn is_poll(request: &RecordedRequest) -> bool {
    let target = &request.target;
    target.starts_with("GET /api/conversations/") && target.len() == 23 + 36
}

/// An agent server that answers polls with `reply`.
async fn polled(reply: impl Fn() -> Reply + Send + Sync + 'static) -> FakeAgentServer {
    FakeAgentServer::start(move |request, _| match is_poll(request) {
        true => reply(),
        false => Reply::Default,
    })
    .await
}

/// An agent server that does not confirm the creation of a task, the first time or always.
async fn unconfirmed(always: bool) -> FakeAgentServer {
    FakeAgentServer::start(move |request, before| match request.target.as_str() {
        CREATE if always || before == 0 => Reply::Disconnect,
        _ => Reply::Default,
    })
    .await
}

fn running() -> Reply {
    Reply::Json(200, json!({"execution_status": "running"}))
}

#[tokio::test]
async fn files_are_uploaded_before_the_agent_starts() {
    let fake = FakeAgentServer::start(|_, _| Reply::Default).await;
    let arguments = json!({"task": "Fix it", "context": {"file": "src/ä b.py", "content": "x=1"}});
    let run = fake.call("run_task", arguments).await;
    assert_eq!(run["status"], "finished");
    assert_eq!(run["result"], "all good");
    let id = run["task_id"].as_str().unwrap();
    let directory = format!("%2Fhome%2Fagent%2Fmcp-tasks%2F{id}");
    let upload = format!("{UPLOAD}?path={directory}%2Fsrc%2F%C3%A4+b.py");
    let script = "POST /api/bash/execute_bash_command".to_owned();
    // The second script reads the changed files.
    let order = [upload, script.clone(), CREATE.to_owned(), script];
    assert_eq!(fake.targets("POST"), order);
    let created = fake.requests(CREATE)[0].json();
    assert_eq!(created["conversation_id"], run["task_id"]);
    let prompt = &created["initial_message"]["content"][0]["text"];
    assert!(prompt.as_str().unwrap().contains("`src/ä b.py`"));
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
        Reply::Json(status, json!({"execution_status": "idle", "tags": tags}))
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
async fn same_key_is_the_same_task() {
    let mut arguments = json!({"task": "t", "idempotency_key": "k", "wait_seconds": 0,
        "context": {"file": "a", "content": "1"}});
    // The conversation, once it is created.
    let created = Mutex::new(None);
    let fake = FakeAgentServer::start(move |request, _| match request.target.as_str() {
        CREATE => {
            let tags = &request.json()["tags"];
            let conversation = json!({"execution_status": "idle", "tags": tags});
            *created.lock().unwrap() = Some(conversation.clone());
            Reply::Json(201, conversation)
        }
        _ if is_poll(request) => match created.lock().unwrap().clone() {
            Some(conversation) => Reply::Json(200, conversation),
            None => Reply::not_found(),
        },
        _ => Reply::Default,
    })
    .await;
    let first = fake.call("run_task", arguments.clone()).await;
    let second = fake.call("run_task", arguments.clone()).await;
    assert_eq!(first["task_id"], second["task_id"]);
    assert_eq!(fake.requests(UPLOAD).len(), 1);
    assert_eq!(fake.requests(CREATE).len(), 1);
    arguments["context"]["content"] = json!("2");
    let error = fake.refuse("run_task", arguments).await;
    assert_error(&error, Kind::Conflict, "idempotency_key");
}

#[tokio::test]
async fn single_failed_poll_is_ignored() {
    let fake = FakeAgentServer::start(|request, before| match before {
        0 if is_poll(request) => running(),
        1 if is_poll(request) => Reply::Disconnect,
        _ => Reply::Default,
    })
    .await;
    let run = fake.call("run_task", json!({"task": "t"})).await;
    assert_eq!(run["status"], "finished");
}

#[tokio::test]
async fn started_task_keeps_its_id_if_all_polls_fail() {
    for reply in [|| Reply::Disconnect, || Reply::Hang, || Reply::Html(200)] {
        let fake = polled(reply).await;
        let arguments = json!({"task": "t", "wait_seconds": 1});
        let run = fake.call("run_task", arguments).await;
        let status = run["status"].as_str();
        assert!(matches!(status, Some("unknown" | "running")), "{run}");
        let next = run["next"].as_str().unwrap();
        let tools = ["get_task_status", "wait_task"];
        assert!(tools.iter().any(|tool| next.contains(tool)), "{run}");
        assert_eq!(run["task_id"].as_str().unwrap().len(), 36);
    }
}

#[tokio::test]
async fn cancelled_call_stops_the_task() {
    let seen = Arc::new(Notify::new());
    let poll = Arc::clone(&seen);
    let fake = polled(move || {
        poll.notify_one();
        running()
    })
    .await;
    let token = CancellationToken::new();
    let client = Call::default().with_cancellation(token.clone());
    let cancel = async {
        seen.notified().await;
        token.cancel();
    };
    let arguments = json!({"task": "t"});
    let run = try_call(openhands(&fake.url), "run_task", arguments, &client);
    let (result, ()) = tokio::join!(run, cancel);
    assert_eq!(result.unwrap().unwrap_err().kind(), Kind::Cancelled);
    let requests = fake.targets("POST");
    assert!(requests[2].ends_with("/interrupt"), "{requests:?}");
}

#[tokio::test]
async fn ended_task_is_not_stopped() {
    let fake = FakeAgentServer::start(|_, _| Reply::Default).await;
    let result = fake.call("cancel_task", json!({"task_id": ID})).await;
    assert_eq!(result["status"], "finished");
    let message = "It was not running any more; nothing was changed.";
    assert_eq!(result["message"], message);
    assert!(fake.requests("POST").is_empty());
}

#[tokio::test]
async fn unconfirmed_stop_is_reported() {
    let fake = FakeAgentServer::start(|request, _| {
        if request.target.ends_with("/interrupt") {
            Reply::Disconnect
        } else if is_poll(request) {
            running()
        } else {
            Reply::Default
        }
    })
    .await;
    let error = fake.refuse("cancel_task", json!({"task_id": ID})).await;
    assert!(error.message().contains("has not confirmed"), "{error}");
}
