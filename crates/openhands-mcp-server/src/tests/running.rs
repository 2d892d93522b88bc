//! `run_task` while the agent server misbehaves: nothing half done, no task lost or run twice.

use std::sync::Arc;

use mcp_core::tool::{Call, ToolErrorKind as Kind};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::fake::{Fake, Reply};
use super::{call, openhands, try_call};

const CREATE: &str = "POST /api/conversations";
const UPLOAD: &str = "POST /api/file/upload";

fn is_poll(target: &str) -> bool {
    target.starts_with("GET /api/conversations/") && target.len() == 23 + 36
}

/// An agent server that answers polls with `reply`, and all else as the real one.
async fn polled(reply: fn() -> Reply) -> Fake {
    Fake::start(move |seen, _| match is_poll(&seen.target) {
        true => reply(),
        false => Reply::Real,
    })
    .await
}

/// An agent server that answers the creation of a task with `reply`, at first or always.
async fn creating(reply: fn() -> Reply, always: bool) -> Fake {
    Fake::start(move |seen, before| match seen.target.as_str() {
        CREATE if always || before == 0 => reply(),
        _ => Reply::Real,
    })
    .await
}

fn running() -> Reply {
    Reply::Json(200, json!({"execution_status": "running"}))
}

#[tokio::test]
async fn the_file_is_there_before_the_agent() {
    let fake = Fake::start(|_, _| Reply::Real).await;
    let arguments = json!({"task": "Fix it", "context": {"file": "src/ä b.py", "content": "x=1"}});
    let run = call(&fake.url, "run_task", arguments).await.unwrap();
    assert_eq!(
        (&run["status"], &run["result"]),
        (&json!("finished"), &json!("all good"))
    );
    let order = fake.targets("POST");
    let id = run["task_id"].as_str().unwrap();
    let upload = format!(
        "POST /api/file/upload?path=%2Fhome%2Fagent%2Fmcp-tasks%2F{id}%2Fsrc%2F%C3%A4+b.py"
    );
    let prepare = "POST /api/bash/execute_bash_command".to_owned();
    // Afterwards what changed.
    assert_eq!(order, [upload, prepare.clone(), CREATE.to_owned(), prepare]);
    let created = fake.seen(CREATE)[0].json();
    assert_eq!(created["conversation_id"], run["task_id"]);
    let prompt = created["initial_message"]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(prompt.contains("`src/ä b.py`"));
}

#[tokio::test]
async fn no_model_no_task() {
    let fake = Fake::start(|seen, _| match seen.target.as_str() {
        "GET /api/settings" => Reply::Json(
            200,
            json!({"agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
                "llm_api_key_is_set": false, "active_agent_profile_id": null}),
        ),
        _ => Reply::Real,
    })
    .await;
    let error = call(&fake.url, "run_task", json!({"task": "t"}))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("PATCH /api/settings"), "{error}");
    // Listing the profiles now would leave a broken one behind.
    assert_eq!(fake.seen("GET /api/agent-profiles").len(), 0);
    assert_eq!(fake.seen("POST").len(), 0);
}

#[tokio::test]
async fn a_full_server_keeps_the_task_in_line() {
    let fake = Fake::start(|seen, before| match seen.target.as_str() {
        CREATE if before == 0 => Reply::Json(429, json!({"detail": "Run limit reached."})),
        CREATE => {
            let body = seen.json();
            assert!(
                body.get("initial_message").is_none(),
                "it would run: {body}"
            );
            Reply::Json(
                201,
                json!({"execution_status": "idle", "tags": body["tags"]}),
            )
        }
        target if is_poll(target) => Reply::Json(
            200,
            json!({"execution_status": "idle", "tags": {"mcpwaits": "room"}}),
        ),
        _ => Reply::Real,
    })
    .await;
    let run = call(
        &fake.url,
        "run_task",
        json!({"task": "t", "wait_seconds": 0}),
    )
    .await
    .unwrap();
    assert_eq!(run["status"], "queued");
    let id = run["task_id"].as_str().unwrap();
    let told = fake.seen(&format!("POST /api/conversations/{id}/events"));
    assert_eq!(told.len(), 1);
    let told = told[0].json();
    assert_eq!(
        (&told["run"], &told["content"][0]["text"]),
        (&json!(false), &json!("t"))
    );
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_id() {
    let fake = creating(|| Reply::Hangup, false).await;
    let run = call(&fake.url, "run_task", json!({"task": "t"}))
        .await
        .unwrap();
    let creates = fake.seen(CREATE);
    assert_eq!(creates.len(), 2);
    assert_eq!(creates[0].body, creates[1].body);
    assert!(creates[0].body.contains(run["task_id"].as_str().unwrap()));
}

#[tokio::test]
async fn a_start_that_nobody_confirms_names_the_id() {
    let fake = creating(|| Reply::Hangup, true).await;
    let error = call(&fake.url, "run_task", json!({"task": "t"}))
        .await
        .unwrap_err();
    let created = fake.seen(CREATE)[0].json();
    let id = created["conversation_id"].as_str().unwrap();
    assert!(
        error.message().contains("not certain") && error.message().contains(id),
        "{error}"
    );
}

#[tokio::test]
async fn the_same_key_is_the_same_task() {
    let arguments = json!({"task": "t", "idempotency_key": "k", "wait_seconds": 0,
        "context": {"file": "a", "content": "1"}});
    // New at first: found afterwards, with the tags that it was given.
    let tags = Arc::new(std::sync::Mutex::new(None));
    let fake = Fake::start(move |seen, _| match seen.target.as_str() {
        CREATE => {
            let body = seen.json();
            let info = json!({"execution_status": "idle", "tags": body["tags"]});
            *tags.lock().unwrap() = Some(info.clone());
            Reply::Json(201, info)
        }
        target if is_poll(target) => match tags.lock().unwrap().clone() {
            Some(info) => Reply::Json(200, info),
            None => Reply::Json(404, json!({"detail": "Not Found"})),
        },
        _ => Reply::Real,
    })
    .await;
    let first = call(&fake.url, "run_task", arguments.clone())
        .await
        .unwrap();
    let second = call(&fake.url, "run_task", arguments.clone())
        .await
        .unwrap();
    assert_eq!(first["task_id"], second["task_id"]);
    assert_eq!(fake.seen(UPLOAD).len(), 1);
    assert_eq!(fake.seen(CREATE).len(), 1);
    let mut other = arguments;
    other["context"]["content"] = json!("2");
    let error = call(&fake.url, "run_task", other).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.message().contains("idempotency_key"), "{error}");
}

