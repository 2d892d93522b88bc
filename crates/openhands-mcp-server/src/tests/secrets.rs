//! Secrets in the messages, output and files of an agent are redacted.

use mcp_core::resource::ResourceContents;
use mcp_core::tool::Call;
use serde_json::{Value, json};

use super::fake::{FakeAgentServer, Reply, changes};
use super::{ID, openhands};
use crate::resources;

/// A fake token, assembled here so that no secret scanner reports it.
fn secret() -> String {
    format!("ghp_{}", "0123456789abcdefghijABCDEFGHIJKLMNOP")
}

/// An agent server that has a secret in every text.
async fn leaky() -> FakeAgentServer {
    FakeAgentServer::start(|request, _| {
        let text = format!("before {} after", secret());
        let content = json!([{"type": "text", "text": text}]);
        let action = json!({"kind": "ActionEvent", "id": "a", "timestamp": "2026-11-21T08:04:38",
            "source": "agent", "tool_name": "terminal", "summary": text, "thought": content,
            "action": {"command": text},
            "observation": {"kind": "TerminalObservation", "exit_code": 0, "content": content},
            "llm_message": {"role": "user", "content": content}, "rejection_reason": text,
            "code": "c", "error": "e"});
        let path = request.path();
        Reply::Json(
            200,
            match path.rsplit('/').next().unwrap() {
                _ if path.starts_with("/api/v1/") => return Reply::not_found(),
                "execute_bash_command" => {
                    json!({"exit_code": 0, "stdout": changes(&text)})
                }
                "agent_final_response" => json!({"response": text}),
                "count" => json!(0),
                "search" if path.contains("/events/") => json!({"items": [action]}),
                "search" => json!({"items": [{"id": ID, "title": text, "created_at": "t",
                    "execution_status": "finished", "tags": {"mcptask": text}}]}),
                _ if path.contains("agent-profiles") => json!({"profile": {"id": "i", "name": "n",
                    "system_message_suffix": text}}),
                _ if path.contains("/workspace/") => json!(text),
                _ => json!({"id": ID, "execution_status": "waiting_for_confirmation",
                    "tags": {"mcptask": text}}),
            },
        )
    })
    .await
}

#[tokio::test]
async fn tools_redact_secrets() {
    let fake = leaky().await;
    for (tool, arguments) in [
        ("get_task_status", json!({"task_id": ID})),
        ("get_task_result", json!({"task_id": ID})),
        ("wait_task", json!({"task_id": ID, "wait_seconds": 0})),
        ("get_task_changes", json!({"task_id": ID})),
        ("get_task_events", json!({"task_id": ID})),
        ("get_task_file", json!({"task_id": ID, "file": "a"})),
        ("list_tasks", json!({})),
        ("get_agent", json!({"agent_id": "a"})),
    ] {
        assert_redacted(tool, &fake.call(tool, arguments).await);
    }
}

#[tokio::test]
async fn resources_redact_secrets() {
    let fake = leaky().await;
    let service = std::sync::Arc::new(openhands(&fake.url));
    for (resource, bound) in resources::all().bind(&service) {
        let uri = resource.uri.replace("{id}", ID);
        let call = Call::default();
        let reading = bound.read(&uri, &call).unwrap();
        let ResourceContents::Text(text) = reading.await.unwrap() else {
            panic!("{uri} is no text");
        };
        assert_redacted(&uri, &Value::String(text));
    }
}

#[track_caller]
fn assert_redacted(name: &str, answer: &Value) {
    let shown = answer.to_string();
    assert!(shown.contains("before *** after"), "{name}: {shown}");
    assert!(!shown.contains(&secret()[4..]), "{name}: {shown}");
}
