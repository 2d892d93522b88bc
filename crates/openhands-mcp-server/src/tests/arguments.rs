//! Arguments that are refused before any request.

use mcp_core::tool::{Call, ToolErrorKind};
use serde_json::{Value, json};

use super::{openhands, try_call};

/// Asserts that a call is refused for this reason. There is no agent server: a call that sends a
/// request fails in another way.
async fn refused(tool: &str, arguments: Value, reason: &str) {
    let service = openhands("http://127.0.0.1:9");
    let result = try_call(service, tool, arguments, &Call::default()).await;
    let refusal = match result {
        Err(refusal) => refusal,
        Ok(Err(error)) if error.kind() == ToolErrorKind::InvalidArgument => error.message().into(),
        Ok(other) => panic!("{other:?}"),
    };
    assert!(refusal.contains(reason), "no {reason:?} in {refusal}");
}

#[tokio::test]
async fn file_names_must_stay_inside_the_workspace() {
    let names = "/etc/passwd ../x a\\b .git/hooks/post-checkout".split(' ');
    for file in names.chain(["a\0"]) {
        let context = json!({"file": file, "content": ""});
        let arguments = json!({"task": "t", "context": context});
        refused("run_task", arguments, "context.file: the file name ").await;
    }
    let arguments = json!({"task": "t", "context": {"file": "a"}});
    refused("run_task", arguments, "context.content is missing").await;
    // An empty argument is one that is left out.
    let arguments = json!({"task": "t", "context": {"file": "", "content": "c"}});
    refused("run_task", arguments, "context.file is missing").await;
}

#[tokio::test]
async fn task_arguments_have_bounds() {
    let (long, longer) = ("x".repeat(257), "x".repeat(200_001));
    for (arguments, reason) in [
        (json!({}), "missing field `task`"),
        (json!({"task": " \n"}), "task must say"),
        (json!({"task": longer}), "context.content"),
        (
            json!({"task": "t", "wait_seconds": 601}),
            "an integer from 0 to 600",
        ),
        (
            json!({"task": "t", "wait_seconds": -1}),
            "an integer from 0 to 600",
        ),
        (
            json!({"task": "t", "idempotency_key": ""}),
            "idempotency_key must",
        ),
        (
            json!({"task": "t", "idempotency_key": long}),
            "idempotency_key must",
        ),
        (json!({"task": ["t"]}), "task: invalid type"),
    ] {
        refused("run_task", arguments, reason).await;
    }
}
