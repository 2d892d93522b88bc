//! Faults of the agent server that the real one cannot be made to show, and invalid arguments.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::Client;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, assert_error, call, tool_error, with};
use crate::harness::{
    FakeService, Request, Response, Server, assert_contains, assert_lacks, eventually,
    stdio_client, wait_until,
};

const KEY: &str = "key-that-must-stay-secret";
/// A task id.
const ID: &str = "82183f0e-7464-499a-a27d-37531b07889f";
const CREATE: &str = "POST /api/conversations";
/// The output of our script for changes, without any: a snapshot, notes, a count, a list, the large files, and the size
/// and text of the diff.
const NO_CHANGES: &str = "5555555555555555555555555555555555555555\n\n0\n\n\n0\n\n";

/// The response of the real agent server while tasks finish at once.
fn response(request: &Request) -> Response {
    let path = request.target.split('?').next().unwrap();
    let body = match path.rsplit('/').next().unwrap() {
        _ if path.starts_with("/api/v1/") => {
            return Response::json(404, &json!({"detail": "Not Found"}));
        }
        "settings" => json!({"active_agent_profile_id": "a", "agent_settings": {}}),
        "agent-profiles" => json!({"active_agent_profile_id": "a"}),
        "home" => json!({"home": "/home/agent"}),
        "count" => json!(0),
        "search" => json!({"items": [], "next_page_id": null}),
        "execute_bash_command" => json!({"exit_code": 0, "stdout": NO_CHANGES}),
        "agent_final_response" => json!({"response": "long ".repeat(2_000)}),
        _ => json!({"id": ID, "execution_status": "finished", "max_iterations": 500}),
    };
    Response::json(200, &body)
}

fn target(request: &Request) -> String {
    format!("{} {}", request.method, request.target)
}

/// An agent server that answers as the real one, unless `answer` does.
async fn fake(
    answer: impl Fn(&str, &Request) -> Option<Response> + Send + Sync + 'static,
) -> FakeService {
    let answer = move |request: &Request| {
        let given = answer(&target(request), request);
        given.unwrap_or_else(|| response(request))
    };
    FakeService::start(answer).await
}

/// The same with one task. `answer` may change it.
async fn fake_with(
    task: Value,
    answer: impl Fn(&str, &mut Value) -> Option<Response> + Send + Sync + 'static,
) -> (FakeService, Arc<Mutex<Value>>) {
    let task = Arc::new(Mutex::new(task));
    let shared = Arc::clone(&task);
    let fake = fake(move |target, request| {
        let mut task = shared.lock().unwrap();
        if request.method == "PATCH" {
            task["tags"] = request.json()["tags"].clone();
        } else if target == format!("GET /api/conversations/{ID}") {
            return Some(Response::json(200, &task));
        }
        answer(target, &mut task)
    });
    (fake.await, task)
}

/// A client of a server that has just started.
async fn client(fake: &FakeService) -> Client {
    let env = [
        ("OPENHANDS_URL", &*fake.url),
        ("OPENHANDS_API_KEY", KEY),
        ("OPENHANDS_CALLBACK_HOSTS", "127.0.0.1:1"),
        ("MCP_TOOLSETS", "all"),
    ];
    stdio_client(NAME, &env).await
}

/// The number of requests whose method and target begin with this.
fn count(fake: &FakeService, start: &str) -> usize {
    let requests = fake.requests();
    let found = requests
        .iter()
        .filter(|sent| target(sent).starts_with(start));
    found.count()
}

