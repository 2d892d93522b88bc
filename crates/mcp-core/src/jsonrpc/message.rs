//! The three kinds of messages: request, notification, response.

use std::borrow::Cow;

use serde_json::value::RawValue;

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

/// A message that needs a response.
#[derive(Debug)]
pub struct Request<'a> {
    /// Echoed in the response.
    pub id: Id<'a>,
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters, not parsed; absent and `null` are the same.
    pub params: Option<&'a RawValue>,
}

/// A message that gets no response.
#[derive(Debug)]
pub struct Notification<'a> {
    /// The method's name.
    pub method: Cow<'a, str>,
    /// The parameters, not parsed.
    pub params: Option<&'a RawValue>,
}

/// A peer's response to our request.
#[derive(Debug)]
pub struct ResponseIn<'a> {
    /// The id of our request; `None` if the peer could not read it.
    pub id: Option<Id<'a>>,
    /// `Ok` with the `result`, `Err` with the `error` object, both not parsed.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// The id of a request: a string or an integer, echoed byte for byte.
///
/// JSON-RPC discourages fractions and MCP forbids `null`, so those, booleans, arrays and objects
/// are refused by [`Id::new`]. An integer may have any number of digits: it is never parsed.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a>(&'a RawValue);

impl<'a> Id<'a> {
    /// Accepts a JSON string or a JSON integer; `None` for anything else.
    pub fn new(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        let legal = match text.as_bytes().first() {
            Some(b'"') => true,
            Some(b'-' | b'0'..=b'9') => !text.contains(['.', 'e', 'E']),
            _ => false,
        };
        legal.then_some(Self(raw))
    }

    /// The id as JSON text.
    pub fn as_json(&self) -> &'a str {
        self.0.get()
    }
}

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}
