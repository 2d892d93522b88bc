//! The server of seed 000 as a backend: JSON-RPC over POST with a Bearer key, HTTP 200 also for errors, URI
//! templates in `resources/list`, and 401, 405 and 429.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::env::{Folder, Gateway, text};
use crate::harness::{FakeService, Request, Response, assert_contains, member_texts, response};

const KEY: &str = "cf_live_sk_test";
const PROJECTS: &str = r#"[{"id": "proj_abc123", "name": "Meine Website"}]"#;

/// The method whose rate limit is exceeded; empty if none is.
type Limited = Arc<Mutex<&'static str>>;

/// Starts the server, with or without `initialize`.
async fn codefluss(has_initialize: bool) -> (FakeService, Limited) {
    let limited = Limited::default();
    let found = Arc::clone(&limited);
    let respond = move |request: &Request| respond(request, has_initialize, *found.lock().unwrap());
    (FakeService::start(respond).await, limited)
}

fn respond(request: &Request, has_initialize: bool, limited: &str) -> Response {
    if request.method != "POST" {
        return Response::Http(405, "text/plain", "Nur POST erlaubt".into());
    }
    let body = request.json();
    let error = |code: i32, message: &str| json!({"error": {"code": code, "message": message}});
    let key = request.headers.get("authorization");
    let (status, mut reply) = if key.is_none_or(|key| key != &format!("Bearer {KEY}")) {
        (401, error(-32001, "Authentication failed"))
    } else if body["method"] == limited {
        (429, error(-32000, "Rate limit exceeded"))
    } else if body.get("id").is_none() {
        return Response::Http(200, "application/json", "".into());
    } else {
        let result = result(&body, has_initialize);
        let reply = result.map(|result| json!({"result": result}));
        let reply = reply.unwrap_or_else(|(code, message)| error(code, message));
        (200, reply)
    };
    reply["jsonrpc"] = json!("2.0");
    reply["id"] = body["id"].clone();
    Response::json(status, &reply)
}

fn result(body: &Value, has_initialize: bool) -> Result<Value, (i32, &'static str)> {
    let resource = |uri: &str, name: &str| json!({"uri": uri, "name": name, "description": name, "mimeType": "application/json"});
    let content = |uri: &str, text: &str| json!({"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]});
    let tool = |name: &str, properties: Value| json!({"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties, "required": []}});
    Ok(match body["method"].as_str().unwrap_or_default() {
        "initialize" if has_initialize => json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "codefluss-mcp-server", "version": "1.0.0"},
        }),
        "tools/list" => json!({"tools": [
            tool("list_projects", json!({})),
            tool("get_project", json!({"projectId": {"type": "string"}})),
        ]}),
        "tools/call" => json!({"content": [{"type": "text", "text": PROJECTS}], "isError": false}),
        "resources/list" => json!({"resources": [
            resource("codefluss://projects", "Projects"),
            resource("codefluss://design-system/{projectId}", "Design System"),
        ]}),
        "resources/read" => match body["params"]["uri"].as_str() {
            Some(uri @ "codefluss://projects") => content(uri, PROJECTS),
            Some(uri @ "codefluss://design-system/proj_abc123") => content(uri, "{}"),
            _ => return Err((-32003, "Resource not found")),
        },
        _ => return Err((-32601, "Method not found")),
    })
}

/// Starts a gateway in front of the server; `lines` are added to the configuration.
async fn behind_gateway(server: &FakeService, key: &str, lines: &str) -> Gateway {
    let url = format!("{}/api/mcp", server.url);
    let backend = format!("[backends.b]\nurl = {url:?}\ntoken = {key:?}\n{lines}\n");
    Gateway::start(Folder::new(), &backend, &[]).await
}

#[tokio::test]
async fn server_of_seed_000_works_with_and_without_initialize() {
    for (has_initialize, protocol, negotiated) in [
        (true, "", Some("2024-11-05")),
        (true, "protocol = \"2024-11-05\"", Some("2024-11-05")),
        (true, "protocol = \"rpc\"", None),
        (false, "", None),
        (false, "protocol = \"rpc\"", None),
    ] {
        let (server, limited) = codefluss(has_initialize).await;
        let gateway = behind_gateway(&server, KEY, protocol).await;
        gateway.until("b", "running").await;
        gateway.until_lists("b__list_projects", true).await;
        if let Some(negotiated) = negotiated {
            assert_eq!(gateway.backend("b").await["protocol"], negotiated);
        }
        let projects = gateway.tool("b__list_projects", json!({})).await;
        assert_eq!(text(&projects), PROJECTS, "{protocol}");

        let list = async |method: &str| gateway.result(method, json!({})).await;
        let resources = &list("resources/list").await["resources"];
        assert_eq!(member_texts(resources, "uri"), ["codefluss://projects"]);
        let templates = list("resources/templates/list").await["resourceTemplates"].clone();
        let expected = json!([{
            "uriTemplate": "codefluss://design-system/{projectId}",
            "name": "Design System", "description": "Design System", "mimeType": "application/json",
        }]);
        assert_eq!(templates, expected, "{protocol}");
        for (uri, text) in [
            ("codefluss://projects", PROJECTS),
            ("codefluss://design-system/proj_abc123", "{}"),
        ] {
            let read = gateway.result("resources/read", json!({"uri": uri})).await;
            assert_eq!(read["contents"][0]["text"], text, "{protocol} {uri}");
        }
        let unknown = json!({"uri": "codefluss://design-system/none"});
        let error = gateway.error("resources/read", unknown).await;
        assert_eq!(error["message"], "Resource not found", "{protocol}");

        *limited.lock().unwrap() = "tools/call";
        let refused = gateway.refusal("b__list_projects", json!({})).await;
        assert_contains(&refused, "Rate limit exceeded");
        *limited.lock().unwrap() = "";
        let projects = gateway.tool("b__list_projects", json!({})).await;
        assert_eq!(text(&projects), PROJECTS, "{protocol}");
    }
}

/// A list that cannot be read because of a limit is unknown, not empty.
#[tokio::test]
async fn limited_or_unauthorized_server_of_seed_000_is_not_taken_for_an_empty_one() {
    let (server, limited) = codefluss(true).await;
    *limited.lock().unwrap() = "resources/list";
    for (key, status) in [("wrong", "401"), (KEY, "429")] {
        let gateway = behind_gateway(&server, key, "").await;
        gateway.until("b", "failed").await;
        assert_contains(&gateway.backend("b").await["last_error"], status);
        if status == "429" {
            *limited.lock().unwrap() = "";
            gateway.until("b", "running").await;
        }
    }
}

/// An answer at a wrong URL is no server without tools.
#[tokio::test]
async fn wrong_url_of_a_server_without_handshake_is_an_error() {
    let page = || "<!doctype html><title>Welcome</title>".into();
    for (status, cause) in [
        (404, Some("HTTP 404: check the path of its URL")),
        (405, Some("HTTP 405: check the path of its URL")),
        (200, Some("is not a JSON-RPC message")),
        (0, None),
    ] {
        let server = FakeService::start(move |request| {
            if status > 0 {
                return Response::Http(status, "text/html", page());
            }
            let error = json!({"code": -32601, "message": "?"});
            Response::json(200, &response(&request.json()["id"], "error", error))
        })
        .await;
        let gateway = behind_gateway(&server, KEY, "protocol = \"rpc\"").await;
        let Some(cause) = cause else {
            gateway.until("b", "running").await;
            continue;
        };
        gateway.until("b", "failed").await;
        assert_contains(&gateway.backend("b").await["last_error"], cause);
    }
}
