//! The answer to a request, the reply to its message, and the reply to a frame.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::connection::Negotiated;
use crate::era::Era;
use crate::error::{Error, ErrorCodes};
use crate::jsonrpc::{Id, Json, Response};

/// The answer to a request that has not failed. It gets the form of its era by the methods of that era.
pub(super) enum Answer {
    /// A result.
    Result {
        json: Json,
        /// The members of its `_meta`: JSON without braces, which may be empty.
        meta: String,
        /// True if it says that a tool has failed.
        failed: bool,
    },
    /// The result of `initialize`.
    Initialized(Json, Negotiated),
    /// A result that already has the form of the modern era.
    Whole(Json),
    /// A task in place of the result.
    Task(Json),
    /// Questions that the client must answer before there is a result.
    NeedsInput(Questions),
}

/// Questions to the client, and the memo for the next round.
pub(super) struct Questions {
    pub(super) by_key: Map<String, Value>,
    pub(super) memo: Value,
}

impl Answer {
    /// The result of a tool, which may have failed.
    pub(super) fn of_tool(json: Json, failed: bool) -> Self {
        let meta = String::new();
        Self::Result { json, meta, failed }
    }
}

impl From<Json> for Answer {
    fn from(json: Json) -> Self {
        Self::of_tool(json, false)
    }
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Json::from(value).into()
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestEnd {
    /// It was answered with a result.
    Done,
    /// It was answered with an error, which has this code if it is a JSON-RPC error.
    Failed(Option<i32>),
    /// The client has cancelled it or disconnected.
    #[default]
    Cancelled,
}

/// The reply to one request of a frame, before it is encoded.
pub(super) struct MessageReply<'a> {
    pub(super) response: Response<'a>,
    pub(super) status: u16,
    /// The kind of its error; `None` if it succeeded.
    pub(super) error: Option<&'static str>,
    pub(super) negotiated: Option<Negotiated>,
}

impl MessageReply<'_> {
    pub(super) fn end(&self) -> RequestEnd {
        match &self.response.outcome {
            Ok(_) if self.error.is_none() => RequestEnd::Done,
            Ok(_) => RequestEnd::Failed(None),
            Err(error) => RequestEnd::Failed(Some(error.code)),
        }
    }
}

/// The reply to one frame.
#[derive(Debug)]
pub struct FrameReply {
    /// The HTTP status of the era; stdio ignores it.
    pub status: u16,
    /// The encoded response or batch of responses, without a newline; `None` for a frame without
    /// requests.
    pub body: Option<Vec<u8>>,
    /// The result of `initialize`, which the transport stores.
    pub negotiated: Option<Negotiated>,
}

impl FrameReply {
    /// The body as one line. Results of services may have several lines, but a line break in JSON is
    /// always white space.
    pub fn into_line(self) -> Option<Vec<u8>> {
        let mut line = self.body?;
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        Some(line)
    }

    /// The reply to a frame without requests, and at the end of a stream that belongs to no request.
    pub fn nothing() -> Self {
        Self {
            status: 202,
            body: None,
            negotiated: None,
        }
    }

    /// The reply to a request with this id, as JSON, that has failed.
    pub fn failed(id: &str, era: Era, error: &Error, codes: ErrorCodes) -> Self {
        let id: Option<&RawValue> = serde_json::from_str(id).ok();
        let mut body = Vec::new();
        let response = Response {
            id: id.and_then(Id::new),
            outcome: Err(error.render(era, codes)),
        };
        response.write(&mut body);
        Self::with(body)
    }

    pub(super) fn single(reply: MessageReply<'_>) -> Self {
        let mut body = Vec::new();
        reply.response.write(&mut body);
        Self {
            status: reply.status,
            body: Some(body),
            negotiated: reply.negotiated,
        }
    }

    pub(super) fn batch<'a>(replies: impl Iterator<Item = MessageReply<'a>>) -> Self {
        let mut body = Vec::new();
        for reply in replies {
            body.push(if body.is_empty() { b'[' } else { b',' });
            reply.response.write(&mut body);
        }
        if body.is_empty() {
            return Self::nothing();
        }
        body.push(b']');
        Self::with(body)
    }

    fn with(body: Vec<u8>) -> Self {
        Self {
            status: 200,
            body: Some(body),
            negotiated: None,
        }
    }
}
