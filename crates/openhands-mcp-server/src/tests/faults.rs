//! An agent server that is down, slow, strict or broken, or another program.

use std::time::Duration;

use mcp_core::tool::{ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::json;
use tokio::time::timeout;

use super::fake::{FakeAgentServer, RecordedRequest, Reply};
use super::{ID, KEY, assert_error, call, openhands, options};
use crate::{OpenHands, Options};

/// The errors of all tools and of the health check.
async fn errors_of_all_tools(url: &str) -> Vec<ToolError> {
    let mut errors = Vec::new();
    for tool in crate::tools::all().definitions() {
        let arguments = match tool.name.as_str() {
            "run_task" => json!({"task": "t"}),
            "list_tasks" | "list_agent_profiles" | "get_usage" => json!({}),
            "send_message" => json!({"task_id": ID, "message": "m"}),
            "publish_task" => json!({"task_id": ID, "title": "t"}),
            "respond_confirmation" => {
                json!({"task_id": ID, "confirmation_id": "a", "accept": true})
            }
            "get_task_file" => json!({"task_id": ID, "file": "a"}),
            "wait_task" | "resume_task" => json!({"task_id": ID, "wait_seconds": 0}),
            "create_agent" => json!({"config_file": "a.toml"}),
            "get_agent" | "delete_agent" => json!({"agent_id": "a"}),
            "execute_task" => json!({"agent_id": "a", "task": "t"}),
            "execute_mcp_task" => json!({"agent_id": "a", "task": "t", "server_name": "s",
                "function_name": "f"}),
            // They report an error for each task.
            "run_parallel_tasks" | "execute_parallel_tasks" => continue,
            _ => json!({"task_id": ID}),
        };
        errors.push(call(url, &tool.name, arguments).await.unwrap_err());
    }
    errors.push(openhands(url).probe().await.unwrap_err());
    errors
}

/// Asserts that all tools fail alike.
async fn assert_all_fail(url: &str, kind: Kind, part: &str) {
    for error in errors_of_all_tools(url).await {
        assert_error(&error, kind, part);
    }
}

#[tokio::test]
async fn all_tools_explain_a_broken_agent_server() {
    type Case = (fn() -> Reply, Kind, &'static str);
    let other = "not as an agent server";
    let internal = || Reply::Json(500, json!({"detail": "boom in /srv/x.py"}));
    let cases: [Case; 8] = [
        (|| Reply::Disconnect, Kind::Unavailable, "does not answer"),
        (internal, Kind::Unavailable, "internal problem (HTTP 500)"),
        (|| Reply::Html(502), Kind::Unavailable, "HTTP 502"),
        (|| Reply::Html(200), Kind::Upstream, other),
        (|| Reply::Html(404), Kind::Upstream, other),
        (|| Reply::Json(200, json!([])), Kind::Upstream, other),
        (|| Reply::Json(405, json!({})), Kind::Upstream, other),
        (|| Reply::Large, Kind::Upstream, "too large"),
    ];
    for (reply, kind, part) in cases {
        let fake = FakeAgentServer::start(move |_, _| reply()).await;
        assert_all_fail(&fake.url, kind, part).await;
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let thief = FakeAgentServer::start(|_, _| Reply::Default).await;
    let to = thief.url.clone();
    let fake = FakeAgentServer::start(move |_, _| Reply::Redirect(to.clone())).await;
    assert_all_fail(&fake.url, Kind::Upstream, "not as an agent server").await;
    assert!(thief.requests("").is_empty());
}

/// The reply of an agent server that accepts only `key`.
fn locked(request: &RecordedRequest, key: &str) -> Reply {
    let header = format!("x-session-api-key: {key}");
    match request.target == "GET /health" || request.head.contains(&header) {
        true => Reply::Default,
        false => Reply::unauthorized(),
    }
}

#[tokio::test]
async fn missing_and_wrong_keys_are_reported() {
    let fake = FakeAgentServer::start(|request, _| locked(request, "another")).await;
    let error = openhands(&fake.url).probe().await.unwrap_err();
    assert_error(&error, Kind::Unauthorized, "refuses the key");
    let keyless = Options {
        openhands_api_key: None,
        ..options(&fake.url)
    };
    let keyless = OpenHands::new(keyless).unwrap();
    let error = keyless.probe().await.unwrap_err();
    assert_error(&error, Kind::Unauthorized, "set OPENHANDS_API_KEY");
    // The health check needs no key, so it must not get it.
    let health = fake.requests("GET /health");
    assert!(health.iter().all(|request| !request.head.contains(KEY)));
}

#[test]
fn invalid_options_are_refused() {
    let refused = |change: fn(&mut Options)| {
        let mut options = options("http://127.0.0.1:1");
        change(&mut options);
        OpenHands::new(options).err().unwrap().to_string()
    };
    let refused_url = refused(|o| o.openhands_url = "ftp://example.test".parse().unwrap());
    assert!(refused_url.contains("OPENHANDS_URL"), "{refused_url}");
    let refused_url = refused(|o| o.openhands_url = "http://a:b@127.0.0.1".parse().unwrap());
    assert!(refused_url.contains("password") && !refused_url.contains("a:b"));
    let refused_root = refused(|o| o.openhands_workspace_root = "../x".into());
    assert!(refused_root.contains("OPENHANDS_WORKSPACE_ROOT"));
}

#[tokio::test]
async fn agent_server_that_is_slow_at_lists_is_seldom_asked_for_them() {
    let fake = FakeAgentServer::start(|request, _| match request.target.as_str() {
        target if target.contains("/count?status=running") => Reply::Json(200, json!(1)),
        target if target.contains("status=running") => {
            std::thread::sleep(Duration::from_millis(200));
            Reply::Default
        }
        _ => Reply::Default,
    });
    let fake = fake.await;
    schedule(&fake.url).await;
    let list = "GET /api/conversations/search";
    assert_eq!(fake.requests(list).len(), 1);
}

/// Schedules for some ticks.
async fn schedule(url: &str) {
    let service = OpenHands::new(options(url)).unwrap();
    let time = Duration::from_millis(3_500);
    assert!(
        timeout(time, service.runner.enforce_limits())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn lists_that_fail_slowly_are_seldom_asked_for_and_delay_no_limit() {
    const OTHER: &str = "0a183f0e-7464-499a-a27d-37531b07889f";
    let fake = FakeAgentServer::start(|request, before| match request.target.as_str() {
        target if target.contains("/count?status=") => Reply::Json(200, json!(1)),
        target if target.contains(OTHER) && target.contains("/events/count") => {
            Reply::unauthorized()
        }
        target if target.contains("status=running") && before == 0 => {
            let task = |id, tags| json!({"id": id, "execution_status": "running", "tags": tags});
            let other = task(OTHER, json!({"mcpdeadline": "4000000000", "mcpsteps": "1"}));
            let overdue = task(ID, json!({"mcpdeadline": "1"}));
            Reply::Json(
                200,
                json!({"items": [other, overdue], "next_page_id": null}),
            )
        }
        target if target.contains("/search?") && target.contains("status=") => {
            std::thread::sleep(Duration::from_millis(200));
            Reply::Disconnect
        }
        _ => Reply::Default,
    });
    let fake = fake.await;
    schedule(&fake.url).await;
    let interrupted = fake.requests(&format!("POST /api/conversations/{ID}/interrupt"));
    assert!(!interrupted.is_empty());
}
