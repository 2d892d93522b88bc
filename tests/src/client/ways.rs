//! The six ways to reach the fixture server.

use std::sync::Arc;

use mcp_client::{Client, ClientInfo, Command, Endpoint, Era, EraChoice, Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{Server, binary};

/// The fixture, and a client of it.
pub(super) struct Peer {
    pub(super) client: Client,
    /// What reached the client's own handler.
    pub(super) seen: Seen,
    pub(super) is_http: bool,
    _server: Option<Server>,
}

pub(super) type Seen = mpsc::UnboundedReceiver<(String, Value)>;

/// Both transports, three eras each.
pub(super) fn ways() -> impl Iterator<Item = (bool, EraChoice)> {
    let eras = [EraChoice::Newest, EraChoice::Legacy, EraChoice::Unversioned];
    [true, false]
        .into_iter()
        .flat_map(move |is_http| eras.map(|dialect| (is_http, dialect)))
}

impl Peer {
    pub(super) async fn meet((is_http, dialect): (bool, EraChoice)) -> Self {
        let (handler, seen) = recorder();
        let builder = Client::builder().era(dialect).handler(handler);
        let (client, server) = if is_http {
            let server = Server::start("mcp-conformance", &[]).await;
            let endpoint = Endpoint::new(&server.url).unwrap();
            (builder.http(endpoint).unwrap(), Some(server))
        } else {
            let command = Command::new(binary("mcp-conformance")).arg("--stdio");
            (builder.stdio(command).unwrap(), None)
        };
        let abilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let who = ClientInfo::new("tests", "1").with_capabilities(abilities);
        client.connect(&who).await.unwrap();
        Self {
            client,
            seen,
            is_http,
            _server: server,
        }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.client.era() == Era::Modern
    }

    pub(super) fn is_plain(&self) -> bool {
        self.client.era() == Era::Unversioned
    }
}

/// Keeps what it gets, and agrees to everything.
struct Recorder(mpsc::UnboundedSender<(String, Value)>);

pub(super) fn recorder() -> (Arc<dyn Handler>, Seen) {
    let (sender, seen) = mpsc::unbounded_channel();
    (Arc::new(Recorder(sender)), seen)
}

impl Recorder {
    fn note(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self.0.send((method.to_owned(), params.unwrap_or_default()));
    }
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        self.note(method, params);
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        self.note(method, params);
        let answer = match method {
            "sampling/createMessage" => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
            }
            "elicitation/create" => {
                json!({"action": "accept", "content": {"username": "u", "email": "e@x.org"}})
            }
            _ => json!({"roots": []}),
        };
        Box::pin(async move { Ok(to_raw_value(&answer).unwrap()) })
    }
}
