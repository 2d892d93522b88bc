//! An agent server that is down, slow, strict, broken or not one at all.

use mcp_core::tool::{ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::json;

use super::fake::{Fake, Reply};
use super::{ID, KEY, call, keyless, openhands, options};
use crate::OpenHands;

/// The errors of every tool, and of the probe.
async fn every_tool(url: &str) -> Vec<ToolError> {
    let mut errors = Vec::new();
    for tool in crate::tools::all().definitions() {
        let arguments = match tool.name.as_str() {
            "run_task" => json!({"task": "t"}),
            "list_tasks" => json!({}),
            "send_message" => json!({"task_id": ID, "message": "m"}),
            "respond_confirmation" => json!({"task_id": ID, "accept": true}),
            "get_task_file" => json!({"task_id": ID, "file": "a"}),
            "wait_task" | "resume_task" => json!({"task_id": ID, "wait_seconds": 0}),
            "create_agent" => json!({"config_file": "a.toml"}),
            "get_agent" | "delete_agent" => json!({"agent_id": "a"}),
            "execute_task" => json!({"agent_id": "a", "task": "t"}),
            "execute_mcp_task" => json!({"agent_id": "a", "task": "t", "server_name": "s",
                "function_name": "f"}),
            // They say it of each task.
            "run_parallel_tasks" | "execute_parallel_tasks" => continue,
            _ => json!({"task_id": ID}),
        };
        errors.push(call(url, &tool.name, arguments).await.unwrap_err());
    }
    errors.push(openhands(url).probe().await.unwrap_err());
    errors
}

#[track_caller]
fn each(errors: &[ToolError], kind: Kind, part: &str) {
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(part), "{error}");
    }
}

#[tokio::test]
async fn nobody_there() {
    // Bound and dropped: nobody listens there now.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let errors = every_tool(&url).await;
    each(
        &errors,
        Kind::Unavailable,
        &format!("{url} does not answer"),
    );
}

#[tokio::test]
async fn every_tool_tells_why_there_is_no_answer() {
    type Case = (fn() -> Reply, Kind, &'static str);
    let other = "not as an agent server";
    let inside = || Reply::Json(500, json!({"detail": "boom in /srv/x.py"}));
    let cases: [Case; 8] = [
        (|| Reply::Hangup, Kind::Unavailable, "does not answer"),
        (inside, Kind::Unavailable, "internal problem (HTTP 500)"),
        (|| Reply::Html(502), Kind::Unavailable, "HTTP 502"),
        (|| Reply::Html(200), Kind::Upstream, other),
        (|| Reply::Html(404), Kind::Upstream, other),
        (|| Reply::Json(200, json!([])), Kind::Upstream, other),
        (|| Reply::Json(405, json!({})), Kind::Upstream, other),
        (|| Reply::Large, Kind::Upstream, "too large"),
    ];
    for (reply, kind, part) in cases {
        let fake = Fake::start(move |_, _| reply()).await;
        each(&every_tool(&fake.url).await, kind, part);
    }
}

#[tokio::test]
async fn the_key_follows_no_redirect() {
    let thief = Fake::start(|_, _| Reply::Real).await;
    let to = thief.url.clone();
    let fake = Fake::start(move |_, _| Reply::Redirect(to.clone())).await;
    each(
        &every_tool(&fake.url).await,
        Kind::Upstream,
        "not as an agent server",
    );
    assert!(thief.seen("").is_empty());
}

fn locked(head: &str, key: &str) -> Reply {
    if head.contains(&format!("x-session-api-key: {key}")) {
        return Reply::Real;
    }
    Reply::Json(401, json!({"detail": "Unauthorized"}))
}

#[tokio::test]
async fn a_key_that_is_missing_or_wrong() {
    let fake = Fake::start(|seen, _| match seen.target.as_str() {
        "GET /health" => Reply::Real,
        _ => locked(&seen.head, "another"),
    })
    .await;
    let error = openhands(&fake.url).probe().await.unwrap_err();
    each(&[error], Kind::Unauthorized, "refuses the key");
    let error = keyless(&fake.url, None).probe().await.unwrap_err();
    each(&[error], Kind::Unauthorized, "set OPENHANDS_API_KEY");
    // What everybody is told needs no key, and so does not get it.
    assert!(
        fake.seen("GET /health")
            .iter()
            .all(|seen| !seen.head.contains(KEY))
    );
}

#[tokio::test]
async fn a_key_file_that_comes_later() {
    let fake = Fake::start(|seen, _| match seen.target.as_str() {
        "GET /health" => Reply::Real,
        _ => locked(&seen.head, "second"),
    })
    .await;
    let file = std::env::temp_dir().join(format!("openhands-key-{}", std::process::id()));
    let service = keyless(&fake.url, Some(file.clone()));
    let error = service.probe().await.unwrap_err();
    each(&[error], Kind::Unauthorized, "cannot be read (yet)");
    std::fs::write(&file, "first\n").unwrap();
    let error = service.probe().await.unwrap_err();
    each(&[error], Kind::Unauthorized, "refuses the key");
    std::fs::write(&file, "second\n").unwrap();
    service.probe().await.unwrap();
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn a_task_that_does_not_exist() {
    let fake = Fake::start(|_, _| Reply::Json(404, json!({"detail": "Not Found"}))).await;
    for tool in ["get_task_status", "get_task_result", "cancel_task"] {
        let error = call(&fake.url, tool, json!({"task_id": ID})).await;
        each(
            &[error.unwrap_err()],
            Kind::NotFound,
            &format!("no task {ID}"),
        );
    }
    assert!(fake.seen("POST").is_empty());
}

#[test]
fn options_that_cannot_be_used() {
    let refused = |change: fn(&mut crate::Options)| {
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
