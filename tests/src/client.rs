//! The client against the fixture server: every era, over both transports. The tests of the client itself have what one
//! transport or era decides; these have what comes from the server.

use mcp_client::{Client, ClientInfo, Command, Endpoint, Era, EraChoice, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::{
    FakeService, Messages, Request, Response, Server, binary, client_builder, recorder, wait_until,
};

/// A client of the fixture with these capabilities, over HTTP or, without a server, over stdio; and the messages of its own
/// handler.
pub(crate) async fn connected(
    server: Option<&Server>,
    era: EraChoice,
    capabilities: Value,
) -> (Client, Messages) {
    let (handler, seen) = recorder();
    let builder = client_builder().era(era).handler(handler);
    let client = match server {
        Some(server) => builder.http(Endpoint::new(&server.url).unwrap()),
        None => builder.stdio(Command::new(binary("mcp-conformance")).arg("--stdio")),
    };
    let client = client.unwrap();
    let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
    client.connect(&info).await.unwrap();
    (client, seen)
}

#[tokio::test]
async fn messages_of_the_server_reach_their_receivers() {
    let server = Server::start("mcp-conformance", &[]).await;
    for server in [Some(&server), None] {
        for era in [EraChoice::Newest, EraChoice::Legacy, EraChoice::Unversioned] {
            let label = format!("over HTTP: {}, {era:?}", server.is_some());
            let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
            let (client, mut seen) = connected(server, era, capabilities).await;
            progress_has_the_token_of_the_caller(&client, &label).await;
            if client.era() == Era::Unversioned {
                let listening = client.listen(&json!({})).await;
                assert_eq!(listening.is_err(), server.is_some());
                continue;
            }
            elicitation_reaches_the_handler_of_the_call_or_is_the_result(&client).await;
            assert!(seen.try_recv().is_err());
            let method = change(&client, &mut seen).await;
            assert_eq!(method, "notifications/tools/list_changed", "{label}");
        }
    }
}

/// Returns true if the result holds this JSON, as data or, in the unversioned era, as text.
fn holds(result: &RawValue, json: &str) -> bool {
    let text = serde_json::to_string(json).unwrap();
    result.get().contains(json) || result.get().contains(text.trim_matches('"'))
}

async fn progress_has_the_token_of_the_caller(client: &Client, label: &str) {
    let (handler, mut seen) = recorder();
    let options = Options::default().handler(handler);
    let params = json!({"name": "slow", "arguments": {"step": 0, "steps": 3},
        "_meta": {"progressToken": "mine"}});
    let call = client.request_with("tools/call", &params, options);
    assert!(holds(&call.await.unwrap(), r#""done":3"#));
    for step in 1..=3 {
        let (method, params) = seen.try_recv().unwrap();
        assert_eq!(method, "notifications/progress");
        assert_eq!(params["progressToken"], "mine", "{label}");
        assert_eq!(params["progress"].as_f64(), Some(step.into()));
    }
    assert!(seen.try_recv().is_err());
}

async fn elicitation_reaches_the_handler_of_the_call_or_is_the_result(client: &Client) {
    let (handler, mut seen) = recorder();
    let options = Options::default().handler(handler);
    let ask = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
    let result = client.request_with("tools/call", &ask, options);
    let result: Value = serde_json::from_str(result.await.unwrap().get()).unwrap();
    if client.era() == Era::Modern {
        assert_eq!(result["resultType"], "input_required");
        assert!(seen.try_recv().is_err());
    } else {
        let (method, params) = seen.try_recv().unwrap();
        assert_eq!(method, "elicitation/create");
        assert_eq!(params["message"], "Who?");
        assert!(result.to_string().contains("accept"), "{result}");
    }
}

/// Changes the list of tools while the client listens. Returns the first message that its handler gets.
async fn change(client: &Client, seen: &mut Messages) -> String {
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": false});
    let listening = client.listen(&wanted).await.unwrap();
    let following = tokio::spawn(listening.closed());
    let change = json!({"name": "test_trigger_tool_change", "arguments": {}});
    client.request("tools/call", &change).await.unwrap();
    let (method, _) = seen.recv().await.unwrap();
    following.abort();
    method
}

/// The service, the keys of an issuer and the collector of spans, each at a name that only the proxy knows.
#[tokio::test]
async fn every_outgoing_request_goes_through_the_proxy_of_the_environment() {
    let proxy = FakeService::start(|_| Response::json(502, &json!({}))).await;
    let server = Server::start(
        "n8n-mcp-server",
        &[
            ("HTTP_PROXY", &proxy.url),
            ("HTTPS_PROXY", &proxy.url),
            ("N8N_URL", "http://n8n.invalid:5678"),
            ("N8N_API_KEY", "key"),
            ("MCP_TOKEN", "s3cret-of-16-chars"),
            ("MCP_AUTH_ISSUER", "https://issuer.invalid"),
            ("MCP_AUTH_RESOURCE", "https://mcp.invalid/mcp"),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://collector.invalid:4318",
            ),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ],
    )
    .await;
    let token = [("authorization", "Bearer s3cret-of-16-chars")];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(server.post_with(&token, ping.to_owned()).await.status, 200);
    for (method, target) in [
        ("GET", "http://n8n.invalid:5678/"),
        ("CONNECT", "issuer.invalid:443"),
        ("POST", "http://collector.invalid:4318/v1/traces"),
    ] {
        wait_until(target, async || {
            let requests = proxy.requests();
            let is_it = |one: &Request| one.method == method && one.target.starts_with(target);
            requests.iter().any(is_it)
        })
        .await;
    }
}
