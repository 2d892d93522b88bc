//! Arguments that are refused before anything happens.

use mcp_core::tool::{Call, ToolErrorKind};
use serde_json::{Value, json};

use super::{ID, openhands, try_call};

/// No agent server is there: what gets as far as asking for one fails otherwise.
async fn refused(tool: &str, arguments: Value) -> String {
    let service = openhands("http://127.0.0.1:9");
    let answer = try_call(service, tool, arguments, &Call::default()).await;
    match answer {
        Err(refused) => refused,
        Ok(Err(error)) if error.kind() == ToolErrorKind::InvalidArgument => error.message().into(),
        Ok(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn ids_are_uuids() {
    for tool in ["get_task_status", "get_task_result", "cancel_task"] {
        for id in [
            "",
            "1",
            "../settings",
            "%2e%2e%2fsettings",
            "x\r\nX-Key: 1",
            "'; --",
        ] {
            let refusal = refused(tool, json!({"task_id": id})).await;
            assert!(refusal.starts_with("task_id: not a task id"), "{refusal}");
        }
        let refusal = refused(tool, json!({"task_id": 7})).await;
        assert!(refusal.starts_with("task_id: invalid type"), "{refusal}");
        let refusal = refused(tool, json!({"task_id": ID, "force": true})).await;
        assert!(refusal.starts_with("force: unknown field"), "{refusal}");
    }
}

#[tokio::test]
async fn file_names_stay_inside() {
    for file in [
        "/etc/passwd",
        "../x",
        "a\\b",
        "a\0",
        "",
        ".git/hooks/post-checkout",
    ] {
        let context = json!({"file": file, "content": ""});
        let refusal = refused("run_task", json!({"task": "t", "context": context})).await;
        assert!(
            refusal.starts_with("context.file: the file name "),
            "{refusal}"
        );
    }
    let context = json!({"file": "a"});
    let refusal = refused("run_task", json!({"task": "t", "context": context})).await;
    assert!(refusal.contains("context.content is missing"), "{refusal}");
}

#[tokio::test]
async fn a_task_says_something_within_bounds() {
    let cases = [
        (json!({}), "missing field `task`"),
        (json!({"task": " \n"}), "task must say"),
        (json!({"task": "x".repeat(200_001)}), "context.content"),
        (
            json!({"task": "t", "wait_seconds": 26}),
            "an integer from 0 to 25",
        ),
        (
            json!({"task": "t", "wait_seconds": -1}),
            "an integer from 0 to 25",
        ),
        (
            json!({"task": "t", "idempotency_key": ""}),
            "idempotency_key must",
        ),
        (
            json!({"task": "t", "idempotency_key": "x".repeat(257)}),
            "idempotency_key must",
        ),
        (json!({"task": ["t"]}), "task: invalid type"),
    ];
    for (arguments, reason) in cases {
        let refusal = refused("run_task", arguments).await;
        assert!(refusal.contains(reason), "{refusal}");
    }
}
