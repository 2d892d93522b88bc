//! The event socket of a conversation, a WebSocket. The agent server sends the state of the
//! conversation when it opens, and then every event as it happens.
//!
//! The content of the messages is ignored. A message only means that it is time to poll the REST API.

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

use crate::api::agent_server::{AgentServer, MAX_BODY};
use crate::api::failure::{ApiFailure, ApiResult};
use crate::api::task_id::TaskId;

/// The agent server pings every 20 s. After this time without any message we send a ping, and after
/// the same time again the connection counts as lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages to the agent server are tiny. A peer that does not read must not block us.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// An open event socket. Dropping it closes it.
pub(crate) struct EventSocket(WebSocketStream<Upgraded>);

/// The socket is closed or broken, or its idle timeout has expired.
#[derive(Debug)]
pub(crate) struct Closed;

impl AgentServer {
    /// Opens the event socket of a conversation. A wrong key or an unknown conversation shows only
    /// later: no [message](EventSocket::next) arrives.
    pub(crate) async fn event_socket(&self, id: TaskId) -> ApiResult<EventSocket> {
        // The agent server wants the key in the first message. That keeps it out of the URL, and so
        // out of logs.
        let key = self.key().map_err(ApiFailure::Key)?;
        let nonce = generate_key();
        let switch = |request: RequestBuilder| {
            request
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, &nonce)
        };
        let path = ["sockets", "events", &id.to_string()];
        let request = self.open_request(Method::GET, &path);
        let no_socket = || ApiFailure::NoSocket(self.address().to_owned());
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
            let auth = json!({"type": "auth", "session_api_key": key}).to_string();
            let sent = socket.send(Message::text(auth)).await;
            sent.map_err(|Closed| no_socket())?;
        }
        Ok(socket)
    }
}

impl EventSocket {
    /// Waits for the next event of the conversation.
    ///
    /// # Errors
    /// The socket cannot be used any longer.
    pub(crate) async fn next(&mut self) -> Result<(), Closed> {
        let mut pinged = false;
        loop {
            match timeout(IDLE_TIMEOUT, self.0.next()).await {
                Ok(Some(Ok(Message::Text(_) | Message::Binary(_)))) => return Ok(()),
                // The library answers pings.
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => pinged = false,
                Ok(_) => return Err(Closed),
                Err(_) if pinged => return Err(Closed),
                Err(_) => {
                    pinged = true;
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

/// Returns true if the response accepts our WebSocket handshake.
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
    fn handshake_is_accepted_only_with_the_key_of_this_request() {
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
