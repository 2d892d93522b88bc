//! The event socket of a conversation: the agent server sends every event down it as it happens,
//! and the state of the conversation as soon as it is open.
//!
//! Nothing of what comes is believed or even read: that something came says "look now", and what is
//! looked at is the REST API.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use upstream::http::header::{CONNECTION, HeaderMap, SEC_WEBSOCKET_ACCEPT, UPGRADE};
use upstream::http::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use upstream::http::{Method, RequestBuilder, Upgraded};

use super::agent_server::{AgentServer, MAX_BODY};
use super::failure::Failure;
use super::task_id::TaskId;

/// The agent server pings every 20 s. After twice this time without a word, and with a ping of ours
/// in between, the other side is gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// What is sent is tiny and must not wait for a peer that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// An open event socket; closed when it is dropped.
pub(crate) struct EventSocket(WebSocketStream<Upgraded>);

/// The socket is closed, broken or silent.
#[derive(Debug)]
pub(crate) struct Closed;

impl AgentServer {
    /// Opens the event socket of a conversation. Whether the key is good and the conversation
    /// exists is not known before something [comes](EventSocket::next).
    pub(crate) async fn event_socket(&self, id: TaskId) -> Result<EventSocket, Failure> {
        // In the first message, not in a header or the address: so the agent server wants it, and
        // addresses get into logs.
        let key = self.key().map_err(Failure::Key)?;
        let nonce = generate_key();
        let switch = |request: RequestBuilder| {
            request
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, &nonce)
        };
        let path = ["sockets", "events", &id.to_string()];
        let request = self.open_request(Method::GET, &path, &[]);
        let no_socket = || Failure::NoSocket(self.address().to_owned());
        let (headers, connection) = request.with(switch).upgrade().await?;
        if !accepts(&headers, &nonce) {
            return Err(no_socket());
        }
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_BODY))
            .max_frame_size(Some(MAX_BODY));
        let stream = WebSocketStream::from_raw_socket(connection, Role::Client, Some(limits));
        let mut socket = EventSocket(stream.await);
        if let Some(key) = key {
            let words = json!({"type": "auth", "session_api_key": key}).to_string();
            let sent = socket.send(Message::text(words)).await;
            sent.map_err(|Closed| no_socket())?;
        }
        Ok(socket)
    }
}

impl EventSocket {
    /// Waits until something happens in the conversation.
    ///
    /// # Errors
    /// The socket is of no use any more.
    pub(crate) async fn next(&mut self) -> Result<(), Closed> {
        let mut asked = false;
        loop {
            match timeout(IDLE_TIMEOUT, self.0.next()).await {
                Ok(Some(Ok(Message::Text(_) | Message::Binary(_)))) => return Ok(()),
                // Pings are answered by the library.
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => asked = false,
                Ok(_) => return Err(Closed),
                Err(_) if asked => return Err(Closed),
                Err(_) => {
                    asked = true;
                    self.send(Message::Ping("".into())).await?;
                }
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), Closed> {
        let sent = timeout(SEND_TIMEOUT, self.0.send(message)).await;
        sent.map_err(|_| Closed)?.map_err(|_| Closed)
    }
}

/// The other side speaks WebSocket, and this is its answer to our question.
fn accepts(headers: &HeaderMap, nonce: &str) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    let accept = headers.get(SEC_WEBSOCKET_ACCEPT);
    upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
        && accept.is_some_and(|accept| accept == derive_accept_key(nonce.as_bytes()).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_question_counts() {
        // The example of RFC 6455.
        let nonce = "dGhlIHNhbXBsZSBub25jZQ==";
        let mut headers = HeaderMap::new();
        assert!(!accepts(&headers, nonce));
        headers.insert(UPGRADE, "WebSocket".parse().unwrap());
        headers.insert(
            SEC_WEBSOCKET_ACCEPT,
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".parse().unwrap(),
        );
        assert!(accepts(&headers, nonce));
        assert!(!accepts(&headers, "AQIDBAUGBwgJCgsMDQ4PEA=="));
    }
}
