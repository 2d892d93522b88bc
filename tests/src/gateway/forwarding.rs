//! Forwarding of all requests and results, in every era of the client and of the backend.

use mcp_client::{EraChoice, Options, Revision};
use serde_json::{Value, json};

use super::env::{Folder, Gateway, legacy_fixture, request, stdio_fixture, text};
use super::input_requests::questions_are_forwarded;
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::{
    Dialect, FakeService, Response, Server, assert_contains, assert_lacks, recorder, response,
};

const LEGACY: Dialect = Dialect::Legacy("2025-11-25");

/// The index of the gateway whose backend is unversioned, with fewer methods.
const UNVERSIONED: usize = 4;

/// The fixture over HTTP, and one gateway for each kind of connection to the fixture.
pub(super) struct Gateways {
    all: Vec<Gateway>,
    server: Server,
    _legacy: TestProxy,
}

impl Gateways {
    async fn start() -> Self {
        let server = Server::start("mcp-conformance", &[]).await;
        let legacy = TestProxy::start(&server.url, ProxyMode::Legacy).await;
        let mut all = Vec::new();
        for backend in [
            stdio_fixture(),
            legacy_fixture(),
            format!("url = {:?}", server.url),
            format!("url = {:?}", legacy.url),
            format!("url = {:?}\nprotocol = \"rpc\"", server.url),
        ] {
            all.push(Gateway::with(&backend).await);
        }
        Self {
            all,
            server,
            _legacy: legacy,
        }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Gateway)> {
        self.all.iter().enumerate()
    }

    /// Without the unversioned backend.
    pub(super) fn versioned(&self) -> impl Iterator<Item = (usize, &Gateway)> {
        self.iter().take(UNVERSIONED)
    }
}

/// `protocol` holds a backend at a revision.
#[tokio::test]
async fn backend_is_held_at_its_revision() {
    let server = Server::start("mcp-conformance", &[]).await;
    let url = format!("url = {:?}", server.url);
    let revisions = Revision::ALL.map(Revision::as_str).into_iter();
    for revision in revisions.chain(["2026-07-28"]) {
        for backend in ["FIXTURE", &url] {
            let gateway = Gateway::with(&format!("{backend}\nprotocol = {revision:?}")).await;
            assert_eq!(gateway.backend("b").await["protocol"], revision);
            gateway.assert_answers("b").await;
        }
    }
    let legacy = legacy_fixture();
    let config = format!("[backends.b]\n{legacy}\nprotocol = \"2026-07-28\"\n");
    let gateway = Gateway::start(Folder::new(), &config, &[]).await;
    gateway.until("b", "failed").await;
    assert_contains(&gateway.backend("b").await["last_error"], "2026-07-28");
}

/// All pairs of the era of a client and the kind of a connection to a backend.
#[tokio::test]
async fn requests_and_results_are_forwarded_in_all_pairs_of_eras() {
    let gateways = Gateways::start().await;
    Box::pin(results_are_forwarded_byte_by_byte(&gateways)).await;
    Box::pin(definitions_are_forwarded_unchanged(&gateways)).await;
    Box::pin(resources_prompts_and_completions_are_forwarded(&gateways)).await;
    Box::pin(content_of_every_type_is_forwarded_unchanged(&gateways)).await;
    Box::pin(text_of_a_structure_is_left_out_for_clients_that_say_so(
        &gateways,
    ))
    .await;
    Box::pin(questions_are_forwarded(&gateways)).await;
    // Last: log messages that name no call are dropped while a call was left in the last minute.
    Box::pin(progress_log_messages_and_cancellation_are_forwarded(
        &gateways,
    ))
    .await;
}