#[tokio::test]
async fn arguments_have_bounds() {
    let fake = fake(|_, _| None).await;
    let client = client(&fake).await;
    let (long, longer) = ("x".repeat(257), "x".repeat(200_001));
    let seconds = "an integer from 0 to 600";
    let name = "context.file: the file name ";
    for (more, reason) in [
        (json!({"task": " \n"}), "task must say"),
        (json!({"task": longer}), "context.content"),
        (json!({"task": ["t"]}), "task: invalid type"),
        (
            json!({"task": "t", "context": {"files": ["a.txt"]}}),
            "context.files[0]: invalid type: string, expected an object with `file`, `content`, `encoding`",
        ),
        (json!({"wait_seconds": 601}), seconds),
        (json!({"wait_seconds": -1}), seconds),
        (json!({"idempotency_key": ""}), "idempotency_key must"),
        (json!({"idempotency_key": long}), "idempotency_key must"),
        (json!({"context": {"file": "../x", "content": ""}}), name),
        (
            json!({"context": {"file": ".git/hooks/post-checkout", "content": ""}}),
            name,
        ),
        (
            json!({"context": {"file": "a"}}),
            "context.content is missing",
        ),
        (
            json!({"context": {"branch": "main"}}),
            "context.branch needs",
        ),
        (
            json!({"callback_url": "http://127.0.0.1:2/"}),
            "has the host 127.0.0.1:2",
        ),
        // An empty argument is one that is left out.
        (
            json!({"context": {"file": "", "content": "c"}}),
            "context.file is missing",
        ),
    ] {
        let arguments = with(json!({"task": "t"}), more);
        assert_error(&client, "run_task", arguments, reason).await;
    }
    assert_error(&client, "run_task", json!({}), "missing field `task`").await;
    let task = json!({"task": "t", "idempotency_key": "k"});
    for (tasks, reason) in [
        (json!([]), "1 to 20"),
        (json!(vec![json!({"task": "t"}); 21]), "1 to 20"),
        (
            json!([{"task": "t"}, {"task": " "}]),
            "tasks[1]: task must say",
        ),
        (json!([task, task]), "tasks[1].idempotency_key is"),
    ] {
        assert_error!(client, "run_parallel_tasks", {"tasks": tasks}, reason);
    }
    assert_eq!(count(&fake, "POST"), 0);
}

/// Arguments for a call of a tool.
fn arguments(tool: &str) -> Value {
    match tool {
        "run_task" => json!({"task": "t"}),
        "list_tasks" | "list_agent_profiles" | "get_usage" => json!({}),
        "send_message" => json!({"task_id": ID, "message": "m"}),
        "publish_task" => json!({"task_id": ID, "title": "t"}),
        "respond_confirmation" => json!({"task_id": ID, "confirmation_id": "a", "accept": true}),
        "get_task_file" => json!({"task_id": ID, "file": "a"}),
        "wait_task" | "resume_task" => json!({"task_id": ID, "wait_seconds": 0}),
        _ => json!({"task_id": ID}),
    }
}

#[tokio::test]
async fn all_tools_explain_a_broken_agent_server() {
    let other = "not as an agent server";
    let internal = Response::json(500, &json!({"detail": "boom in /srv/x.py"}));
    let large = Response::Http(200, "application/json", vec![b' '; 9 << 20].into());
    for (reply, part) in [
        (Response::Cut, "does not answer"),
        (internal, "internal problem (HTTP 500)"),
        (Response::html(502), "HTTP 502"),
        (Response::html(200), other),
        (Response::html(404), other),
        (Response::json(200, &json!([])), other),
        (Response::json(405, &json!({})), other),
        (Response::Http(307, "text/html", "".into()), other),
        (large, "too large"),
    ] {
        let fake = fake(move |_, _| Some(reply.clone())).await;
        let client = client(&fake).await;
        for tool in client.list_tools().await.unwrap() {
            // It reports an error for each task.
            if tool.name == "run_parallel_tasks" {
                continue;
            }
            let error = tool_error(&client, &tool.name, arguments(&tool.name)).await;
            assert_contains(&error, part);
            for secret in [KEY, "SECRET-BODY", "/srv/x.py"] {
                assert_lacks(&error, secret);
            }
        }
    }
}

