//! A response that may be a stream of events, read as it comes.

use serde_json::Value;

use super::CALL_TIMEOUT;

pub(crate) struct EventStream {
    response: reqwest::Response,
    /// Bytes that are not read as events yet: a chunk may end within a character.
    bytes: Vec<u8>,
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl EventStream {
    pub(crate) fn new(response: reqwest::Response) -> Self {
        let bytes = Vec::new();
        Self { response, bytes }
    }

    /// The next event; `None` at the end. The comments of an idle stream are none.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let next = async {
            loop {
                let mut pairs = self.bytes.windows(2);
                if let Some(end) = pairs.position(|pair| pair == b"\n\n") {
                    let rest = self.bytes.split_off(end + 2);
                    let event = std::mem::replace(&mut self.bytes, rest);
                    let event = String::from_utf8(event).unwrap();
                    let field = |name: &str| {
                        let mut lines = event.lines();
                        let value = lines.find_map(|line| line.strip_prefix(name));
                        value.unwrap_or_default().trim().to_owned()
                    };
                    let (id, data) = (field("id:"), field("data:"));
                    if !event.starts_with(':') {
                        return Some(Event { id, data });
                    }
                } else {
                    let chunk = self.response.chunk().await.unwrap()?;
                    self.bytes.extend_from_slice(&chunk);
                }
            }
        };
        let next = tokio::time::timeout(CALL_TIMEOUT, next);
        next.await.expect("an event in time")
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("a message");
            if !event.data.is_empty() {
                return event;
            }
        }
    }

    /// The response to the request `id`, on this stream or as JSON.
    pub(crate) async fn response(&mut self, id: u64) -> Value {
        if self.response.headers()["content-type"] == "application/json" {
            let mut body = Vec::new();
            while let Some(chunk) = self.response.chunk().await.unwrap() {
                body.extend_from_slice(&chunk);
            }
            return serde_json::from_slice(&body).unwrap();
        }
        loop {
            let message = self.message().await.json();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}
