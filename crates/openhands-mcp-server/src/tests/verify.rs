//! The command that checks a finished task: it runs once, and no tag is lost.

use std::sync::{Arc, Mutex};

use mcp_core::tool::Call;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, openhands, try_call};
use crate::OpenHands;

const START: &str = "POST /api/bash/start_bash_command";
const PATCH: &str = "PATCH /api/conversations/";

/// The conversation of a finished task, its tags and the scripts that have ended.
struct Task {
    conversation: Value,
    ended: Vec<Uuid>,
}

type SharedTask = Arc<Mutex<Task>>;

/// A finished task with a verify command and `tags`.
fn finished(tags: &Value) -> SharedTask {
    let mut conversation = json!({"id": ID, "execution_status": "finished", "max_iterations": 500,
        "tags": {"mcpverify": "true"}});
    let tags = tags.as_object().unwrap().clone();
    conversation["tags"].as_object_mut().unwrap().extend(tags);
    let ended = vec![];
    Arc::new(Mutex::new(Task {
        conversation,
        ended,
    }))
}

fn reply(task: &mut Task, request: &RecordedRequest) -> Reply {
    let path = request.path().to_owned();
    if request.target.starts_with(PATCH) {
        task.conversation["tags"] = request.json()["tags"].clone();
        return Reply::Json(200, json!({"success": true}));
    }
    if request.target.starts_with(START) {
        let id = Uuid::new_v4();
        task.ended.push(id);
        return Reply::Json(200, json!({"id": id}));
    }
    if path.ends_with("/bash_events/search") {
        let has_ended = |id: &Uuid| request.target.contains(&id.simple().to_string());
        let outputs = task.ended.iter().filter(|id| has_ended(id));
        let outputs: Vec<_> = outputs.map(|_| json!({"exit_code": 0})).collect();
        return Reply::Json(200, json!({"items": outputs, "next_page_id": null}));
    }
    match path.ends_with(ID) {
        true => Reply::Json(200, task.conversation.clone()),
        false => Reply::Default,
    }
}

/// An agent server with the task; `at_start` is called when the command starts.
async fn serve(
    task: &SharedTask,
    at_start: impl Fn(&mut Value) + Send + Sync + 'static,
) -> FakeAgentServer {
    let task = Arc::clone(task);
    FakeAgentServer::start(move |request, _| {
        let mut task = task.lock().unwrap();
        if request.target.starts_with(START) {
            at_start(&mut task.conversation);
        }
        reply(&mut task, request)
    })
    .await
}

fn writing(fake: &FakeAgentServer) -> Arc<OpenHands> {
    let service = openhands(&fake.url);
    service.allow_checks();
    Arc::new(service)
}

async fn result(service: &Arc<OpenHands>) -> Value {
    let (service, arguments) = (Arc::clone(service), json!({"task_id": ID}));
    let call = Call::default();
    let read = try_call(service, "get_task_result", arguments, &call);
    read.await.unwrap().unwrap()
}

#[tokio::test]
async fn readers_at_the_same_time_start_the_command_once() {
    let fake = serve(&finished(&json!({})), |_| {}).await;
    let service = writing(&fake);
    let (one, other) = tokio::join!(result(&service), result(&service));
    assert_eq!(
        (&one["verified"], &other["verified"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(result(&service).await["verified"], true);
    assert_eq!(fake.requests(START).len(), 1);
}

#[tokio::test]
async fn tags_that_are_set_meanwhile_stay() {
    let task = finished(&json!({}));
    let fake = serve(&task, |task| task["tags"]["team"] = json!("a")).await;
    assert_eq!(result(&writing(&fake)).await["verified"], true);
    let tags = task.lock().unwrap().conversation["tags"].clone();
    assert_eq!(tags["team"], "a");
    assert!(tags["mcpcheck"].is_string());
}

#[tokio::test]
async fn task_that_runs_again_meanwhile_is_not_tagged() {
    let again = |task: &mut Value| task["execution_status"] = json!("running");
    let fake = serve(&finished(&json!({})), again).await;
    assert!(result(&writing(&fake)).await["verified"].is_null());
    assert_eq!(fake.requests(PATCH).len(), 0);
}

#[tokio::test]
async fn read_only_server_starts_no_command() {
    let fake = serve(&finished(&json!({})), |_| {}).await;
    let read = result(&Arc::new(openhands(&fake.url))).await;
    assert!(
        read["warnings"][0].as_str().unwrap().contains("read-only"),
        "{read}"
    );
    assert!(read["verified"].is_null());
    assert_eq!(fake.requests(START).len(), 0);
}

#[tokio::test]
async fn lost_run_is_repeated_once() {
    let lost = format!("{}-0-1", Uuid::new_v4().simple());
    let fake = serve(&finished(&json!({"mcpcheck": lost})), |_| {}).await;
    assert_eq!(result(&writing(&fake)).await["verified"], true);
    assert_eq!(fake.requests(START).len(), 1);
    let fake = serve(&finished(&json!({"mcpcheck": lost + "-repeat"})), |_| {}).await;
    let read = result(&writing(&fake)).await;
    assert!(
        read["warnings"][0].as_str().unwrap().contains("lost"),
        "{read}"
    );
    assert_eq!(fake.requests(START).len(), 0);
}
