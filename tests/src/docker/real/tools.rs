//! The toolsets beside the default one.

mod bounds;
mod compose_beside;
mod compose_bounds;
mod compose_cli;
mod compose_files;
mod compose_programs;
mod confirmations;
mod containers;
mod exec;
mod files;
mod hidden_names;
mod host_network;
mod images;
mod kept_work;
mod policy;
mod recreate;
mod registry;
mod stdio_session;
mod system;

use serde_json::{Value, json};

use super::super::lab::Lab;
use super::super::{asked_for, call, fail, post, succeed};
use crate::harness::{Server, assert_contains, real};

/// An engine and a server with all tools and these variables; `None` if there is no engine.
async fn lab_with(env: &[(&str, &str)]) -> Option<Lab> {
    let env = [env, &[("MCP_TOOLSETS", "all")]].concat();
    Some(Lab::at(real::docker()?, &env).await)
}

/// With the programs that build and bring up projects.
pub(super) async fn cli_lab(env: &[(&str, &str)]) -> Option<Lab> {
    let path = program_path()?;
    lab_with(&[env, &[("PATH", &path)]].concat()).await
}

/// The same on each engine; none without the programs.
async fn cli_labs(env: &[(&str, &str)]) -> Vec<Lab> {
    let Some(path) = program_path() else {
        return Vec::new();
    };
    let env = [env, &[("MCP_TOOLSETS", "all"), ("PATH", &path)]].concat();
    Lab::everywhere(&env).await
}

/// An environment whose server sees only its own objects, but for those with `hidden` in their names.
pub(super) async fn isolated_lab() -> Option<Lab> {
    let rules = [
        ("DOCKER_MCP_ALLOW", "name=PREFIX-*"),
        ("DOCKER_MCP_DENY", "name=*-hidden"),
    ];
    lab_with(&rules).await
}

/// A `PATH` with the programs of Docker; `None` without them.
pub(super) fn program_path() -> Option<String> {
    real::compose_dir().map(|dir| format!("{dir}:/usr/bin:/bin"))
}

/// As [`lab_with`], with nothing more.
async fn lab() -> Option<Lab> {
    lab_with(&[]).await
}

/// As [`lab`], with commands in containers allowed.
pub(in crate::docker) async fn exec_lab() -> Option<Lab> {
    lab_with(&[("DOCKER_MCP_ALLOW_EXEC", "1")]).await
}

/// Calls a tool that needs a confirmation, first without and then with `confirm`. Returns the refusal
/// and the result.
async fn confirmed(lab: &Lab, tool: &str, mut arguments: Value, target: &str) -> (String, Value) {
    let refused = fail(lab, tool, arguments.clone()).await;
    assert!(refused.contains("Nothing was done yet"), "{refused}");
    assert_contains(&refused, &format!("confirm: \"{target}"));
    arguments["confirm"] = json!("something-else");
    let wrong = fail(lab, tool, arguments.clone()).await;
    assert!(wrong.contains("Nothing was done"), "{wrong}");
    arguments["confirm"] = json!(target);
    (refused, succeed(lab, tool, arguments).await)
}

/// The number of processes, those of the engine included, whose command lines contain this; a zero ends each word.
fn processes_with(part: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.filter(|line| String::from_utf8_lossy(line).contains(part));
    lines.count()
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap()).collect()
}

/// The error text of a call; empty on success.
async fn refusal(server: &Server, tool: &str, arguments: &Value) -> String {
    let call = json!({"name": tool, "arguments": arguments});
    let body = post(server, "tools/call", call).await.json();
    match (&body["error"], &body["result"]["isError"]) {
        (Value::Null, Value::Bool(false)) => String::new(),
        (Value::Null, _) => body["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned(),
        (error, _) => error["message"].as_str().unwrap().to_owned(),
    }
}
