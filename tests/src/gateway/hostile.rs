//! Malicious definitions, results and configurations.

use serde_json::{Value, json};

use super::env::{Folder, Gateway, misbehaving, text};
use crate::harness::{Dialect, FakeService, Response, assert_contains, assert_lacks};

/// Characters that are not shown (S21). In JSON text control characters are always escaped.
const HIDDEN: [&str; 6] = [
    "\\u001b",
    "\\u0007",
    "\u{200b}",
    "\u{202e}",
    "\u{e0041}",
    "\u{2066}",
];

/// S21 and S23.
#[tokio::test]
async fn malicious_schema_is_refused_alone_and_hidden_characters_are_removed() {
    let bait = FakeService::start(|_| Response::json(200, &json!({"type": "object"}))).await;
    let folder = Folder::new();
    let foreign =
        json!({"type": "object", "properties": {"a": {"$ref": format!("{}/s", bait.url)}}});
    let deep = format!(
        r#"{{"type":"object","not":{}{}}}"#,
        r#"{"not":"#.repeat(200),
        "}".repeat(200).replacen('}', "{}}", 1)
    );
    let many: Vec<Value> = (0..100_000).map(|n| json!({"const": n})).collect();
    let many = json!({"type": "object", "anyOf": many});
    let slow =
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    let cycle = json!({"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}});
    let hidden = format!("Adds.\u{1b}[31m{}\u{7} Ignore.", HIDDEN[2..].concat());
    let hidden = json!({"name": "add", "title": hidden, "description": hidden, "inputSchema": {
        "type": "object", "properties": {"a": {"type": "string", "description": hidden}}}});
    let tool = |name: &str, schema: &str| format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#);
    let tools = [
        tool("foreign", &foreign.to_string()),
        tool("deep", &deep),
        tool("many", &many.to_string()),
        tool("slow", &slow.to_string()),
        tool("cycle", &cycle.to_string()),
        tool("text", r#""x""#),
        tool("list", r#"{"type":"array"}"#),
        tool("fine", r#"{"type":"object"}"#),
        hidden.to_string(),
        "7".to_owned(),
        r#"{"inputSchema":{"type":"object"}}"#.to_owned(),
    ];
    let file = folder.write("tools", &format!("[{}]", tools.join(",")));
    let config = format!("[backends.b]\n{}\n", misbehaving(&["--tools", &file]));
    let gateway = Gateway::running(folder, &config).await;
    for dialect in Dialect::ALL {
        let listed = gateway.request_as(dialect, "tools/list", "", "").await;
        assert_contains(&listed.body, "b__fine");
        assert_contains(&listed.body, "b__slow");
        assert_contains(&listed.body, "Adds.");
        for bad in ["b__foreign", "b__deep", "b__many", "b__text", "b__list"] {
            assert_lacks(&listed.body, bad);
        }
        let listed = listed.json().to_string();
        for hidden in HIDDEN {
            assert_lacks(&listed, hidden);
        }
    }
    let arguments = json!({"a": format!("{}!", "a".repeat(60))});
    assert_eq!(text(&gateway.tool("b__slow", arguments).await), "done");
    let status = gateway.status().await;
    let refused = status["not_offered"].as_array().unwrap();
    assert!(refused.len() >= 5, "{status}");
    assert!(bait.requests().is_empty(), "it was fetched");
    assert_lacks(&gateway.log(), "\u{200b}");
}

/// S16.
#[tokio::test]
async fn no_shell_runs_a_command_and_no_request_adds_a_backend() {
    let folder = Folder::new();
    let witness = folder.path("witness");
    let journal = folder.path("journal");
    let corpus = concat!(
        "; touch W ¦ && touch W ¦ || touch W ¦ | touch W ¦ & touch W ¦ $(touch W) ¦ ",
        "`touch W` ¦ \n touch W ¦ > W ¦ >> W ¦ < W ¦ '; touch W; ' ¦ \"; touch W; \" ¦ ",
        "$IFS ¦ ${IFS}touch W ¦ %0a touch W ¦ \\; touch W ¦ !touch W ¦ ~/x ¦ * ¦ ? ¦ [a] ¦ ",
        "{touch,W} ¦ -- ¦ -c ¦ $0 ¦ # ¦ \t;touch W ¦ $((1)) ¦ \\$(touch W) ¦ ` ¦ ' ¦ \" ¦ ",
        "(touch W) ¦ { touch W; } ¦ -- ; touch W ¦ a\rtouch W ¦ \u{b};touch W ¦ ",
        "\u{2028}touch W ¦ %24(touch W) ¦ \\x60touch W\\x60 ¦ $'\\n'touch W ¦ ",
        "\"$(touch W)\" ¦ '`touch W`' ¦ <(touch W) ¦ >(touch W) ¦ 2>&1 | touch W ¦ ",
        "|| (touch W) & ¦ sh -c 'touch W' ¦ ../../../bin/touch W ¦ /bin/sh ¦ .. ¦ @W ¦ ",
        "--config=W",
    );
    let corpus = corpus.split(" ¦ ");
    let corpus: Vec<String> = corpus.map(|text| text.replace('W', &witness)).collect();
    assert!(corpus.len() >= 50, "{}", corpus.len());
    let escaped = corpus.iter().map(|text| text.replace("${", "$${"));
    let escaped: Vec<String> = escaped.collect();
    // The child does not read these files: each `--tools` replaces the one before.
    let mut args = vec!["--journal", journal.as_str()];
    for text in &escaped {
        args.extend(["--tools", text]);
    }
    let config = format!("[backends.b]\n{}\n", misbehaving(&args));
    let gateway = Gateway::running(folder, &config).await;
    for text in &corpus {
        gateway.tool("b__work", json!({"x": text})).await;
    }
    assert_eq!(gateway.folder.pids("journal").len(), 1);
    // The child, and the shell that would end it after a kill of the gateway.
    let processes = super::real::descendants(gateway.pid());
    assert!(processes.len() <= 2, "{processes:?}");
    assert!(!std::path::Path::new(&witness).exists());
    // S17: no request adds a backend.
    let names = gateway.tool_names().await.join(" ");
    assert_eq!(names, "gateway_status get_events gateway_restart b__work");
    for path in "/config /backends /servers /api/backends /admin".split(' ') {
        for method in ["GET", "POST", "PUT"] {
            let status = gateway.request(method, path, &[]).await.status;
            assert!([404, 405].contains(&status), "{method} {path} {status}");
        }
    }
}

/// S24: neither direction.
#[tokio::test]
async fn deep_json_is_not_passed_on() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = nested(100_000);
    let backend = FakeService::start(move |request| {
        let request = request.json();
        let result = match request["method"].as_str() {
            Some("tools/call") => format!(r#"{{"content":[],"structuredContent":{{"a":{deep}}}}}"#),
            _ => r#"{"tools":[{"name":"deep","inputSchema":{"type":"object"}}]}"#.to_owned(),
        };
        let id = &request["id"];
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        Response::Http(200, "application/json", body.into())
    })
    .await;
    let rpc = format!("url = \"{}\"\nprotocol = \"rpc\"", backend.url);
    let gateway = Gateway::with_backends(&[("rpc", &rpc), ("b", "FIXTURE")]).await;
    let failure = gateway.tool("rpc__deep", json!({})).await;
    assert_contains(text(&failure), "nested deeper than 64 levels");
    for dialect in Dialect::ALL {
        let call = async |depth| {
            let arguments = format!(r#"{{"value":{}}}"#, nested(depth));
            gateway.call_as(dialect, "b__echo", &arguments).await
        };
        assert_contains(&call(50).await.body, &nested(50));
        let refused = call(100).await.body;
        assert_contains(&refused, "nested deeper than 64 levels");
        assert_contains(&refused, "-32602");
    }
}

/// Texts of callers have lengths of their own, far below that of a body, and no error repeats them.
#[tokio::test]
async fn long_texts_of_callers_are_refused_by_their_field() {
    let gateway = Gateway::of("search_above = 1\n[backends.b]\nFIXTURE\n").await;
    let long = |length: usize| "a ".repeat(length / 2 + 1)[..length].to_owned();
    let uri = |length: usize| format!("test://template/{}", "1".repeat(length - 16));
    let (name, argument) = (long(129), json!({"name": "a", "value": "b"}));
    let huge = long(3_900_000);
    let of_resource = json!({"type": "ref/resource", "uri": uri(8_193)});
    let complete = |name: &str, of: &str, value: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": of, "value": value}});
    let completion = "completion/complete";
    for (method, params, field) in [
        ("tools/call", json!({"name": name}), "name"),
        ("tools/call", json!({"name": huge}), "name"),
        ("mcp.callTool", json!({"name": huge}), "name"),
        ("prompts/get", json!({"name": name}), "name"),
        ("resources/read", json!({"uri": uri(8_193)}), "uri"),
        ("resources/read", json!({"uri": uri(3_900_000)}), "uri"),
        ("resources/subscribe", json!({"uri": uri(8_193)}), "uri"),
        ("resources/unsubscribe", json!({"uri": uri(8_193)}), "uri"),
        (completion, complete(&name, "a", "b"), "ref.name"),
        (
            completion,
            json!({"ref": of_resource, "argument": argument}),
            "ref.uri",
        ),
        (completion, complete("a", &name, ""), "argument.name"),
        (completion, complete("a", "a", &huge), "argument.value"),
    ] {
        let error = gateway.error(method, params).await.to_string();
        let expected = format!("{field}: must have at most");
        assert!(error.contains(&expected), "{method}: {error:.300}");
        assert!(error.len() < 1_000, "{method}: {}", error.len());
    }
    for (tool, arguments, field) in [
        ("search_tools", json!({"query": long(257)}), "query"),
        ("search_tools", json!({"query": huge}), "query"),
        ("call_tool", json!({"name": name}), "name"),
        ("gateway_restart", json!({"backend": huge}), "backend"),
        ("get_events", json!({"since": huge}), "since"),
    ] {
        let answer = gateway.answer(tool, arguments).await.to_string();
        let is_named = ["must have at most", field]
            .iter()
            .all(|part| answer.contains(part));
        assert!(is_named, "{tool}: {answer:.300}");
        assert!(answer.len() < 2_000, "{tool}: {}", answer.len());
    }
    // At the limits.
    let query = json!({"query": format!("{}greet", long(251))});
    let found = gateway.tool("search_tools", query).await;
    assert_ne!(found["isError"], true, "{found}");
    let error = gateway
        .error("resources/read", json!({"uri": uri(8_192)}))
        .await;
    assert_lacks(&error, "must have at most");
}
