//! Tasks that go on: a start that fails, a profile that is gone, and the result for a URL.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use openhands_api::TaskId;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, assert_error, options, try_call};
use crate::OpenHands;
use crate::task::deliver_results;

const OLD_URL: &str = "http://127.0.0.1:1/old";
const EVENTS: &str = "POST /api/conversations/82183f0e-7464-499a-a27d-37531b07889f/events";

type Tags = Arc<Mutex<Value>>;

/// A finished task with `tags`; `reply` decides about the other requests.
async fn finished(
    tags: Value,
    reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
) -> (FakeAgentServer, Tags) {
    let tags = Arc::new(Mutex::new(tags));
    let shared = Arc::clone(&tags);
    let fake = FakeAgentServer::start(move |request, _| {
        let mut tags = shared.lock().unwrap();
        if request.target.starts_with("PATCH") {
            *tags = request.json()["tags"].clone();
        } else if request.target.starts_with("GET") && request.path().ends_with(ID) {
            return Reply::Json(
                200,
                json!({"id": ID, "execution_status": "finished", "tags": *tags}),
            );
        }
        reply(request)
    });
    (fake.await, tags)
}

fn service(fake: &FakeAgentServer) -> Arc<OpenHands> {
    let mut options = options(&fake.url);
    let own = fake.url.trim_start_matches("http://").to_owned();
    options.openhands_callback_hosts = vec!["127.0.0.1:1".into(), own];
    Arc::new(OpenHands::new(options).unwrap())
}

async fn send_message(fake: &FakeAgentServer, more: Value) -> Result<Value, ToolError> {
    let mut arguments = json!({"task_id": ID, "message": "go on", "wait_seconds": 0});
    let more = more.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(more);
    let call = Call::default();
    let sent = try_call(service(fake), "send_message", arguments, &call);
    sent.await.unwrap()
}

#[tokio::test]
async fn failed_start_keeps_the_callback_and_says_that_the_message_was_taken() {
    let old = json!({"mcpcallback": OLD_URL, "mcpdelivery": "done", "mcpseconds": "60"});
    let (fake, tags) = finished(old, |request| match request.path().ends_with("/run") {
        true => Reply::Json(500, json!({})),
        false => Reply::Default,
    })
    .await;
    let error = send_message(&fake, json!({"callback_url": "http://127.0.0.1:1/new"})).await;
    let error = error.unwrap_err();
    assert!(error.message().contains("do not send it again"), "{error}");
    assert_eq!(fake.requests(EVENTS).len(), 1);
    let tags = tags.lock().unwrap().clone();
    assert_eq!(
        (&tags["mcpcallback"], &tags["mcpdelivery"]),
        (&json!(OLD_URL), &json!("done"))
    );
}

#[tokio::test]
async fn profile_that_is_gone_is_found_before_the_message_or_not_needed() {
    let gone = |request: &RecordedRequest| match request.path() {
        "/api/profiles" => Reply::Json(200, json!({"profiles": []})),
        path if path.ends_with("/switch_profile") => Reply::not_found(),
        _ => Reply::Default,
    };
    let (fake, _) = finished(json!({"mcpmodel": "m"}), gone).await;
    let error = send_message(&fake, json!({})).await.unwrap_err();
    assert_error(&error, ToolErrorKind::Conflict, "no profile of the model m");
    assert_eq!(fake.requests(EVENTS).len(), 0);
    // A task that has run has its model.
    let (fake, _) = finished(json!({"mcpmodel": "m", "mcpleft": "5"}), gone).await;
    send_message(&fake, json!({})).await.unwrap();
    assert_eq!(fake.requests(EVENTS).len(), 1);
}

#[tokio::test]
async fn result_is_not_sent_while_the_next_run_starts_and_its_record_keeps_the_deadline() {
    let (fake, tags) = finished(json!({}), |_| Reply::Default).await;
    let url = format!("{}/hook", fake.url);
    *tags.lock().unwrap() = json!({"mcpcallback": url, "mcpdeadline": "4000000000"});
    let (service, id) = (service(&fake), TaskId::try_from(ID.to_owned()).unwrap());
    let lock = service.scheduler.starts.lock(id).await;
    service.callbacks.expect(id);
    let deliver = async || {
        let time = Duration::from_millis(500);
        assert!(timeout(time, deliver_results(&service)).await.is_err());
    };
    deliver().await;
    assert_eq!(fake.requests("POST /hook").len(), 0);
    drop(lock);
    deliver().await;
    assert_eq!(fake.requests("POST /hook").len(), 1);
    let tags = tags.lock().unwrap().clone();
    assert_eq!(
        (&tags["mcpdelivery"], &tags["mcpdeadline"]),
        (&json!("done"), &json!("4000000000"))
    );
}