async fn results_are_forwarded_byte_by_byte(gateways: &Gateways) {
    let value = r#"{"n":123456789012345678901234567890,"e":1e400,"m":-0.0,"f":1.10,"t":"\u00e4\/","k":{"b":1,"a":2,"b":3}, "s" : [ ]}"#;
    for (form, gateway) in gateways.iter() {
        for dialect in Dialect::ALL {
            let arguments = format!(r#"{{"value":{value}}}"#);
            let reply = gateway.call_as(dialect, "b__echo", &arguments).await;
            assert_eq!(reply.status, 200, "{form} {dialect:?} {reply:?}");
            if dialect.supports("2025-06-18") && form != UNVERSIONED {
                assert_contains(&reply.body, &format!(r#""value":{value}"#));
            }
            let quoted = Value::from(arguments).to_string();
            assert!(reply.body.contains(&quoted), "{form} {dialect:?} {reply:?}");
        }
    }
}

async fn definitions_are_forwarded_unchanged(gateways: &Gateways) {
    for (form, gateway) in gateways.versioned() {
        for dialect in [LEGACY, Dialect::Modern] {
            let listed = async |server: &Server, method: &str| {
                let reply = server.request_as(dialect, method, "", "").await;
                reply.json()["result"].clone()
            };
            let direct = listed(&gateways.server, "tools/list").await;
            let through = listed(&gateway.server, "tools/list").await;
            let through = through["tools"].as_array().unwrap();
            for tool in direct["tools"].as_array().unwrap() {
                let mut expected = tool.clone();
                expected["name"] = format!("b__{}", tool["name"].as_str().unwrap()).into();
                let mut found = through.iter();
                let found = found.find(|found| found["name"] == expected["name"]);
                let found = found.unwrap_or_else(|| panic!("{form}: no {}", expected["name"]));
                // In the modern era a client declares tasks, and the tools of the backend do not.
                if [0, 2].contains(&form) {
                    expected.as_object_mut().unwrap().remove("execution");
                }
                assert_eq!(*found, expected, "{form} {dialect:?}");
            }
            for (method, member) in [
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let sorted = async |server: &Server| {
                    let listed = listed(server, method).await;
                    let mut items = listed[member].as_array().unwrap().clone();
                    items.sort_by_key(ToString::to_string);
                    items
                };
                let (direct, through) = (sorted(&gateways.server).await, sorted(gateway).await);
                assert_eq!(through, direct, "{form} {dialect:?} {method}");
            }
        }
    }
}

async fn resources_prompts_and_completions_are_forwarded(gateways: &Gateways) {
    for (form, gateway) in gateways.versioned() {
        for dialect in Dialect::ALL {
            let ask = async |method: &str, name: &str, members: &str| {
                let reply = gateway.request_as(dialect, method, name, members).await;
                let mut answer = reply.json();
                assert!(answer["result"].is_object(), "{form} {dialect:?} {answer}");
                answer["result"].take()
            };
            let uri = "test://template/123/data";
            let read = ask("resources/read", uri, &format!(r#""uri":"{uri}""#)).await;
            assert_contains(&read, "Data for ID: 123");
            let members =
                r#""name":"b__test_prompt_with_arguments","arguments":{"arg1":"x","arg2":"y"}"#;
            let prompt = ask("prompts/get", "b__test_prompt_with_arguments", members).await;
            assert_contains(&prompt, "arg1='x', arg2='y'");
            let members = r#""ref":{"type":"ref/prompt","name":"b__test_prompt_with_arguments"},"argument":{"name":"arg1","value":"he"}"#;
            let found = ask("completion/complete", "", members).await;
            assert_eq!(found["completion"]["values"], json!(["hello", "help"]));
            let members = r#""ref":{"type":"ref/resource","uri":"test://template/{id}/data"},"argument":{"name":"id","value":"12"}"#;
            let found = ask("completion/complete", "", members).await;
            assert_eq!(found["completion"]["values"], json!(["123", "124"]));
        }
    }
}

async fn content_of_every_type_is_forwarded_unchanged(gateways: &Gateways) {
    for (form, gateway) in gateways.iter() {
        for (tool, arguments) in [
            ("test_image_content", "{}"),
            ("test_audio_content", "{}"),
            ("test_embedded_resource", "{}"),
            ("test_multiple_content_types", "{}"),
            ("test_error_handling", "{}"),
            ("web_search", r#"{"query":"x"}"#),
        ] {
            for dialect in [LEGACY, Dialect::Modern] {
                let result = async |server: &Server, tool: &str| {
                    server.call_as(dialect, tool, arguments).await.json()["result"].take()
                };
                let expected = result(&gateways.server, tool).await;
                let found = result(gateway, &format!("b__{tool}")).await;
                for member in ["content", "isError"] {
                    assert_eq!(found[member], expected[member], "{form} {dialect:?} {tool}");
                }
            }
        }
    }
}

#[tokio::test]
async fn tool_has_three_names_and_is_listed_by_two() {
    let gateway = Gateway::with_fixture().await;
    for name in ["b__greet", "b:greet", "b.greet"] {
        for dialect in Dialect::ALL {
            let reply = gateway.call_as(dialect, name, r#"{"name":"Ada"}"#).await;
            let result = reply.json()["result"].take();
            assert_eq!(text(&result), "Hello, Ada!", "{name} {dialect:?}");
        }
    }
    let colon = gateway.call("b:greet", json!({"name": "Ada"})).await;
    assert_eq!(colon, "Hello, Ada!");
    let listed = gateway.result("mcp.listTools", json!({})).await.to_string();
    assert_contains(&listed, r#""b:greet""#);
    assert_lacks(&listed, "b__greet");
    for dialect in Dialect::ALL {
        let listed = gateway.request_as(dialect, "tools/list", "", "").await.body;
        assert_contains(&listed, r#""b__greet""#);
        assert_lacks(&listed, "b:greet");
    }
    for wrong in "b_greet greet B__greet b__Greet b/greet b::greet b__b__greet".split(' ') {
        let error = gateway.unknown_tool(wrong).await;
        assert_eq!(error, format!("Tool not found: {wrong}"));
    }
}

async fn progress_log_messages_and_cancellation_are_forwarded(gateways: &Gateways) {
    let revisions = ["2026-07-28", "2025-11-25", "2026-07-28", "2025-11-25"];
    for (form, gateway) in gateways.versioned() {
        assert_eq!(gateway.backend("b").await["protocol"], revisions[form]);
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            let client = gateway.client(era, None).await;
            let (reports, mut received) = tokio::sync::mpsc::channel(16);
            let call = json!({"name": "b__test_tool_with_progress", "arguments": {}});
            let options = Options::default().progress(reports);
            let called = client.request_with("tools/call", &call, options);
            called.await.unwrap();
            let received = std::iter::from_fn(|| received.try_recv().ok());
            let received: Vec<_> = received
                .map(|report| (report.progress, report.total))
                .collect();
            let expected = [0.0, 50.0, 100.0].map(|done| (done, Some(100.0)));
            assert_eq!(received, expected, "{form} {era:?}");

            if era == EraChoice::Legacy {
                request(&client, "logging/setLevel", json!({"level": "info"})).await;
            }
            let (handler, mut messages) = recorder();
            let options = Options::default().handler(handler);
            let call = json!({
                "name": "b__test_tool_with_logging", "arguments": {},
                "_meta": {"io.modelcontextprotocol/logLevel": "info"},
            });
            let called = client.request_with("tools/call", &call, options).await;
            assert_contains(called.unwrap().get(), "Three messages");
            for _ in 0..3 {
                let message = messages.try_recv();
                let (method, params) = message.unwrap_or_else(|_| panic!("{form} {era:?}: none"));
                assert_eq!(method, "notifications/message", "{form} {era:?}");
                assert_eq!(params["level"], "info");
            }
        }
    }
    for (_, gateway) in gateways.versioned() {
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            Gateway::abort_slow_call(gateway.client(era, None).await).await;
        }
    }
}

async fn text_of_a_structure_is_left_out_for_clients_that_say_so(gateways: &Gateways) {
    for (form, gateway) in gateways.iter() {
        for (era, knows_structure) in [
            (EraChoice::Newest, true),
            (EraChoice::Legacy, true),
            (EraChoice::Revision(Revision::V2025_03_26), false),
            (EraChoice::Revision(Revision::V2024_11_05), false),
        ] {
            let capabilities = json!({"experimental": {"structuredContentOnly": {}}});
            let client = gateway.client_with(era, capabilities, None).await;
            let arguments = json!({"value": [1]});
            let raw = client.call_tool("b__echo", &arguments).await.unwrap().raw;
            // An unversioned backend sends no structure.
            let has_text = form == UNVERSIONED || !knows_structure;
            let parts = ["\"text\"", r#""structuredContent":{"value":[1]}"#];
            let found = parts.map(|part| raw.get().contains(part));
            assert_eq!(found, [has_text, !has_text], "{form} {era:?}: {raw}");
        }
    }
}

#[tokio::test]
async fn unknown_members_of_results_are_kept() {
    let fake = FakeService::start(|request| {
        let body = request.json();
        let result = match body["method"].as_str() {
            Some("tools/list") => r#"{"tools":[{"name":"t","title":"T","description":"d","inputSchema":{"type":"object"},"icons":[{"src":"data:,x"}],"annotations":{"readOnlyHint":true,"x":1.0},"_meta":{"a/b":1.50}}]}"#,
            Some("tools/call") => r#"{"content":[{"type":"text","text":"x","annotations":{"priority":0.50},"_meta":{"z":1e2}}],"structuredContent":{"b":1,"a":10000000000000000000000},"_meta":{"own/key":[1.0]},"unknown":{"x":-0}}"#,
            _ => "{}",
        };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, body["id"]);
        Response::Http(200, "application/json", answer.into())
    })
    .await;
    let gateway = Gateway::with(&format!("url = {:?}\nprotocol = \"rpc\"", fake.url)).await;
    let listed = gateway.request_as(LEGACY, "tools/list", "", "").await.body;
    for part in [
        r#""icons":[{"src":"data:,x"}]"#,
        r#"{"readOnlyHint":true,"x":1.0}"#,
        r#""_meta":{"a/b":1.50}"#,
        r#""title":"T""#,
    ] {
        assert_contains(&listed, part);
    }
    let called = gateway.call_as(LEGACY, "b__t", "{}").await.body;
    for part in [
        r#""annotations":{"priority":0.50},"_meta":{"z":1e2}"#,
        r#""structuredContent":{"b":1,"a":10000000000000000000000}"#,
        r#""own/key":[1.0]"#,
        r#""unknown":{"x":-0}"#,
    ] {
        assert_contains(&called, part);
    }
}

/// n8n 1.x adds it to every call. Other unknown arguments are refused by the backend.
#[tokio::test]
async fn tool_call_id_is_dropped_if_the_schema_does_not_know_it() {
    let known = json!({"toolCallId": {"type": "string"}});
    let tools = [
        ("knows", known, false),
        ("open", json!({}), true),
        ("closed", json!({}), false),
    ];
    let tools = tools.map(|(name, properties, others)| {
        let schema =
            json!({"type": "object", "properties": properties, "additionalProperties": others});
        json!({"name": name, "inputSchema": schema})
    });
    let backend = FakeService::start(move |request| {
        let result = json!({"tools": tools, "content": []});
        Response::json(200, &response(&request.json()["id"], "result", result))
    })
    .await;
    let lines = format!("url = \"{}\"\nprotocol = \"rpc\"\n", backend.url);
    let gateway = Gateway::with(&lines).await;
    for (name, is_passed_on) in [("knows", true), ("open", true), ("closed", false)] {
        let id = format!("call_{name}");
        let arguments = json!({"a": 1, "toolCallId": id});
        gateway.tool(&format!("b__{name}"), arguments).await;
        let seen = backend.requests().iter().any(|request| request.has(&id));
        assert_eq!(seen, is_passed_on, "{name}");
    }
    let fixture = Gateway::with_fixture().await;
    let name = json!({"name": "Ada", "toolCallId": "call_1"});
    assert_eq!(text(&fixture.tool("b__greet", name).await), "Hello, Ada!");
    let unknown = json!({"name": "Ada", "toolCallID": "call_1"});
    assert_contains(&fixture.refusal("b__greet", unknown).await, "toolCallID");
}
