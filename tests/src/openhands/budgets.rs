//! Budgets of tasks, which are enforced even if no client waits; their cost, tokens and models; and the size of answers.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::principals::two_principals;
use super::{
    add_agent, agent_server, assert_error, call, call_with_id, client, client_with, conversation,
    remove_agent, run_task, server_with, tool_error, wait_for_status,
};
use crate::harness::assert_contains;
use crate::harness::real::openhands;

#[tokio::test]
async fn time_limit_stops_the_task_also_after_a_restart_of_our_server() {
    let Some(real) = openhands() else { return };
    let (server, client) = server_with(&real, &[]).await;
    // Long enough for the first step on a busy machine.
    let task = json!({"task": "RUN: echo so far\nRUN: sleep 300", "max_seconds": 30,
        "wait_seconds": 0, "idempotency_key": Uuid::new_v4().to_string()});
    let run = call(&client, "run_task", task.clone()).await;
    server.kill().await;
    let client = client_with(&real, &[]).await;
    let again = call(&client, "run_task", task).await;
    assert_eq!(again["task_id"], run["task_id"]);
    let status = wait_for_status(&client, &run["task_id"], "failed").await;
    assert_contains(&status["error"], "reached its time limit");
    // The list is filtered by the status that it shows.
    for (status, expected) in [("failed", true), ("paused", false), ("cancelled", false)] {
        let list = call!(client, "list_tasks", {"status": status, "limit": 50});
        let rows = list["tasks"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["status"] == status), "{list}");
        let is_listed = rows.iter().any(|row| row["task_id"] == run["task_id"]);
        assert_eq!(is_listed, expected, "{status}: {list}");
    }
    let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
    assert_eq!(result["last_output"], "so far");
}

#[tokio::test]
async fn task_over_its_steps_is_resumed_only_with_more() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "RUN: echo 1\nRUN: echo 2\nRUN: echo 3", "max_iterations": 2});
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "failed", "last_output": "2"});
    assert_contains(&run["error"], "limit of 2 steps");
    let id = &run["task_id"];
    let error = tool_error!(client, "resume_task", {"task_id": id});
    assert_contains(&error, "used up its limit max_iterations (2 steps)");
    assert_error!(client, "send_message", {"task_id": id, "message": "RUN: echo 4"}, "used up");
    let more = call!(client, "resume_task", {"task_id": id, "max_iterations": 4});
    assert_has!(more, {"status": "finished", "last_output": "3"});
    // The agent server keeps the first limit for each run, so the task goes on in runs of one step.
    let task = json!({"task": "RUN: echo 1\nRUN: echo 2\nRUN: echo 3", "max_iterations": 1});
    let id = &call(&client, "run_task", task).await["task_id"];
    let more = json!({"task_id": id, "max_iterations": 3});
    let more = call(&client, "resume_task", more).await;
    assert_has!(more, {"status": "failed", "last_output": "3", "steps": 3});
    assert_contains(&more["error"], "limit of 3 steps");
}

#[tokio::test]
async fn cost_limit_stops_the_task() {
    let Some(real) = openhands() else { return };
    // The scripted model has no price, so this test adds one with a price.
    let name = format!("priced-{}", Uuid::new_v4().simple());
    let settings = agent_server(&real, "GET", "/api/settings", Value::Null).await;
    let llm = &settings["agent_settings"]["llm"];
    let llm = json!({"model": llm["model"], "base_url": llm["base_url"], "api_key": "not-a-key",
        "num_retries": 0, "reasoning_effort": "none", "input_cost_per_token": 0.01,
        "output_cost_per_token": 0.01});
    add_agent(&real, &name, llm).await;
    let client = client_with(&real, &[]).await;
    let task = json!({"task": "RUN: echo paid\nRUN: sleep 300", "agent": name, "max_cost": 0.1});
    let run = call(&client, "run_task", task).await;
    assert_eq!(run["status"], "failed", "{run}");
    assert_contains(&run["error"], "reached its cost limit");
    let cost = run["cost"].as_f64().unwrap();
    assert!(cost > 0.1 && cost == (cost * 1e6).round() / 1e6, "{run}");
    // What is over its limit is refused before it costs another step.
    let id = &run["task_id"];
    for (tool, arguments) in [
        ("resume_task", json!({"task_id": id})),
        (
            "send_message",
            json!({"task_id": id, "message": "RUN: echo more"}),
        ),
    ] {
        assert_error(&client, tool, arguments, "used up its limit max_cost (0.1").await;
    }
    assert_eq!(
        call_with_id(&client, "get_task_status", id).await["cost"],
        cost
    );
    remove_agent(&real, &name).await;
}

#[tokio::test]
async fn callers_cannot_exceed_the_operators_limits() {
    let Some(real) = openhands() else { return };
    let limits = [
        ("OPENHANDS_MAX_ITERATIONS", "2"),
        ("OPENHANDS_MAX_SECONDS", "600"),
        ("OPENHANDS_MAX_COST", "1"),
    ];
    let client = client_with(&real, &limits).await;
    for (argument, value, most) in [
        ("max_iterations", json!(3), "2"),
        ("max_seconds", json!(601), "600"),
        ("max_cost", json!(1.5), "1"),
    ] {
        let error = tool_error!(client, "run_task", {"task": "t", argument: value});
        let expected = format!("{argument} may be at most {most} on this server.");
        assert_eq!(error, expected);
    }
    assert_error!(client, "run_task", {"task": "t", "max_cost": 0}, "more than 0");
    // They are also the default.
    let run = run_task(&client, "RUN: echo 1\nRUN: echo 2\nRUN: echo 3").await;
    assert_has!(run, {"status": "failed", "steps": 2});
}

