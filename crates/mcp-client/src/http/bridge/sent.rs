//! A message of the client, and the facts of it that HTTP needs.

use std::sync::Arc;

use http::HeaderValue;
use mcp_core::jsonrpc::{self, Frame, INTERNAL_ERROR, Members, Message, string};

use crate::http::header_params::HeaderParamCache;
use crate::http::headers::{HeaderList, request_headers};
use crate::http::session::PROTOCOL_VERSION;
use crate::{Error, RpcError};

/// The message that ends a handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The member of `_meta` with the revision, which a message of the modern era has.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A message of the client.
pub(super) struct Sent {
    pub(super) text: Arc<str>,
    pub(super) kind: Kind,
    pub(super) method: String,
    params: Option<Members>,
    /// The revision, in the modern era.
    pub(super) version: Option<String>,
    /// Its answer is not for the client.
    pub(super) is_silent: bool,
}

/// The kind of a message. Ids are JSON.
pub(super) enum Kind {
    /// The request `initialize`.
    Handshake(String),
    Request(String),
    /// The end of the handshake.
    Initialized,
    /// The cancellation of the request with this id.
    Cancellation(String),
    /// Another notification, or an answer.
    Other,
    /// Several messages, with the ids of the requests among them.
    Batch(Vec<String>),
}

impl Sent {
    /// Reads a line.
    ///
    /// # Errors
    /// The answer to a line that is no message.
    pub(super) fn read(line: &[u8]) -> Result<Self, Vec<u8>> {
        let frame = Frame::decode(line).map_err(|error| {
            let answer = match error.fault {
                jsonrpc::Fault::NotJson(_) => jsonrpc::parse_error(error.id),
                _ => jsonrpc::invalid_request(error.id),
            };
            jsonrpc::encode(&answer)
        })?;
        let text = String::from_utf8_lossy(line);
        let mut sent = Self {
            text: Arc::from(&*text),
            kind: Kind::Other,
            method: String::new(),
            params: None,
            version: None,
            is_silent: false,
        };
        let message = match frame {
            Frame::Single(message) => message,
            Frame::Batch(messages) => {
                let ids = messages.iter().filter_map(|message| match message {
                    Ok(Message::Request(request)) => Some(request.id.as_json().to_owned()),
                    _ => None,
                });
                sent.kind = Kind::Batch(ids.collect());
                return Ok(sent);
            }
        };
        let (id, method, params) = match message {
            Message::Request(request) => {
                let id = request.id.as_json().to_owned();
                (Some(id), request.method.into_owned(), request.params)
            }
            Message::Notification(notification) => {
                (None, notification.method.into_owned(), notification.params)
            }
            Message::Response(_) => (None, String::new(), None),
        };
        sent.params = params.and_then(|params| Members::read(params.get()));
        let member = |name: &str| sent.params.as_ref()?.get(name);
        let meta = member("_meta").and_then(Members::read);
        let version = meta.as_ref().and_then(|meta| string(meta.get(VERSION)?));
        sent.version = version.map(|version| version.into_owned());
        sent.kind = match (id, &*method) {
            (Some(id), "initialize") => Kind::Handshake(id),
            (Some(id), _) => Kind::Request(id),
            (None, "notifications/initialized") => Kind::Initialized,
            (None, "notifications/cancelled") => {
                Kind::Cancellation(member("requestId").unwrap_or("null").to_owned())
            }
            (None, _) => Kind::Other,
        };
        sent.method = method;
        Ok(sent)
    }

    /// The id that its answer will have.
    pub(super) fn id(&self) -> Option<&str> {
        match &self.kind {
            Kind::Handshake(id) | Kind::Request(id) => Some(id),
            _ => None,
        }
    }

    /// The ids of all answers.
    pub(super) fn ids(&self) -> &[String] {
        match &self.kind {
            Kind::Handshake(id) | Kind::Request(id) => std::slice::from_ref(id),
            Kind::Batch(ids) => ids,
            _ => &[],
        }
    }

    /// True if it belongs to the session of a handshake.
    pub(super) fn has_session(&self) -> bool {
        self.version.is_none() && !matches!(self.kind, Kind::Handshake(_))
    }

    pub(super) fn headers(&self, known: &HeaderParamCache) -> HeaderList {
        let Some(version) = &self.version else {
            return HeaderList::new();
        };
        let annotated = known.headers(self.params.as_ref());
        let mut headers = request_headers(true, &self.method, self.params.as_ref(), &annotated);
        // That of the client, which may be newer.
        if let Ok(version) = HeaderValue::from_str(version) {
            headers.retain(|(name, _)| *name != PROTOCOL_VERSION);
            headers.push((PROTOCOL_VERSION, version));
        }
        headers
    }
}

/// The answer to a request that failed on the way, as a line.
pub(super) fn failure(id: &str, error: &Error) -> Vec<u8> {
    let error = match error {
        Error::Rpc(error)
        | Error::Http {
            error: Some(error), ..
        } => error.clone(),
        error => RpcError::new(INTERNAL_ERROR, error.to_string()),
    };
    // Numbers, strings and raw values always serialise.
    let error = serde_json::to_string(&error).unwrap_or_default();
    line(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).as_bytes())
}

/// A message as a line: line breaks outside of JSON strings are white space, and within them they are escaped.
pub(super) fn line(message: &[u8]) -> Vec<u8> {
    let is_break = |byte| matches!(byte, b'\n' | b'\r');
    let unbroken = |byte: &u8| if is_break(*byte) { b' ' } else { *byte };
    let line = message.iter().map(unbroken);
    line.chain(std::iter::once(b'\n')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Sent {
        Sent::read(line.as_bytes()).ok().unwrap()
    }

    #[test]
    fn messages_of_the_modern_era_have_headers_and_no_session() {
        let modern = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"run","_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}}"#;
        let sent = read(modern);
        assert!(!sent.has_session());
        assert_eq!(sent.id(), Some("\"a\""));
        let headers = http::HeaderMap::from_iter(sent.headers(&HeaderParamCache::default()));
        assert_eq!(headers["mcp-protocol-version"], "2027-01-01");
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "run");
        let legacy = read(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        assert!(legacy.has_session());
        assert!(legacy.headers(&HeaderParamCache::default()).is_empty());
    }

    #[test]
    fn batch_that_fails_has_an_error_for_each_request() {
        let batch = read(
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":"c","method":"c"}]"#,
        );
        assert_eq!(batch.ids(), ["1", "\"c\""]);
    }

    #[test]
    fn lines_that_are_no_message_are_answered() {
        let answer = |line: &str| Sent::read(line.as_bytes()).err().unwrap();
        let parse = String::from_utf8(answer("{")).unwrap();
        assert!(parse.contains("-32700") && parse.ends_with('\n'), "{parse}");
        let invalid = String::from_utf8(answer(r#"{"jsonrpc":"2.0","id":7}"#)).unwrap();
        assert!(
            invalid.contains("-32600") && invalid.contains("\"id\":7"),
            "{invalid}"
        );
    }
}
