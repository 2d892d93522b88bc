//! Tasks that go on: a start that fails, a profile that is gone, and the result for a URL.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use upstream::time::Timestamp;

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, assert_error, options, try_call};
use crate::OpenHands;
use crate::api::TaskId;
use crate::tags::StopReason;
use crate::task::deliver_results;

const OLD_URL: &str = "http://127.0.0.1:1/old";
const EVENTS: &str = "POST /api/conversations/82183f0e-7464-499a-a27d-37531b07889f/events";

type Tags = Arc<Mutex<Value>>;

/// A finished task with `tags`; `reply` decides about the other requests.
async fn finished(
    tags: Value,
    reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
) -> (FakeAgentServer, Tags) {
    stopped(tags, || "finished", reply).await
}

/// The same of a task with this state.
async fn stopped(
    tags: Value,
    state: impl Fn() -> &'static str + Send + Sync + 'static,
    reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
) -> (FakeAgentServer, Tags) {
    let tags = Arc::new(Mutex::new(tags));
    let shared = Arc::clone(&tags);
    let ended = Timestamp::now().to_string();
    let fake = FakeAgentServer::start(move |request, _| {
        let mut tags = shared.lock().unwrap();
        if request.target.starts_with("PATCH") {
            *tags = request.json()["tags"].clone();
        } else if request.target.starts_with("GET") && request.path().ends_with(ID) {
            return Reply::Json(
                200,
                json!({"id": ID, "execution_status": state(), "tags": *tags,
                    "updated_at": ended}),
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
async fn call_that_continues_a_task_waits_until_the_run_has_begun() {
    // The reads of the task after it was told to run. A message makes a finished task idle.
    let reads = Arc::new(Mutex::new(None));
    let (seen, told) = (Arc::clone(&reads), Arc::clone(&reads));
    let state = move || match &mut *seen.lock().unwrap() {
        None => "finished",
        Some(reads) => {
            *reads += 1;
            if *reads < 4 { "idle" } else { "finished" }
        }
    };
    let (fake, tags) = stopped(json!({"mcpcallback": OLD_URL}), state, move |request| {
        let mut reads = told.lock().unwrap();
        if request.path().ends_with("/run") {
            *reads = Some(0);
        }
        if !request.target.contains("ConversationStateUpdateEvent") {
            return Reply::Default;
        }
        let state = |at: u32, value: &str| {
            json!({"timestamp": format!("2026-01-01T00:00:0{at}"), "key": "execution_status",
                "value": value})
        };
        let mut states = vec![state(1, "running"), state(2, "finished")];
        if reads.is_some_and(|reads| reads >= 4) {
            states.push(state(3, "running"));
        }
        if request.target.contains("TIMESTAMP_DESC") {
            states.reverse();
        }
        Reply::Json(200, json!({"items": states, "next_page_id": null}))
    })
    .await;
    let sent = send_message(&fake, json!({})).await.unwrap();
    assert_eq!(sent["status"], "finished", "{sent}");
    assert!(reads.lock().unwrap().is_some_and(|reads| reads >= 4));
    assert!(tags.lock().unwrap()["mcpcallback"].is_string());
}

#[tokio::test]
async fn end_of_the_last_run_is_not_that_of_a_run_that_begins_while_the_task_is_read() {
    let deadline = (Timestamp::now().as_second() + 50).to_string();
    let tags = json!({"mcpseconds": "100", "mcpdeadline": deadline, "mcpsteps": "3"});
    // The state is still that of a run of two steps, the count already that of the next one.
    let fake = FakeAgentServer::start(move |request, before| match request.path() {
        path if path.ends_with(ID) => {
            let (state, at) = match before {
                0 => ("error", 1),
                1 => ("running", 2),
                _ => ("finished", 3),
            };
            let at = format!("2026-01-01T00:00:0{at}Z");
            let task = json!({"id": ID, "execution_status": state, "tags": tags, "updated_at": at});
            Reply::Json(200, task)
        }
        path if path.ends_with("/events/count") => Reply::Json(200, json!(3)),
        _ if request.target.contains("ConversationErrorEvent") => {
            let error = json!({"timestamp": "2026-01-01", "code": "MaxIterationsReached"});
            Reply::Json(200, json!({"items": [error], "next_page_id": null}))
        }
        _ => Reply::Default,
    })
    .await;
    let ended = fake.call("wait_task", json!({"task_id": ID})).await;
    assert_eq!(ended["status"], "finished", "{ended}");
}

#[tokio::test]
async fn profile_that_is_gone_is_found_before_the_message_or_not_needed() {
    let gone = |request: &RecordedRequest| match request.path() {
        "/api/profiles" => Reply::Json(200, json!({"profiles": []})),
        path if path.ends_with("/switch_profile") => Reply::not_found(),
        // The run begins at once.
        _ if request.target.contains("TIMESTAMP&") => {
            let begun = json!({"timestamp": "2026", "key": "execution_status", "value": "running"});
            Reply::Json(200, json!({"items": [begun], "next_page_id": null}))
        }
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
async fn result_is_not_sent_while_the_next_run_starts_and_its_record_keeps_the_time_of_the_run() {
    let (fake, tags) = finished(json!({}), |_| Reply::Default).await;
    let url = format!("{}/hook", fake.url);
    let deadline = (Timestamp::now().as_second() + 50).to_string();
    *tags.lock().unwrap() =
        json!({"mcpcallback": url, "mcpseconds": "100", "mcpdeadline": deadline});
    let (service, id) = (service(&fake), TaskId::try_from(ID.to_owned()).unwrap());
    let lock = service.runner.locks.lock(id).await;
    service.callbacks.expect(id);
    let time = Duration::from_millis(500);
    assert!(timeout(time, deliver_results(&service)).await.is_err());
    assert_eq!(fake.requests("POST /hook").len(), 0);
    drop(lock);
    service.callbacks.expect(id);
    let delivered = async {
        while tags.lock().unwrap()["mcpdelivery"] != "done" {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let delivered = timeout(Duration::from_secs(30), delivered);
    tokio::select! {
        delivered = delivered => delivered.unwrap(),
        _ = deliver_results(&service) => panic!("it goes on for ever"),
    }
    assert_eq!(fake.requests("POST /hook").len(), 1);
    let tags = tags.lock().unwrap().clone();
    // To write tags is an event, so its time is not the end of the run any longer.
    let left: u64 = tags["mcpleft"].as_str().unwrap().parse().unwrap();
    assert!(left >= 49 && tags.get("mcpdeadline").is_none(), "{tags}");
}

#[tokio::test]
async fn time_after_the_end_of_a_run_is_not_counted_when_it_is_tagged() {
    let deadline = (Timestamp::now().as_second() + 50).to_string();
    let tags = json!({"mcpseconds": "100", "mcpdeadline": deadline});
    let (fake, tags) = finished(tags, |_| Reply::Default).await;
    let (service, id) = (service(&fake), TaskId::try_from(ID.to_owned()).unwrap());
    let server = service.servers.shared_agent().await.unwrap();
    sleep(Duration::from_millis(2_100)).await;
    let reason = StopReason::Cancelled;
    let tagged = service.runner.tag_stopped(&server, id, reason).await;
    tagged.unwrap();
    let tags = tags.lock().unwrap().clone();
    let left: u64 = tags["mcpleft"].as_str().unwrap().parse().unwrap();
    assert!(left >= 49, "{tags}");
    assert!(tags.get("mcpdeadline").is_none());
}
