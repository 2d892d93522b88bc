//! Faults of the agent server that the real one cannot be made to show, and invalid arguments, through the tools.

mod arguments;
mod fake;
mod faults;
mod other_servers;
mod resume;
mod run_task;
mod verify;

use std::sync::Arc;

use mcp_core::tool::{Call, ToolError, ToolErrorKind, ToolResult};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{OpenHands, Options};

const KEY: &str = "key-that-must-stay-secret";
/// A task id.
const ID: &str = "82183f0e-7464-499a-a27d-37531b07889f";

fn options(url: &str) -> Options {
    Options {
        openhands_url: url.parse().unwrap(),
        openhands_api_key: Some(KEY.into()),
        openhands_api_key_file: None,
        openhands_workspace_root: "mcp-tasks".into(),
        openhands_agent_profile: None,
        openhands_workspaces: vec!["/srv/code".into()],
        openhands_mcp_servers: vec![],
        openhands_mcp_tokens: vec![],
        openhands_mcp_token_files: vec![],
        openhands_git_hosts: vec![],
        openhands_git_tokens: vec![],
        openhands_git_token_files: vec![],
        openhands_callback_hosts: vec![],
        openhands_callback_token: None,
        openhands_callback_token_file: None,
        max_parallel: 9,
        max_iterations: 500,
        max_seconds: 3600,
        max_cost: None,
        share_tasks: false,
    }
}

fn openhands(url: &str) -> OpenHands {
    OpenHands::new(options(url)).unwrap()
}

/// Calls a tool as the dispatch does. The error for invalid arguments is `field: reason`.
async fn try_call(
    service: impl Into<Arc<OpenHands>>,
    name: &str,
    arguments: Value,
    call: &Call,
) -> Result<Result<Value, ToolError>, String> {
    let tools = crate::tools::all().bind(&service.into());
    let mut tools = tools.into_iter();
    let (_, tool) = tools.find(|(tool, _)| tool.name == name).unwrap();
    let arguments = RawValue::from_string(arguments.to_string()).unwrap();
    let running = tool.start(&arguments, call);
    let running = running.map_err(|error| format!("{}: {}", error.field, error.reason))?;
    Ok(running.await.map(|result| match result {
        ToolResult::Structured(json) => serde_json::from_str(json.as_str()).unwrap(),
        _ => panic!("unstructured"),
    }))
}

/// Calls a tool of a server that has just started, with the agent server at `url`.
async fn call(url: &str, name: &str, arguments: Value) -> Result<Value, ToolError> {
    let result = try_call(openhands(url), name, arguments, &Call::default()).await;
    let result = result.unwrap();
    if let Err(error) = &result {
        let shown = format!("{} {}", error.message(), error.causes());
        assert!(!shown.contains(KEY), "{shown}");
    }
    result
}

#[track_caller]
fn assert_error(error: &ToolError, kind: ToolErrorKind, part: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(part), "no {part:?} in {error}");
}