#[tokio::test]
async fn a_poll_may_fail() {
    let fake = Fake::start(|seen, before| match seen.target.as_str() {
        target if is_poll(target) && before == 0 => running(),
        target if is_poll(target) && before == 1 => Reply::Hangup,
        _ => Reply::Real,
    })
    .await;
    let run = call(&fake.url, "run_task", json!({"task": "t"}))
        .await
        .unwrap();
    assert_eq!(run["status"], "finished");
}

#[tokio::test]
async fn a_started_task_keeps_its_id_whatever_happens() {
    let arguments = json!({"task": "t", "wait_seconds": 1});
    for reply in [|| Reply::Hangup, || Reply::Silence, || Reply::Html(200)] {
        let fake = polled(reply).await;
        let run = call(&fake.url, "run_task", arguments.clone())
            .await
            .unwrap();
        assert!(
            matches!(run["status"].as_str(), Some("unknown" | "running")),
            "{run}"
        );
        let next = run["next"].as_str().unwrap();
        assert!(
            next.contains("get_task_status") || next.contains("wait_task"),
            "{run}"
        );
        assert_eq!(run["task_id"].as_str().unwrap().len(), 36);
    }
}

#[tokio::test]
async fn a_caller_that_gives_up_stops_the_task() {
    let polled = Arc::new(Notify::new());
    let seen_poll = Arc::clone(&polled);
    let fake = Fake::start(move |seen, _| {
        if is_poll(&seen.target) {
            seen_poll.notify_one();
            return running();
        }
        Reply::Real
    })
    .await;
    let token = CancellationToken::new();
    let client = Call::default().with_cancellation(token.clone());
    let gives_up = async {
        polled.notified().await;
        token.cancel();
    };
    let running = try_call(
        openhands(&fake.url),
        "run_task",
        json!({"task": "t"}),
        &client,
    );
    let (answer, ()) = tokio::join!(running, gives_up);
    assert_eq!(answer.unwrap().unwrap_err().kind(), Kind::Cancelled);
    let stopped = fake.targets("POST");
    assert!(stopped[2].ends_with("/interrupt"), "{stopped:?}");
}

#[tokio::test]
async fn what_has_ended_is_not_stopped() {
    let fake = Fake::start(|_, _| Reply::Real).await;
    let answer = call(&fake.url, "cancel_task", json!({"task_id": super::ID})).await;
    let answer = answer.unwrap();
    assert_eq!(answer["status"], "finished");
    assert_eq!(
        answer["message"],
        "It was not running any more; nothing was changed."
    );
    assert!(fake.seen("POST").is_empty());
}

#[tokio::test]
async fn a_stop_that_nobody_confirms_is_said() {
    let fake = Fake::start(|seen, _| {
        if seen.target.ends_with("/interrupt") {
            return Reply::Hangup;
        }
        if is_poll(&seen.target) {
            return running();
        }
        Reply::Real
    })
    .await;
    let answer = call(&fake.url, "cancel_task", json!({"task_id": super::ID})).await;
    let error = answer.unwrap_err();
    assert!(error.message().contains("has not confirmed"), "{error}");
}
