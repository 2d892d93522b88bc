//! Against a real n8n, of whichever version there is.

mod admin_toolsets;
mod authoring;
mod builtin_mcp;
mod confirming;
mod correlation;
mod counting_proxy;
mod env;
mod executions;
mod explaining;
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

use super::{AsClient, SERVER, assert_refused, call, done};
use crate::harness::{
    Server, Session, assert_contains, assert_lacks, assert_starts_with, eventually, member_texts,
    stdio_client, wait_until,
};
use env::{Env, Instance, TestWorkflow, unique};
use node_builders::{
    called_by_another, chat, code, echo, fail, form, form_with, http_request, manual, respond,
    schedule, set, sticky, wait, webhook, webhook_at,
};

/// Runs a workflow; its result, also if it failed.
async fn run(client: &impl AsClient, workflow: &TestWorkflow, parameters: Value) -> Value {
    let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
    run_with(client, arguments).await
}

/// Runs a workflow to its end, which a busy machine may reach after the call's deadline.
async fn run_with(client: &impl AsClient, arguments: Value) -> Value {
    let mut run = done(client, "run_workflow", arguments).await;
    if run["status"] == "running" && run["execution_id"].is_string() {
        let end = end_of(client, &run).await;
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

/// All pages of a list.
async fn all_pages(env: &Env, tool: &str, mut arguments: Value) -> Vec<Value> {
    let mut pages = vec![done(env, tool, arguments.clone()).await];
    while let Some(cursor) = pages[pages.len() - 1].get("next_cursor") {
        arguments["cursor"] = cursor.clone();
        pages.push(done(env, tool, arguments.clone()).await);
    }
    pages
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
