//! What passes through, in every era of the client and of the backend.

use mcp_client::Options;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::front::{Front, Manner};
use super::lab::{Gateway, fixture, text};
use crate::harness::{Dialect, Server, assert_contains, eventually};

/// One backend in each of its forms: a child and a server, of the newest era and of the one before.
async fn backends() -> (Vec<Gateway>, Server, Vec<Front>) {
    let server = Server::start("mcp-conformance", &[]).await;
    let old = Front::of(&server.url, Manner::Old).await;
    let forms = [
        fixture(&["--stdio"]),
        fixture(&["old"]),
        format!("url = {:?}", server.url),
        format!("url = {:?}", old.url),
        format!("url = {:?}\nprotocol = \"rpc\"", server.url),
    ];
    let mut gateways = Vec::new();
    for form in &forms {
        gateways.push(Gateway::with(form).await);
    }
    (gateways, server, vec![old])
}

#[tokio::test]
async fn each_form_has_the_era_that_it_should_have() {
    let (gateways, _server, _fronts) = backends().await;
    let mut eras = Vec::new();
    for gateway in &gateways {
        eras.push(gateway.backend("b").await["protocol"].clone());
    }
    let newest = json!("2026-07-28");
    let before = json!("2025-11-25");
    assert_eq!(eras[..4], [newest.clone(), before.clone(), newest, before]);
}