#[tokio::test]
async fn key_that_an_app_server_refuses_is_reported() {
    let fake = fake(|target, _| {
        let is_count = target == "GET /api/v1/app-conversations/count";
        is_count.then(|| Response::json(401, &json!({"detail": "Unauthorized"})))
    })
    .await;
    for (key, advice) in [
        (KEY, "correct OPENHANDS_API_KEY"),
        ("", "set OPENHANDS_API_KEY"),
    ] {
        let env = [("OPENHANDS_URL", &*fake.url), ("OPENHANDS_API_KEY", key)];
        let client = stdio_client(NAME, &env).await;
        assert_error!(client, "list_tasks", {}, advice);
    }
}

#[tokio::test]
async fn nothing_is_created_without_a_model() {
    let settings = json!({"agent_settings": {"agent_kind": "openhands", "llm": {"base_url": null}},
        "llm_api_key_is_set": false, "active_agent_profile_id": null});
    let fake = fake(move |target, _| {
        (target == "GET /api/settings").then(|| Response::json(200, &settings))
    })
    .await;
    assert_error!(client(&fake).await, "run_task", {"task": "t"}, "PATCH /api/settings");
    // To list the profiles would create a broken one.
    assert_eq!(count(&fake, "GET /api/agent-profiles"), 0);
    assert_eq!(count(&fake, "POST"), 0);
}

#[tokio::test]
async fn full_agent_server_is_asked_again_and_then_refuses() {
    let full = |refusals: u32| {
        let asked = AtomicU32::new(0);
        fake(move |target, _| {
            let is_full = target == CREATE && asked.fetch_add(1, Ordering::Relaxed) < refusals;
            is_full.then(|| Response::json(429, &json!({"detail": "Run limit reached."})))
        })
    };
    let task = json!({"task": "t", "wait_seconds": 0});
    let fake = full(u32::MAX).await;
    let refusal = "the task was not started. Run it again";
    assert_error(&client(&fake).await, "run_task", task.clone(), refusal).await;
    assert!(count(&fake, CREATE) > 1);
    let fake = full(1).await;
    let run = call(&client(&fake).await, "run_task", task).await;
    assert_eq!(run["status"], "finished", "{run}");
    assert_eq!(count(&fake, CREATE), 2);
}

#[tokio::test]
async fn change_whose_answer_is_lost_names_the_task_and_a_call_that_does_no_harm() {
    for lost in [Response::Cut, Response::html(200), Response::html(502)] {
        let reply = lost.clone();
        let (fake, _) = fake_with(
            json!({"id": ID, "execution_status": "finished"}),
            move |target, _| target.starts_with("DELETE").then(|| reply.clone()),
        )
        .await;
        let asks = json!({"task_id": ID, "confirm": ID});
        let error = tool_error(&client(&fake).await, "delete_task", asks).await;
        let advice = format!(
            "Task {ID} may be deleted all the same: call get_task_status with task_id {ID}"
        );
        assert_contains(&error, &advice);
        // It is created, and nobody can ask for it now.
        let was_asked = AtomicBool::new(false);
        let fake = self::fake(move |target, _| {
            let is_start = target == CREATE;
            if is_start || was_asked.load(Ordering::Relaxed) {
                was_asked.store(true, Ordering::Relaxed);
                return Some(lost.clone());
            }
            None
        })
        .await;
        let error = tool_error!(client(&fake).await, "run_task", {"task": "t"});
        let requests = fake.requests();
        let created = requests.iter().find(|sent| target(sent) == CREATE).unwrap();
        let created = created.json();
        let id = created["conversation_id"].as_str().unwrap();
        let advice = format!("call get_task_status with task_id {id}");
        assert_contains(&error, &advice);
        assert_contains(&error, "not known whether the task was started");
    }
    let running = json!({"id": ID, "execution_status": "running"});
    let (fake, _) = fake_with(running, |target, _| {
        target.ends_with("/interrupt").then_some(Response::Cut)
    })
    .await;
    assert_error!(client(&fake).await, "cancel_task", {"task_id": ID}, "has not confirmed");
    let running = json!({"id": ID, "execution_status": "running"});
    let message = format!("POST /api/conversations/{ID}/events");
    let (fake, _) = fake_with(running, move |target, _| {
        (target == message).then_some(Response::Cut)
    })
    .await;
    let advice = "get_task_events shows it after the present step";
    assert_error!(client(&fake).await, "send_message", {"task_id": ID, "message": "m"}, advice);
}

