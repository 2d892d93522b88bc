//! The toolsets beside the default one.

mod bounds;
mod compose;
mod compose_beside;
mod compose_bounds;
mod compose_cli;
mod compose_files;
mod compose_order;
mod compose_programs;
mod compose_yaml;
mod confirmations;
mod containers;
mod exec;
mod files;
mod hidden_names;
mod host;
mod host_network;
mod images;
mod logins;
mod networks;
mod policy;
mod recreate;
mod registry;
mod starts;
mod stdio_session;
mod system;
mod waiting;

use serde_json::{Value, json};

use super::super::lab::Lab;
use super::super::{call, fail, succeed};
use crate::harness::{Server, assert_contains, real};

/// An engine and a server with all tools and these variables; `None` if there is no engine.
async fn lab_with(env: &[(&str, &str)]) -> Option<Lab> {
    let env = [env, &[("MCP_TOOLSETS", "all")]].concat();
    Some(Lab::at(real::docker()?, &env).await)
}

/// With the programs that build and bring up projects.
async fn cli_lab(env: &[(&str, &str)]) -> Option<Lab> {
    let (host, dir) = (real::docker()?, real::compose_dir()?);
    let path = format!("{dir}:/usr/bin:/bin");
    let env = [env, &[("MCP_TOOLSETS", "all"), ("PATH", &path)]].concat();
    Some(Lab::at(host, &env).await)
}

/// As [`lab_with`], with nothing more.
async fn lab() -> Option<Lab> {
    lab_with(&[]).await
}

/// As [`lab`], with commands in containers allowed.
async fn exec_lab() -> Option<Lab> {
    lab_with(&[("DOCKER_MCP_ALLOW_EXEC", "1")]).await
}

/// Calls a tool that needs a confirmation, first without and then with `confirm`. Returns the refusal
/// and the result.
async fn confirmed(lab: &Lab, tool: &str, mut arguments: Value, target: &str) -> (String, Value) {
    let refused = fail(lab, tool, arguments.clone()).await;
    assert!(refused.contains("Nothing was done yet"), "{refused}");
    assert_contains(&refused, &format!("confirm: {target:?}"));
    arguments["confirm"] = json!("something-else");
    let wrong = fail(lab, tool, arguments.clone()).await;
    assert!(wrong.contains("Nothing was done"), "{wrong}");
    arguments["confirm"] = json!(target);
    (refused, succeed(lab, tool, arguments).await)
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap()).collect()
}

/// The error text of a call; empty on success.
async fn refusal(server: &Server, tool: &str, arguments: &Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let body: Value = server.post(request.to_string()).await.json();
    match (&body["error"], &body["result"]["isError"]) {
        (Value::Null, Value::Bool(false)) => String::new(),
        (Value::Null, _) => body["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned(),
        (error, _) => error["message"].as_str().unwrap().to_owned(),
    }
}