#[tokio::test]
async fn results_pass_byte_for_byte() {
    let value = r#"{"n":123456789012345678901234567890,"e":1e400,"m":-0.0,"f":1.10,"t":"\u00e4\/","k":{"b":1,"a":2,"b":3}, "s" : [ ]}"#;
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate() {
        for dialect in Dialect::ALL {
            let arguments = format!(r#"{{"value":{value}}}"#);
            let reply = gateway.server.call_as(dialect, "b__echo", &arguments).await;
            assert_eq!(reply.status, 200, "{form} {dialect:?} {reply:?}");
            if dialect.supports("2025-06-18") && form != 4 {
                assert!(
                    reply.body.contains(&format!(r#""value":{value}"#)),
                    "{form} {dialect:?} {reply:?}"
                );
            }
            let quoted = Value::from(format!(r#"{{"value":{value}}}"#)).to_string();
            assert!(reply.body.contains(&quoted), "{form} {dialect:?} {reply:?}");
        }
    }
}

#[tokio::test]
async fn definitions_are_those_of_the_backend() {
    let server = Server::start("mcp-conformance", &[]).await;
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate() {
        for dialect in [Dialect::Legacy("2025-11-25"), Dialect::Modern] {
            // The unversioned era shows less of a tool, so that is what such a backend says.
            if form == 4 {
                continue;
            }
            let listed = async |server: &Server, method: &str| {
                let reply = server.request_as(dialect, method, "", "").await;
                reply.json()["result"].clone()
            };
            let direct = listed(&server, "tools/list").await;
            let through = listed(&gateway.server, "tools/list").await;
            let through = through["tools"].as_array().unwrap();
            for tool in direct["tools"].as_array().unwrap() {
                let mut expected = tool.clone();
                expected["name"] = format!("b__{}", tool["name"].as_str().unwrap()).into();
                let found = through
                    .iter()
                    .find(|found| found["name"] == expected["name"]);
                let found = found.unwrap_or_else(|| panic!("{form}: no {}", expected["name"]));
                // Where every client says by itself that it knows tasks, no tool says that it does.
                if [0, 2].contains(&form) {
                    expected.as_object_mut().unwrap().remove("execution");
                }
                assert_eq!(*found, expected, "{form} {dialect:?}");
            }
            for (method, member) in [
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
            ] {
                let direct = listed(&server, method).await;
                let through = listed(&gateway.server, method).await;
                let mut direct = direct[member].as_array().unwrap().clone();
                let mut through = through[member].as_array().unwrap().clone();
                direct.sort_by_key(ToString::to_string);
                through.sort_by_key(ToString::to_string);
                assert_eq!(through, direct, "{form} {dialect:?} {method}");
            }
        }
    }
}

#[tokio::test]
async fn resources_prompts_and_completion_pass() {
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate() {
        for dialect in Dialect::ALL {
            if form == 4 {
                continue;
            }
            let ask = async |method: &str, name: &str, members: &str| {
                let reply = gateway.request_as(dialect, method, name, members).await;
                let answer = reply.json();
                assert!(
                    answer.get("result").is_some(),
                    "{form} {dialect:?} {answer}"
                );
                answer["result"].clone()
            };
            let uri = "test://template/123/data";
            let read = ask("resources/read", uri, &format!(r#""uri":"{uri}""#)).await;
            assert!(read.to_string().contains("Data for ID: 123"), "{read}");
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

#[tokio::test]
async fn content_of_every_kind_is_what_the_backend_sent() {
    let direct = Server::start("mcp-conformance", &[]).await;
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate() {
        for tool in [
            "test_image_content",
            "test_audio_content",
            "test_embedded_resource",
            "test_multiple_content_types",
            "test_error_handling",
            "web_search",
        ] {
            let arguments = if tool == "web_search" {
                r#"{"query":"x"}"#
            } else {
                "{}"
            };
            for dialect in [Dialect::Legacy("2025-11-25"), Dialect::Modern] {
                let expected = direct.call_as(dialect, tool, arguments).await.json();
                let found = gateway
                    .server
                    .call_as(dialect, &format!("b__{tool}"), arguments)
                    .await
                    .json();
                assert_eq!(
                    found["result"]["content"], expected["result"]["content"],
                    "{form} {dialect:?} {tool}"
                );
                assert_eq!(
                    found["result"]["isError"], expected["result"]["isError"],
                    "{form} {tool}"
                );
            }
        }
    }
}

#[tokio::test]
async fn names_are_accepted_in_three_forms_and_shown_in_two() {
    let gateway = Gateway::before_fixture().await;
    for name in ["b__greet", "b:greet", "b.greet"] {
        for dialect in Dialect::ALL {
            let reply = gateway
                .server
                .call_as(dialect, name, r#"{"name":"Ada"}"#)
                .await;
            assert_eq!(
                text(&reply.json()["result"]),
                "Hello, Ada!",
                "{name} {dialect:?}"
            );
        }
    }
    let colon = gateway.call("b:greet", json!({"name": "Ada"})).await;
    assert_eq!(colon, "Hello, Ada!");
    let listed = gateway.result("mcp.listTools", json!({})).await.to_string();
    assert!(
        listed.contains(r#""b:greet""#) && !listed.contains("b__greet"),
        "{listed}"
    );
    for dialect in Dialect::ALL {
        let listed = gateway.request_as(dialect, "tools/list", "", "").await.body;
        assert!(
            listed.contains(r#""b__greet""#) && !listed.contains("b:greet"),
            "{dialect:?}"
        );
    }
    for wrong in [
        "b_greet",
        "greet",
        "B__greet",
        "b__Greet",
        "b/greet",
        "b::greet",
        "b__b__greet",
    ] {
        let error = gateway
            .error("tools/call", json!({"name": wrong, "arguments": {}}))
            .await;
        assert_eq!(error["message"], format!("Tool not found: {wrong}"));
    }
}

#[tokio::test]
async fn progress_reaches_the_client() {
    use mcp_client::EraChoice::{Legacy, Newest};
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate().take(4) {
        for dialect in [Newest, Legacy] {
            let client = gateway.client(dialect, None).await;
            let (reports, mut seen) = tokio::sync::mpsc::channel(16);
            let call = json!({"name": "b__test_tool_with_progress", "arguments": {}});
            let options = Options::default().progress(reports);
            client
                .request_with("tools/call", &call, options)
                .await
                .unwrap();
            let mut found = Vec::new();
            while let Ok(report) = seen.try_recv() {
                found.push((report.progress, report.total));
            }
            let expected = [0.0, 50.0, 100.0].map(|done| (done, Some(100.0)));
            assert_eq!(found, expected, "{form} {dialect:?}");
        }
    }
}

#[tokio::test]
async fn cancelling_reaches_the_backend() {
    use mcp_client::EraChoice::{Legacy, Newest};
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate().take(4) {
        for dialect in [Newest, Legacy] {
            let client = gateway.client(dialect, None).await;
            let other = client.clone();
            let slow = tokio::spawn(async move {
                let call = json!({"name": "b__slow", "arguments": {"step": 50, "steps": 1000}});
                other.request("tools/call", &call).await
            });
            eventually("it to run", async || {
                count(gateway).await.filter(|count| *count == 1)
            })
            .await;
            slow.abort();
            eventually(&format!("{form} {dialect:?} to be cancelled"), async || {
                count(gateway).await.filter(|count| *count == 0)
            })
            .await;
        }
    }
}

/// How many calls of `slow` run at the backend.
pub(super) async fn count(gateway: &Gateway) -> Option<u64> {
    let counted = gateway.tool("b__count_slow", json!({})).await;
    let counted: Value = serde_json::from_str(text(&counted)).unwrap();
    counted["running"].as_u64()
}

#[tokio::test]
async fn results_with_what_we_do_not_know_are_kept() {
    // `_meta` and members of results that no revision has yet.
    let fake = crate::harness::FakeService::start(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let result = match body["method"].as_str() {
            Some("tools/list") => r#"{"tools":[{"name":"t","title":"T","description":"d","inputSchema":{"type":"object"},"icons":[{"src":"data:,x"}],"annotations":{"readOnlyHint":true,"x":1.0},"_meta":{"a/b":1.50}}]}"#,
            Some("tools/call") => r#"{"content":[{"type":"text","text":"x","annotations":{"priority":0.50},"_meta":{"z":1e2}}],"structuredContent":{"b":1,"a":10000000000000000000000},"_meta":{"own/key":[1.0]},"unknown":{"x":-0}}"#,
            _ => "{}",
        };
        let id = body["id"].to_string();
        crate::harness::Response::Http(200, "application/json", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into())
    })
    .await;
    let gateway = Gateway::with(&format!("url = {:?}\nprotocol = \"rpc\"", fake.url)).await;
    let listed = gateway
        .request_as(Dialect::Legacy("2025-11-25"), "tools/list", "", "")
        .await
        .body;
    for part in [
        r#""icons":[{"src":"data:,x"}]"#,
        r#"{"readOnlyHint":true,"x":1.0}"#,
        r#""_meta":{"a/b":1.50}"#,
        r#""title":"T""#,
    ] {
        assert!(listed.contains(part), "{part} {listed}");
    }
    let called = gateway
        .server
        .call_as(Dialect::Legacy("2025-11-25"), "b__t", "{}")
        .await
        .body;
    for part in [
        r#""annotations":{"priority":0.50},"_meta":{"z":1e2}"#,
        r#""structuredContent":{"b":1,"a":10000000000000000000000}"#,
        r#""own/key":[1.0]"#,
        r#""unknown":{"x":-0}"#,
    ] {
        assert!(called.contains(part), "{part} {called}");
    }
}

#[tokio::test]
async fn log_messages_of_a_call_reach_its_client() {
    use super::asking::recorder;
    use mcp_client::EraChoice::{Legacy, Newest};
    let (gateways, _server, _fronts) = backends().await;
    for (form, gateway) in gateways.iter().enumerate().take(4) {
        for dialect in [Newest, Legacy] {
            let client = gateway.client(dialect, None).await;
            if dialect == Legacy {
                client
                    .request("logging/setLevel", &json!({"level": "info"}))
                    .await
                    .unwrap();
            }
            let (handler, mut seen) = recorder();
            let options = Options::default().handler(handler);
            let call = json!({
                "name": "b__test_tool_with_logging", "arguments": {},
                "_meta": {"io.modelcontextprotocol/logLevel": "info"},
            });
            let called: Box<RawValue> = client
                .request_with("tools/call", &call, options)
                .await
                .unwrap();
            assert!(called.get().contains("Three messages"), "{called}");
            for _ in 0..3 {
                let (method, params) = seen
                    .try_recv()
                    .unwrap_or_else(|_| panic!("{form} {dialect:?}: no message"));
                assert_eq!(method, "notifications/message", "{form} {dialect:?}");
                assert_eq!(params["level"], "info");
            }
        }
    }
}
