//! Against a real n8n, of whichever version there is.

mod around;
mod authoring;
mod builtin_mcp;
mod confirming;
mod correlation;
mod executions;
mod lab;
mod lifecycle;
mod lists;
mod logins;
mod nodes;
mod policy;
mod reading;
mod resources;
mod running;
mod starting;
mod tasks;
mod urls;
mod validating;
mod workflow_tools;

use mcp_client::Client;
use serde_json::{Value, json};

use super::done;
use super::site::Workflow;
use crate::harness::eventually;

async fn run(client: &Client, workflow: &Workflow, parameters: Value) -> Value {
    let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
    run_with(client, arguments).await
}

/// Runs a workflow to its end, which a busy machine may reach after the bound.
async fn run_with(client: &Client, arguments: Value) -> Value {
    let mut run = done(client, "run_workflow", arguments).await;
    if run["status"] == "running" && run["execution_id"].is_string() {
        let end = end_of(client, &run).await;
        let members = run.as_object_mut().unwrap();
        members.extend(end.as_object().unwrap().clone());
    }
    run
}

/// Asks until the execution has left `running` and `waiting`, as a caller would.
async fn end_of(client: &Client, run: &Value) -> Value {
    eventually("its end", async || {
        let now = done!(client, "get_execution", {"execution_id": run["execution_id"]});
        (now["status"] != "running" && now["status"] != "waiting").then_some(now)
    })
    .await
}
