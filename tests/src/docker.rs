//! The Docker server, on real engines, and on a fake engine for faults that a real one cannot show.

/// `succeed!(client, "tool", {"argument": 1})`, as [`succeed`].
macro_rules! succeed {
    ($client:expr, $tool:expr, $arguments:tt) => {
        succeed(&$client, $tool, serde_json::json!($arguments)).await
    };
}

/// `fails_with!(client, "tool", {"argument": 1}, "text")`: calls [`fail`] and checks its error text.
macro_rules! fails_with {
    ($client:expr, $tool:expr, $arguments:tt, $($text:expr),+) => {{
        let error = fail(&$client, $tool, serde_json::json!($arguments)).await;
        $(crate::harness::assert_contains(&error, $text);)+
    }};
}

/// `fail!(client, "tool", {"argument": 1})`, as [`fail`].
macro_rules! fail {
    ($client:expr, $tool:expr, $arguments:tt) => {
        fail(&$client, $tool, serde_json::json!($arguments)).await
    };
}

mod default_tools;
mod faults;
mod hostile;
mod lab;
mod prelude;
mod proxy;
mod real;
mod stdio_session;
mod tool_calls;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::harness::real::compose_dir;
use crate::harness::{FakeService, Reply, Request, Response, Server, assert_contains, rpc};

const SERVER: &str = "docker-mcp-server";
/// A `PATH` with the programs of Docker.
static PATH: LazyLock<String> =
    LazyLock::new(|| format!("{}:/usr/bin:/bin", compose_dir().unwrap_or_default()));

/// The variables of a server in front of the engine at `host`, which is patient with a busy machine, and these.
fn variables<'a>(host: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let own = [
        ("DOCKER_HOST", host),
        ("DOCKER_CLIENT_TIMEOUT", "60"),
        ("DOCKER_MCP_ALLOW_EXEC", "1"),
        ("MCP_CALL_TIMEOUT", "120"),
        ("MCP_TOOLSETS", "all"),
        ("PATH", &PATH),
    ];
    [&own, more].concat()
}

/// A server in front of the engine at `host`, with all tools and these variables.
async fn in_front_of(host: &str, env: &[(&str, &str)]) -> Server {
    Server::start(SERVER, &variables(host, env)).await
}

/// A fake engine, and a server in front of it.
async fn with_fake(
    env: &[(&str, &str)],
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> (FakeService, Server) {
    let fake = FakeService::start(answer).await;
    let server = in_front_of(&fake.url.replace("http://", "tcp://"), env).await;
    (fake, server)
}

/// The result of `tools/call`, even if the tool failed.
async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    server.result("tools/call", params).await
}

/// The result of `tools/call`. A `confirm` is also that of what the tool shows first: with its checksum.
async fn agree(server: &Server, tool: &str, mut arguments: Value) -> Value {
    let result = call(server, tool, arguments.clone()).await;
    match confirms(&result, &mut arguments) {
        true => call(server, tool, arguments).await,
        false => result,
    }
}

/// Whether a call was refused until it confirms what its `confirm` names; then the arguments do.
fn confirms(refused: &Value, arguments: &mut Value) -> bool {
    let given = arguments["confirm"].as_str().unwrap_or("none");
    let shown = asked_for(refused).filter(|shown| shown.starts_with(&format!("{given}-")));
    match shown {
        Some(shown) => arguments["confirm"] = json!(shown),
        None => return false,
    }
    true
}

/// The whole reply to a request.
async fn post(server: &Server, method: &str, params: Value) -> Reply {
    server.post(rpc(method, params).to_string()).await
}

/// The value that a tool returns.
async fn succeed(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = agree(server, tool, arguments).await;
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(result["isError"], false, "{tool}: {text}");
    serde_json::from_str(text).unwrap()
}

/// The `confirm` that a refused call names.
fn asked_for(refused: &Value) -> Option<String> {
    let text = refused["content"][0]["text"].as_str()?;
    let (_, value) = text.split_once("call again with confirm: \"")?;
    Some(value.split('"').next()?.to_owned())
}

/// The protocol error of a call with invalid arguments.
async fn invalid(server: &Server, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let error = server.error("tools/call", params).await;
    assert_eq!(error["code"], -32602, "{tool} {arguments}: {error}");
    error
}

/// The calls of a table, `tool | arguments` in each line, with values in place of these words.
fn calls_of(table: &str, words: &[(&str, &str)]) -> Vec<(&'static str, Value)> {
    let rows = table.lines().filter(|row| !row.is_empty());
    let rows = rows.map(|row| {
        let mut row = row.to_owned();
        for (word, value) in words {
            row = row.replace(word, value);
        }
        let (tool, arguments) = row.split_once(" | ").unwrap();
        let arguments =
            serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{row}: {error}"));
        (&*tool.to_owned().leak(), arguments)
    });
    rows.collect()
}

/// The error text of a tool that fails.
async fn fail(server: &Server, tool: &str, arguments: Value) -> String {
    let result = agree(server, tool, arguments).await;
    assert_eq!(result["isError"], true, "{tool}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Calls a tool that needs a confirmation, first without and then with `confirm`. Returns the refusal
/// and the result.
async fn confirmed(
    server: &Server,
    tool: &str,
    mut arguments: Value,
    target: &str,
) -> (String, Value) {
    let refused = fail(server, tool, arguments.clone()).await;
    assert!(refused.contains("Nothing was done yet"), "{refused}");
    assert_contains(&refused, &format!("confirm: \"{target}"));
    arguments["confirm"] = json!("something-else");
    let wrong = fail(server, tool, arguments.clone()).await;
    assert!(wrong.contains("Nothing was done"), "{wrong}");
    arguments["confirm"] = json!(target);
    (refused, succeed(server, tool, arguments).await)
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
    let ask = async |arguments: &Value| {
        let call = json!({"name": tool, "arguments": arguments});
        post(server, "tools/call", call).await.json()
    };
    let mut body = ask(arguments).await;
    let mut confirmed = arguments.clone();
    if confirms(&body["result"], &mut confirmed) {
        body = ask(&confirmed).await;
    }
    match (&body["error"], &body["result"]["isError"]) {
        (Value::Null, Value::Bool(false)) => String::new(),
        (Value::Null, _) => body["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned(),
        (error, _) => error["message"].as_str().unwrap().to_owned(),
    }
}
