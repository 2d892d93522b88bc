//! Against fakes of n8n's built-in MCP server, which refuse and lose answers.

use serde_json::{Value, json};

use super::{SERVER, assert_refused, done};
use crate::harness::{FakeService, Request, Response, Server, assert_contains, assert_lacks};

/// A workflow that only the MCP server starts.
fn workflow() -> Value {
    json!({"id": "w", "name": "W", "active": true, "connections": {},
    "settings": {"availableInMCP": true}, "nodes": [
        {"name": "Schedule", "type": "n8n-nodes-base.scheduleTrigger", "parameters": {}},
    ]})
}

/// An n8n whose MCP server answers as `mcp` says.
async fn fake(mcp: impl Fn(&Value) -> Response + Send + Sync + 'static) -> (FakeService, Server) {
    let fake = FakeService::start(move |request| match request.target.split('?').next() {
        Some("/api/v1/workflows/w") => Response::json(200, &workflow()),
        Some("/api/v1/workflows") if request.method == "POST" => Response::json(200, &workflow()),
        Some("/mcp-server/http") => mcp(&request.json()),
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let env = [
        ("N8N_URL", fake.url.as_str()),
        ("N8N_API_KEY", "k"),
        ("N8N_MCP_TOKEN", "SECRET"),
    ];
    let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
    (fake, server)
}

/// Its answers to everything but a call.
fn session(message: &Value) -> Response {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
            "serverInfo": {"name": "n8n MCP Server", "version": "1.0.0"},
        }),
        Some("tools/list") => {
            json!({"tools": [{"name": "execute_workflow", "inputSchema": {"type": "object"}}]})
        }
        _ => return Response::Http(202, "text/plain", bytes::Bytes::new()),
    };
    Response::json(
        200,
        &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    )
}

fn starts(request: &Request) -> bool {
    request.json()["method"] == "tools/call"
}

#[tokio::test]
async fn errors_of_the_mcp_server_are_explained() {
    let unauthorized = Response::json(401, &json!({"message": "Unauthorized"}));
    let disabled = Response::json(404, &json!({"message": "MCP access is disabled SECRET"}));
    for (answer, part) in [
        (unauthorized, "N8N_MCP_TOKEN"),
        (disabled, "Enable it in n8n"),
        (Response::html(200), "cannot be read"),
    ] {
        let (_fake, server) = fake(move |_| answer.clone()).await;
        let client = server.client().await;
        let message =
            refused!(client, "run_workflow", {"workflow_id": "w", "trigger": "Schedule"}, part);
        assert_lacks(&message, "SECRET");
        // A change is written, and says that n8n was not asked about its nodes.
        let change =
            json!([{"op": "configure_node", "node": "Schedule", "fields": {"notes": "n"}}]);
        let edit = json!({"workflow_id": "w", "operations": change});
        let new = json!({"name": "V", "nodes": workflow()["nodes"]});
        for (tool, arguments) in [("create_workflow", new), ("edit_workflow", edit)] {
            let written = done(&client, tool, arguments).await;
            assert_contains(&written["note"], "Not checked: node types and parameters");
            assert_contains(&written["note"], part);
        }
    }
}

#[tokio::test]
async fn start_with_lost_answer_is_not_repeated() {
    let (fake, server) = fake(|message| match message["method"].as_str() {
        Some("tools/call") => Response::html(502),
        _ => session(message),
    })
    .await;
    let arguments = json!({"workflow_id": "w", "trigger": "Schedule"});
    let ran = done(&server.client().await, "run_workflow", arguments).await;
    assert_eq!(ran["status"], "running", "{ran}");
    assert_eq!(ran.get("execution_id"), None);
    assert_contains(&ran["note"], "before you run it again");
    let sent = fake.requests();
    assert_eq!(sent.iter().filter(|one| starts(one)).count(), 1);
}