/// Another server starts the task with the key while this one does.
#[tokio::test]
async fn start_that_another_server_has_claimed_is_left_to_it() {
    let claims = Arc::new(AtomicU32::new(0));
    let claimed = Arc::clone(&claims);
    let fake = fake(move |target, request| {
        if request.has("mcp-starts") && request.has("mkdir -- ") {
            let is_taken = claimed.fetch_add(1, Ordering::Relaxed) < 2;
            return Some(Response::json(
                200,
                &json!({"exit_code": i32::from(is_taken)}),
            ));
        }
        let is_task = target.starts_with("GET /api/conversations/") && !target.contains('?');
        let is_absent = is_task && claimed.load(Ordering::Relaxed) < 3;
        is_absent.then(|| Response::json(404, &json!({"detail": "Not Found"})))
    })
    .await;
    let task = json!({"task": "t", "idempotency_key": "k"});
    let other = "used for another task";
    // The claim is released after the answer.
    let client = client(&fake).await;
    assert_error(&client, "run_task", task, other).await;
    assert_eq!(claims.load(Ordering::Relaxed), 3);
    assert_eq!(count(&fake, CREATE), 0);
    let is_release = |sent: &Request| sent.has("rmdir -- \\\"");
    let released = async || fake.requests().iter().any(is_release);
    wait_until("the release", released).await;
}

/// Another server sends its answer while this one waits for the claim.
#[tokio::test]
async fn answer_that_another_server_has_claimed_is_left_to_it() {
    let task = json!({"id": ID, "execution_status": "waiting_for_confirmation"});
    let (task, claims) = (Arc::new(Mutex::new(task)), AtomicU32::new(0));
    let shared = Arc::clone(&task);
    let fake = fake(move |target, request| {
        if request.has("mcp-starts") && request.has("mkdir -- ") {
            let is_taken = claims.fetch_add(1, Ordering::Relaxed) == 0;
            shared.lock().unwrap()["execution_status"] = json!("finished");
            let made = json!({"exit_code": i32::from(is_taken)});
            return Some(Response::json(200, &made));
        }
        let is_task = target == format!("GET /api/conversations/{ID}");
        is_task.then(|| Response::json(200, &shared.lock().unwrap()))
    })
    .await;
    let client = client(&fake).await;
    let asked = call!(client, "get_task_status", {"task_id": ID});
    let id = &asked["confirmation"]["confirmation_id"];
    let answer = json!({"task_id": ID, "confirmation_id": id, "accept": true});
    assert_error(&client, "respond_confirmation", answer, "not waiting").await;
    assert_eq!(task.lock().unwrap()["execution_status"], "finished");
    let sent = format!("POST /api/conversations/{ID}/events/respond_to_confirmation");
    assert_eq!(count(&fake, &sent), 0);
    let is_release = |sent: &Request| sent.has("rmdir -- \\\"");
    let released = async || fake.requests().iter().any(is_release);
    wait_until("the release", released).await;
}

/// Another server publishes the task while this one resumes it.
#[tokio::test]
async fn tags_that_another_server_writes_meanwhile_stay() {
    let task = json!({"id": ID, "execution_status": "paused", "tags": {"mcptask": "t"}});
    let (fake, task) = fake_with(task, |target, task| {
        if target.ends_with("/run") {
            task["execution_status"] = json!("finished");
            return Some(Response::json(200, &json!({})));
        }
        let is_count = target.contains("/events/count");
        is_count.then(|| {
            task["tags"]["mcppublished"] = json!("c b");
            Response::json(200, &json!(1))
        })
    })
    .await;
    let resumed = call!(client(&fake).await, "resume_task", {"task_id": ID, "max_iterations": 9});
    assert_eq!(resumed["status"], "finished", "{resumed}");
    let tags = task.lock().unwrap()["tags"].clone();
    assert_has!(tags, {"mcppublished": "c b", "mcpsteps": "9", "mcptask": "t"});
}

