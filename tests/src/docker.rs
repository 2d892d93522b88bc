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

mod api_fields;
mod faults;
mod lab;
mod prelude;
mod proxy;
mod real;
mod stdio_session;
mod tool_calls;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::harness::real::docker_path;
use crate::harness::{
    FakeService, Reply, Request, Response, Server, assert_contains, assert_has, rpc,
};

const SERVER: &str = "docker-mcp-server";
static PATH: LazyLock<String> = LazyLock::new(docker_path);

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
    let rows = filled(table, words).into_iter();
    let rows = rows.map(|row| {
        let (tool, arguments) = row.split_once(" | ").unwrap();
        (&*tool.to_owned().leak(), parsed(arguments))
    });
    rows.collect()
}

/// The lines of a table, with values in place of these words.
fn filled(table: &str, words: &[(&str, &str)]) -> Vec<String> {
    let rows = table.lines().filter(|row| !row.is_empty());
    let fill = |row: String, (word, value): &(&str, &str)| row.replace(word, value);
    rows.map(|row| words.iter().fold(row.to_owned(), fill))
        .collect()
}

/// The value of a JSON text in a table.
#[track_caller]
fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Makes the calls of a table one after the other, with values in place of these words: `tool | arguments | answer` in each
/// line. The answer is an object with some of its members; or parts of it, with ` & ` between them; after `!` these are
/// parts of the error, and after `?` of the question before the call, to which the `confirm` of the arguments is the yes.
async fn steps(server: &Server, table: &str, words: &[(&str, &str)]) {
    for row in filled(table, words) {
        let (tool, rest) = row.split_once(" | ").unwrap();
        let (arguments, answer) = rest.rsplit_once(" | ").unwrap();
        let mut arguments = parsed(arguments);
        let (told, parts) = match answer.split_once(' ') {
            Some(("!", parts)) => (fail(server, tool, arguments).await, parts),
            Some(("?", parts)) => {
                let yes = arguments.as_object_mut().unwrap().remove("confirm");
                let yes = yes.as_ref().and_then(Value::as_str).unwrap();
                (confirmed(server, tool, arguments, yes).await.0, parts)
            }
            _ if answer.starts_with('{') => {
                let got = succeed(server, tool, arguments).await;
                assert_has(&got, parsed(answer));
                continue;
            }
            _ => (succeed(server, tool, arguments).await.to_string(), answer),
        };
        for part in parts.split(" & ") {
            assert!(told.contains(part), "{row}: {told}");
        }
    }
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
    let mut call = json!({"name": tool, "arguments": arguments});
    let mut body = post(server, "tools/call", call.clone()).await.json();
    if confirms(&body["result"], &mut call["arguments"]) {
        body = post(server, "tools/call", call).await.json();
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