#[tokio::test]
async fn task_runs_with_the_model_that_its_caller_names() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let listed = call!(client, "list_agent_profiles", {});
    let settings = agent_server(&real, "GET", "/api/settings", Value::Null).await;
    let llm = &settings["agent_settings"]["llm"];
    let name = format!("model-{}", Uuid::new_v4().simple());
    let llm = json!({"model": "openai/other-model", "base_url": llm["base_url"],
        "api_key": "not-a-key", "num_retries": 0});
    add_agent(&real, &name, llm).await;
    assert!(!listed.to_string().contains(&name));
    let profiles = listed["profiles"].as_array().unwrap().iter();
    let defaults: Vec<_> = profiles.filter(|row| row["default"] == true).collect();
    let [default] = defaults[..] else {
        panic!("{listed}")
    };
    assert!(
        default["name"].is_string() && default["model"].is_string(),
        "{listed}"
    );
    let listed = call!(client, "list_agent_profiles", {});
    let models = listed["models"].as_array().unwrap();
    let added = models.iter().find(|model| model["name"] == *name).unwrap();
    assert_eq!(added["model"], "openai/other-model");
    assert!(!listed.to_string().contains("not-a-key"));
    let run = call!(client, "run_task", {"task": "RUN: echo chosen", "model": name,
        "agent": default["name"]});
    assert_has!(run, {"status": "finished", "last_output": "chosen"});
    assert_eq!(run["model"], "openai/other-model", "{run}");
    assert!(run["tokens"].is_u64(), "{run}");
    assert_error!(client, "run_task", {"task": "FINISH: x", "model": "no-such"}, &name);
    remove_agent(&real, &name).await;
    // A task that has run has its model.
    let more = json!({"task_id": run["task_id"], "message": "RUN: echo on"});
    let more = call(&client, "send_message", more).await;
    assert_has!(more, {"status": "finished", "last_output": "on"});
}

#[tokio::test]
async fn seconds_are_those_of_the_runs() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let began = Instant::now();
    // The clock of the agent server counts whole seconds.
    let most = || began.elapsed().as_secs() + 2;
    let run = call!(client, "run_task", {"task": "RUN: sleep 3", "verify": "true"});
    assert_eq!(run["verified"], true, "{run}");
    let id = &run["task_id"];
    let seconds = async || call_with_id(&client, "get_task_status", id).await["seconds"].as_u64();
    let first = seconds().await.unwrap();
    assert!((3..=most()).contains(&first), "{run}");
    // Tags that are written later change the time of the last event.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut tags = conversation(&real, id).await["tags"].clone();
    tags["team"] = json!("a");
    let path = format!("/api/conversations/{}", id.as_str().unwrap());
    agent_server(&real, "PATCH", &path, json!({"tags": tags})).await;
    assert_eq!(seconds().await, Some(first));
    let more = call!(client, "send_message", {"task_id": id, "message": "RUN: sleep 2"});
    assert_eq!(more["status"], "finished", "{more}");
    let both = more["seconds"].as_u64().unwrap();
    assert!((first + 2..=most()).contains(&both), "{first}, {more}");
}

#[tokio::test]
async fn usage_is_summed_by_day_principal_and_profile() {
    let Some(real) = openhands() else { return };
    let name = format!("alice-{}", Uuid::new_v4().simple());
    let (_server, alice, bob) = two_principals(&real, &name, "false").await;
    let mut spent = 0;
    for _ in 0..2 {
        let run = run_task(&alice, "RUN: echo counted").await;
        assert!(run["seconds"].is_u64() && run["model"].is_string(), "{run}");
        spent += run["tokens"].as_u64().unwrap();
    }
    let usage = call!(alice, "get_usage", {"days": 1});
    let own = &usage["by_principal"][&name];
    assert_eq!(
        (&own["tasks"], &own["tokens"]),
        (&json!(2), &json!(spent)),
        "{usage}"
    );
    for sums in ["by_day", "by_profile"] {
        let sums = usage[sums].as_object().unwrap().values();
        let tasks: u64 = sums.map(|sum| sum["tasks"].as_u64().unwrap()).sum();
        assert_eq!(json!(tasks), usage["total"]["tasks"], "{usage}");
    }
    assert!(usage["not_counted"].is_array());
    let usage = call!(bob, "get_usage", {});
    assert!(usage["by_principal"][&name].is_null(), "{usage}");
}

/// About 2,000 tokens.
const MAX_BYTES: usize = 8_000;

#[tokio::test]
async fn answers_stay_small_with_any_output() {
    // Each byte of the output takes six bytes in JSON. The message of the model is long, too.
    let task = format!(
        "RUN: head -c 20000 /dev/zero | tr '\\\\0' '\\\\033'; for i in $(seq 400); do touch \
         \"a file with a long name, $i\"; done\nFINISH: {}",
        "\"quoted\"\\".repeat(3_000)
    );
    let Some(client) = client().await else { return };
    let run = run_task(&client, &task).await;
    let length = run.to_string().len();
    assert!(length < MAX_BYTES, "{length}");
    for tool in
        "wait_task get_task_status get_task_result get_task_changes get_task_events".split(' ')
    {
        let length = call_with_id(&client, tool, &run["task_id"])
            .await
            .to_string()
            .len();
        assert!(length < MAX_BYTES, "{tool}: {length}");
    }
}