/// A server that was killed before the prompt leaves such a task.
#[tokio::test]
async fn result_of_a_task_that_never_begins_is_not_waited_for_without_end() {
    let tags = json!({"mcpcallback": "http://127.0.0.1:1/"});
    let task = json!({"id": ID, "execution_status": "idle", "tags": tags,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"});
    let (fake, _) = fake_with(task, |target, task| {
        let page = json!({"items": [task], "next_page_id": null});
        let is_list = target.starts_with("GET /api/conversations/search");
        is_list.then(|| Response::json(200, &page))
    })
    .await;
    let hosts = ("OPENHANDS_CALLBACK_HOSTS", "127.0.0.1:1");
    let server = Server::start(NAME, &[("OPENHANDS_URL", &*fake.url), hosts]).await;
    let said = "its result is not waited for any longer";
    server.wait_for_log(said).await;
}

#[tokio::test]
async fn rows_of_an_app_server_are_filtered_by_status() {
    let row = |status: &str| {
        json!({"id": Uuid::new_v4().to_string(), "title": status, "created_at": "2026-01-01T00:00:00Z",
            "sandbox_id": "s", "sandbox_status": "RUNNING", "execution_status": status})
    };
    let rows = [row("finished"), row("running"), row("finished")];
    let fake = fake(move |target, _| {
        let body = match target
            .split(['?', ' '])
            .nth(1)?
            .strip_prefix("/api/v1/app-conversations/")?
        {
            "count" => json!(3),
            "search" => json!({"items": rows, "next_page_id": "next"}),
            _ => json!({"items": [], "next_page_id": null}),
        };
        Some(Response::json(200, &body))
    })
    .await;
    let client = client(&fake).await;
    for (status, expected) in [("finished", 2), ("running", 1), ("failed", 0)] {
        let list = call!(client, "list_tasks", {"status": status});
        let tasks = list["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), expected, "{list}");
        assert!(tasks.iter().all(|task| task["status"] == status), "{list}");
        assert_eq!(list["next_cursor"], "next");
    }
}

/// A server that was killed leaves such a task.
#[tokio::test]
async fn task_without_a_prompt_is_not_resumed() {
    let (fake, _) = fake_with(json!({"id": ID, "execution_status": "idle"}), |_, _| None).await;
    let client = client(&fake).await;
    let status = call!(client, "get_task_status", {"task_id": ID});
    assert_eq!(status["status"], "running", "{status}");
    assert_error!(client, "resume_task", {"task_id": ID}, "run it again");
}

/// A restart of the agent server leaves such a script.
#[tokio::test]
async fn task_whose_repository_is_never_there_fails() {
    let waits = json!({"mcpwaits": Uuid::nil().simple().to_string()});
    let task = json!({"id": ID, "execution_status": "idle", "tags": waits,
        "created_at": "2026-01-01T00:00:00Z"});
    let (fake, _) = fake_with(task, |target, _| {
        let is_prompt = target.contains("/events/count") && target.contains("user");
        is_prompt.then(|| Response::json(200, &json!(1)))
    })
    .await;
    let client = client(&fake).await;
    let failed = super::wait_for_status(&client, &json!(ID), "failed").await;
    assert_contains(&failed["error"], "could not be fetched");
}

/// Another call allows what the agent asks for, just before the stop arrives.
#[tokio::test]
async fn task_that_goes_on_meanwhile_is_stopped() {
    let task = json!({"id": ID, "execution_status": "waiting_for_confirmation"});
    let (fake, task) = fake_with(task, |target, task| {
        let next = match target.rsplit('/').next() {
            Some("interrupt") => "paused",
            Some("respond_to_confirmation") => "running",
            _ => return None,
        };
        task["execution_status"] = json!(next);
        Some(Response::json(200, &json!({})))
    })
    .await;
    let stopped = call!(client(&fake).await, "cancel_task", {"task_id": ID});
    assert_eq!(stopped["status"], "cancelled", "{stopped}");
    assert_eq!(task.lock().unwrap()["execution_status"], "paused");
}

/// Another server was killed while it started the task. The agent server does not take the first tag, and runs the task
/// after the second one.
#[tokio::test]
async fn stop_is_completed_of_a_task_whose_start_was_under_way() {
    let tags = AtomicU32::new(0);
    let task = json!({"id": ID, "execution_status": "idle", "tags": {}});
    let (fake, task) = fake_with(task, move |target, task| {
        let is_stop = target.ends_with("/interrupt");
        if is_stop {
            task["execution_status"] = json!("paused");
        } else if target.starts_with("PATCH") {
            match tags.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    task["tags"] = json!({});
                    return Some(Response::json(500, &json!({})));
                }
                _ => task["execution_status"] = json!("running"),
            }
        }
        is_stop.then(|| Response::json(200, &json!({})))
    })
    .await;
    let client = client(&fake).await;
    call!(client, "cancel_task", {"task_id": ID});
    let stops = format!("POST /api/conversations/{ID}/interrupt");
    wait_until("the second stop", async || count(&fake, &stops) > 1).await;
    super::wait_for_status(&client, &json!(ID), "cancelled").await;
    assert_eq!(task.lock().unwrap()["tags"]["mcpstopped"], "cancelled");
}

/// Its user runs it after the stop, with a message.
#[tokio::test]
async fn task_that_its_user_starts_after_a_stop_is_not_stopped_again() {
    let messages = Arc::new(AtomicU32::new(0));
    let asked = Arc::clone(&messages);
    let task = json!({"id": ID, "execution_status": "idle", "tags": {}});
    let (fake, task) = fake_with(task, move |target, task| {
        if target.contains("/events/count") && target.contains("user") {
            // The first is asked for with the stop.
            let messages = asked.fetch_add(1, Ordering::Relaxed);
            return Some(Response::json(200, &json!(messages)));
        }
        let is_stop = target.ends_with("/interrupt");
        if is_stop {
            task["execution_status"] = json!("paused");
        }
        is_stop.then(|| Response::json(200, &json!({})))
    })
    .await;
    let client = client(&fake).await;
    call!(client, "cancel_task", {"task_id": ID});
    task.lock().unwrap()["execution_status"] = json!("running");
    let is_asked = async || messages.load(Ordering::Relaxed) > 1;
    wait_until("the look at the messages", is_asked).await;
    let stops = format!("POST /api/conversations/{ID}/interrupt");
    assert_eq!(count(&fake, &stops), 1);
    assert_eq!(task.lock().unwrap()["execution_status"], "running");
}

#[tokio::test]
async fn result_is_shown_also_if_the_changes_cannot_be_read() {
    let task = json!({"id": ID, "execution_status": "finished"});
    let (fake, _) = fake_with(task, |target, _| {
        let is_script = target == "POST /api/bash/execute_bash_command";
        is_script.then(|| Response::json(500, &json!({"detail": "busy"})))
    })
    .await;
    let waited = call!(client(&fake).await, "wait_task", {"task_id": ID, "wait_seconds": 0});
    assert_has!(waited, {"status": "finished", "changed_files": null});
    assert_contains(&waited["result"], "long long");
    assert_contains(&waited["next"], "Call get_task_result");
}

#[tokio::test]
async fn failed_start_keeps_the_callback_and_says_that_the_message_was_taken() {
    let url = |end: &str| format!("http://127.0.0.1:1/{end}");
    let old = json!({"mcpcallback": url("old"), "mcpdelivery": "done", "mcpseconds": "60"});
    let task = json!({"id": ID, "execution_status": "finished", "tags": old});
    let (fake, task) = fake_with(task, |target, _| {
        target
            .ends_with("/run")
            .then(|| Response::json(500, &json!({})))
    })
    .await;
    let message = json!({"task_id": ID, "message": "go on", "callback_url": url("new")});
    let sent = "do not send it again";
    assert_error(&client(&fake).await, "send_message", message, sent).await;
    assert_eq!(
        count(&fake, &format!("POST /api/conversations/{ID}/events")),
        1
    );
    let tags = task.lock().unwrap()["tags"].clone();
    assert_has!(tags, {"mcpcallback": url("old"), "mcpdelivery": "done"});
}

#[tokio::test]
async fn command_that_checks_a_task_replaces_no_tag_of_others() {
    // What happens while the command starts.
    let tagged = |task: &mut Value| task["tags"]["team"] = json!("a");
    let runs_again = |task: &mut Value| task["execution_status"] = json!("running");
    for (change, verified) in [
        (tagged as fn(&mut Value), json!(true)),
        (runs_again, Value::Null),
    ] {
        let tags = json!({"mcpverify": "true"});
        let task = json!({"id": ID, "execution_status": "finished", "tags": tags});
        let (fake, task) = fake_with(task, move |target, task| {
            if target.starts_with("POST /api/bash/start_bash_command") {
                change(task);
                return Some(Response::json(200, &json!({"id": Uuid::nil().to_string()})));
            }
            let ended = json!({"items": [{"exit_code": 0}], "next_page_id": null});
            let is_asked = target.starts_with("GET /api/bash/bash_events/search");
            is_asked.then(|| Response::json(200, &ended))
        })
        .await;
        let read = call!(client(&fake).await, "get_task_result", {"task_id": ID});
        assert_has!(read, {"verified": verified});
        let tags = task.lock().unwrap()["tags"].clone();
        let is_tagged = tags["mcpcheck"].is_string();
        assert_eq!(is_tagged, verified == true);
        assert_eq!(count(&fake, "PATCH"), usize::from(is_tagged));
        assert_eq!(tags["team"] == "a", is_tagged);
    }
}

/// The list of running tasks takes long, and fails after the first one.
#[tokio::test]
async fn slow_list_is_seldom_asked_for_and_delays_no_limit() {
    let task = json!({"id": ID, "execution_status": "running",
        "tags": {"mcpseconds": "60", "mcptime": "@1"}});
    let was_listed = AtomicBool::new(false);
    let checks = "GET /api/conversations/count?status=running";
    let lists = "GET /api/conversations/search";
    let (fake, _) = fake_with(task, move |target, task| {
        if target.starts_with(checks) {
            return Some(Response::json(200, &json!(1)));
        }
        let is_list = target.starts_with(lists) && target.contains("status=running");
        is_list.then(|| {
            // Twenty times as long passes until the next one.
            std::thread::sleep(Duration::from_secs(2));
            let page = json!({"items": [task], "next_page_id": null});
            match was_listed.swap(true, Ordering::Relaxed) {
                false => Response::json(200, &page),
                true => Response::Cut,
            }
        })
    })
    .await;
    let _client = client(&fake).await;
    let checked = async || (count(&fake, checks) > 3).then_some(());
    eventually("the fourth check", checked).await;
    let running = |sent: &&Request| sent.target.contains("status=running");
    let requests = fake.requests();
    let listed = requests.iter().filter(running);
    let listed = listed.filter(|sent| target(sent).starts_with(lists));
    assert_eq!(listed.count(), 1);
    let interrupt = format!("POST /api/conversations/{ID}/interrupt");
    wait_until("the stop", async || count(&fake, &interrupt) > 0).await;
}

#[tokio::test]
async fn memory_does_not_grow_over_two_hundred_tasks() {
    let fake = fake(|_, _| None).await;
    let server = Server::start(NAME, &[("OPENHANDS_URL", &fake.url)]).await;
    let task = json!({"task": "x".repeat(50_000)});
    for _ in 0..100 {
        server.call("run_task", task.clone()).await;
    }
    let before = server.memory_kib();
    for _ in 0..200 {
        let run = server.call("run_task", task.clone()).await;
        assert_eq!(run["status"], "finished", "{run}");
    }
    let after = server.memory_kib();
    assert!(after < before + 4 * 1024, "{before} KiB, then {after} KiB");
}
