//! The client against the fixture server: every era, over both transports. The tests of the client itself have what one
//! transport or era decides; these have what comes from the server.

use mcp_client::{Client, ClientInfo, Command, Endpoint, Era, EraChoice, Options};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::harness::{Messages, Server, binary, client_builder, recorder};

/// The fixture, and a client of it.
struct Fixture {
    client: Client,
    /// Messages that reached the client's own handler.
    seen: Messages,
    is_http: bool,
    era: EraChoice,
    _server: Option<Server>,
}

impl Fixture {
    /// Both transports, three eras each.
    async fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for is_http in [true, false] {
            for era in [EraChoice::Newest, EraChoice::Legacy, EraChoice::Unversioned] {
                all.push(Self::connect(is_http, era).await);
            }
        }
        all
    }

    async fn connect(is_http: bool, era: EraChoice) -> Self {
        let (handler, seen) = recorder();
        let builder = client_builder().era(era).handler(handler);
        let (client, server) = if is_http {
            let server = Server::start("mcp-conformance", &[]).await;
            let endpoint = Endpoint::new(&server.url).unwrap();
            (builder.http(endpoint).unwrap(), Some(server))
        } else {
            let command = Command::new(binary("mcp-conformance")).arg("--stdio");
            (builder.stdio(command).unwrap(), None)
        };
        let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let info = ClientInfo::new("tests", "1").with_capabilities(capabilities);
        client.connect(&info).await.unwrap();
        Self {
            client,
            seen,
            is_http,
            era,
            _server: server,
        }
    }

    fn is_modern(&self) -> bool {
        self.client.era() == Era::Modern
    }

    fn is_unversioned(&self) -> bool {
        self.client.era() == Era::Unversioned
    }

    /// The transport and era, for failed assertions.
    fn label(&self) -> String {
        let transport = if self.is_http { "HTTP" } else { "stdio" };
        format!("{transport}, {:?}", self.era)
    }
}

/// Returns true if the result holds this JSON, as data or, in the unversioned era, as text.
fn holds(result: &RawValue, json: &str) -> bool {
    let text = serde_json::to_string(json).unwrap();
    result.get().contains(json) || result.get().contains(text.trim_matches('"'))
}

#[tokio::test]
async fn progress_has_the_token_of_the_caller() {
    for fixture in Fixture::all().await {
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let params = json!({"name": "slow", "arguments": {"step": 0, "steps": 3},
            "_meta": {"progressToken": "mine"}});
        let call = fixture.client.request_with("tools/call", &params, options);
        assert!(holds(&call.await.unwrap(), r#""done":3"#));
        for step in 1..=3 {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "notifications/progress");
            assert_eq!(params["progressToken"], "mine", "{}", fixture.label());
            assert_eq!(params["progress"].as_f64(), Some(step.into()));
        }
        assert!(seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn elicitation_reaches_the_handler_of_the_call_or_is_the_result() {
    for mut fixture in Fixture::all().await {
        if fixture.is_unversioned() {
            continue;
        }
        let (handler, mut seen) = recorder();
        let options = Options::default().handler(handler);
        let ask = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
        let result = fixture.client.request_with("tools/call", &ask, options);
        let result: Value = serde_json::from_str(result.await.unwrap().get()).unwrap();
        if fixture.is_modern() {
            assert_eq!(result["resultType"], "input_required");
            assert!(seen.try_recv().is_err());
        } else {
            let (method, params) = seen.try_recv().unwrap();
            assert_eq!(method, "elicitation/create");
            assert_eq!(params["message"], "Who?");
            assert!(result.to_string().contains("accept"), "{result}");
        }
        assert!(fixture.seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn changes_reach_clients_that_listen() {
    for mut fixture in Fixture::all().await {
        if fixture.is_unversioned() {
            let listening = fixture.client.listen(&json!({})).await;
            assert_eq!(listening.is_err(), fixture.is_http);
            continue;
        }
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": false});
        let listening = fixture.client.listen(&wanted).await.unwrap();
        assert_eq!(listening.accepted().is_some(), fixture.is_modern());
        if let Some(accepted) = listening.accepted() {
            assert!(accepted.get().contains("toolsListChanged"), "{accepted}");
        }
        let following = tokio::spawn(listening.closed());
        let change = json!({"name": "test_trigger_tool_change", "arguments": {}});
        fixture.client.request("tools/call", &change).await.unwrap();
        let (method, _) = fixture.seen.recv().await.unwrap();
        let changed = "notifications/tools/list_changed";
        assert_eq!(method, changed, "{}", fixture.label());
        following.abort();
    }
}
