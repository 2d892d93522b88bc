//! A client of the fixture server for each transport and era.

use std::sync::Arc;

use mcp_client::{Client, ClientInfo, Command, Endpoint, Era, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Server, binary};

/// The fixture, and a client of it.
pub(super) struct Fixture {
    pub(super) client: Client,
    /// Messages that reached the client's own handler.
    pub(super) seen: Seen,
    pub(super) is_http: bool,
    pub(super) era: EraChoice,
    _server: Option<Server>,
}

pub(super) type Seen = mpsc::UnboundedReceiver<(String, Value)>;

impl Fixture {
    /// Both transports, three eras each.
    pub(super) async fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for is_http in [true, false] {
            for era in [EraChoice::Newest, EraChoice::Legacy, EraChoice::Unversioned] {
                all.push(Self::connect(is_http, era).await);
            }
        }
        all
    }

    pub(super) async fn connect(is_http: bool, era: EraChoice) -> Self {
        let (handler, seen) = recorder();
        let builder = Client::builder().era(era).handler(handler);
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

    pub(super) fn is_modern(&self) -> bool {
        self.client.era() == Era::Modern
    }

    pub(super) fn is_unversioned(&self) -> bool {
        self.client.era() == Era::Unversioned
    }

    /// The transport and era, for failed assertions.
    pub(super) fn label(&self) -> String {
        let transport = if self.is_http { "HTTP" } else { "stdio" };
        format!("{transport}, {:?}", self.era)
    }
}

/// Records all messages, and accepts all requests.
struct Recorder(mpsc::UnboundedSender<(String, Value)>);

pub(super) fn recorder() -> (Arc<dyn Handler>, Seen) {
    let (sender, seen) = mpsc::unbounded_channel();
    (Arc::new(Recorder(sender)), seen)
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self.0.send((method.to_owned(), params.unwrap_or_default()));
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        self.notification(method, params);
        let result = match method {
            "sampling/createMessage" => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
            }
            "elicitation/create" => {
                json!({"action": "accept", "content": {"username": "u", "email": "e@x.org"}})
            }
            _ => json!({"roots": []}),
        };
        Box::pin(async move { Ok(to_raw_value(&result).unwrap()) })
    }
}
