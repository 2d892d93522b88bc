//! Against a real n8n, of whichever version there is.

mod admin_toolsets;
mod authoring;
mod builtin_mcp;
mod correlation;
mod counting_proxy;
mod env;
mod executions;
mod explaining;
mod gate;
mod hidden_values;
mod lifecycle;
mod node_builders;
mod nodes;
mod policy;
mod reading;
mod redacting;
mod resources;
mod resuming;
mod running;
mod tasks;
mod urls;
mod validating;
mod versions;
mod webhook_requests;
mod workflow_tools;

use std::sync::Arc;

use mcp_client::{Client, EraChoice, Options};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{AsClient, SERVER, agreed, assert_all_refused, assert_refused, call, done, rows};
use crate::harness::{
    Server, Session, assert_contains, assert_lacks, assert_starts_with, eventually, member_texts,
    stdio_client, wait_until,
};
use env::{Env, Instance, TestWorkflow, tag_name, unique};
use gate::Gate;
use node_builders::{
    called_by_another, chat, code, echo, fail, form, form_with, http_request, leads_to, locator,
    manual, respond, schedule, set, sticky, target, wait, webhook, webhook_at,
};

/// Runs a workflow; its result, also if it failed.
async fn run(client: &impl AsClient, workflow: &TestWorkflow, parameters: Value) -> Value {
    let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
    run_with(client, arguments).await
}

/// Runs a workflow to its end.
async fn run_with(client: &impl AsClient, arguments: Value) -> Value {
    ended(client, "run_workflow", arguments).await
}

/// The result of a tool that runs or resumes a workflow, at the end of the run.
async fn ended(client: &impl AsClient, tool: &str, arguments: Value) -> Value {
    let run = done(client, tool, arguments.clone()).await;
    followed(client, run, &arguments).await
}

/// A run at its end, which a busy machine may reach after the call's deadline. Its output is selected as the arguments
/// of that call say.
async fn followed(client: &impl AsClient, mut run: Value, arguments: &Value) -> Value {
    if run["status"] == "running" && run["execution_id"].is_string() {
        end_of(client, &run).await;
        let mut selected = json!({"execution_id": run["execution_id"]});
        for part in ["items", "fields"] {
            if let Some(selection) = arguments.get(part) {
                selected[part] = selection.clone();
            }
        }
        let end = done(client, "get_execution", selected).await;
        let members = run.as_object_mut().unwrap();
        members.extend(end.as_object().unwrap().clone());
    }
    run
}

/// Runs a workflow and cancels the call, by dropping it, once `is_time` after a progress report.
async fn run_and_cancel(
    client: &Client,
    arguments: &Value,
    mut is_time: impl AsyncFnMut(&str) -> bool,
) {
    let (reports, mut reported) = mpsc::channel(64);
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.call_tool_with("run_workflow", arguments, options) => panic!("{result:?}"),
        () = async {
            while let Some(report) = reported.recv().await {
                if is_time(report.message.as_deref().unwrap_or_default()).await {
                    return;
                }
            }
        } => {}
    }
}

/// The rows of all pages of a list, which is this member of each.
async fn all_rows(env: &Env, tool: &str, mut arguments: Value, member: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let page = done(env, tool, arguments.clone()).await;
        rows.extend(page[member].as_array().unwrap().clone());
        match page.get("next_cursor") {
            Some(cursor) => arguments["cursor"] = cursor.clone(),
            None => return rows,
        }
    }
}

/// The id of a workflow's newest execution with this status, once n8n lists it.
async fn execution_with(client: &impl AsClient, workflow: &TestWorkflow, status: &str) -> Value {
    eventually(status, async || {
        let arguments = json!({"workflow_id": workflow.id, "status": status});
        let listed = done(client, "list_executions", arguments).await;
        listed["executions"][0].get("execution_id").cloned()
    })
    .await
}

/// Polls until the execution has left `running` and `waiting`, as a client would.
async fn end_of(client: &impl AsClient, run: &Value) -> Value {
    eventually("its end", async || {
        let arguments = json!({"execution_id": run["execution_id"]});
        let now = done(client, "get_execution", arguments).await;
        (now["status"] != "running" && now["status"] != "waiting").then_some(now)
    })
    .await
}
