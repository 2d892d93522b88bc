//! What a peer can send: a request, a notification, a response, or a batch of those.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::decode::{DecodeError, Fault, decode_str, utf8};
use super::id::Id;

/// One JSON-RPC message that borrows from the bytes it was read from.
#[derive(Debug)]
pub enum Message<'a> {
    /// Has a method and an id: expects exactly one response.
    Request(Request<'a>),
    /// Has a method and no id: is never answered.
    Notification(Notification<'a>),
    /// Answers a request that we sent.
    Response(ResponseIn<'a>),
}

/// A call that wants an answer.
#[derive(Debug)]
pub struct Request<'a> {
    /// Echoed in the response.
    pub id: Id<'a>,
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters, unread; absent and `null` are the same.
    pub params: Option<&'a RawValue>,
}

/// A message that wants no answer.
#[derive(Debug)]
pub struct Notification<'a> {
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters, unread.
    pub params: Option<&'a RawValue>,
}

/// A peer's answer to a request of ours.
#[derive(Debug)]
pub struct ResponseIn<'a> {
    /// The id of our request; `None` where the peer could not read it.
    pub id: Option<Id<'a>>,
    /// `Ok` with the `result`, `Err` with the `error` object, both unread.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// Everything that one line or one HTTP body can hold.
#[derive(Debug)]
pub enum Frame<'a> {
    /// A message of its own.
    Single(Message<'a>),
    /// A JSON array of messages, each of them decoded or refused by itself. Never empty.
    Batch(Vec<Result<Message<'a>, DecodeError<'a>>>),
}

impl<'a> Frame<'a> {
    /// Reads one message or one batch.
    ///
    /// # Errors
    /// The whole frame is refused when it is not UTF-8, not JSON, an empty batch, or a single
    /// message that is none. A bad item of a batch is refused alone.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError<'a>> {
        let text = utf8(bytes)?;
        if !text.trim_ascii_start().starts_with('[') {
            return decode_str(text).map(Self::Single);
        }
        let items: Vec<&RawValue> = serde_json::from_str(text).map_err(DecodeError::parse)?;
        if items.is_empty() {
            return Err(DecodeError::invalid(None, Fault::EmptyBatch));
        }
        Ok(Self::Batch(
            items
                .into_iter()
                .map(|item| decode_str(item.get()))
                .collect(),
        ))
    }
}

/// True if the message carries a method and an id, that is, expects a response (seed 002).
pub fn is_request(message: &Message<'_>) -> bool {
    matches!(message, Message::Request(_))
}
