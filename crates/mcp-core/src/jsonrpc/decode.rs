//! Decodes bytes to a message, in one pass that borrows, and keeps the id even of an invalid request.

use std::fmt;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::members::{Entries, string};
use super::message::{Id, Message, Notification, Request, ResponseIn};

/// The most messages of one batch.
pub const MAX_BATCH: usize = 50;

/// Decodes a single JSON-RPC message from one line of input; a trailing newline is allowed.
///
/// # Errors
/// [`DecodeError`] says whether the input is not JSON or not a message, names the invalid field and
/// holds the id if it can be read.
pub fn decode(line: &[u8]) -> Result<Message<'_>, DecodeError<'_>> {
    decode_str(utf8(line)?)
}

/// The error of a frame, or of one item of a batch, that is not a message.
#[derive(Debug)]
pub struct DecodeError<'a> {
    /// The id of the invalid request, if it has a valid one.
    pub id: Option<Id<'a>>,
    /// The kind of the error.
    pub fault: Fault,
}

/// Kinds of invalid frames.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// Not JSON, or not UTF-8: `-32700`. Holds the parser's message.
    NotJson(String),
    /// JSON, but not an object.
    NotAnObject,
    /// `[]`.
    EmptyBatch,
    /// More messages than a batch may hold.
    LargeBatch,
    /// The field is in the envelope twice, so its meaning is ambiguous.
    Duplicate(&'static str),
    /// The field is absent.
    Missing(&'static str),
    /// The field has a wrong type or value; the second text says what it must be.
    Wrong(&'static str, &'static str),
}

impl Fault {
    /// The invalid field of the envelope, if it is one field.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Duplicate(field) | Self::Missing(field) | Self::Wrong(field, _) => Some(field),
            Self::NotJson(_) | Self::NotAnObject | Self::EmptyBatch | Self::LargeBatch => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(detail) => f.write_str(detail),
            Self::NotAnObject => f.write_str("a message must be a JSON object"),
            Self::EmptyBatch => f.write_str("a batch must contain at least one message"),
            Self::LargeBatch => write!(f, "a batch can contain at most {MAX_BATCH} messages"),
            Self::Duplicate(field) => write!(f, "Duplicate field: {field}"),
            Self::Missing(field) => write!(f, "Missing required field: {field}"),
            Self::Wrong(field, must) => write!(f, "{field} must be {must}"),
        }
    }
}

impl From<Fault> for DecodeError<'_> {
    fn from(fault: Fault) -> Self {
        Self { id: None, fault }
    }
}

impl From<serde_json::Error> for DecodeError<'_> {
    fn from(error: serde_json::Error) -> Self {
        Fault::NotJson(error.to_string()).into()
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, DecodeError<'_>> {
    std::str::from_utf8(bytes).map_err(|error| Fault::NotJson(format!("not UTF-8: {error}")).into())
}

/// The names of the fields of a message.
const FIELDS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

fn decode_str(text: &str) -> Result<Message<'_>, DecodeError<'_>> {
    let mut entries = match Entries::read(text) {
        Ok(entries) => entries,
        // Every object has entries.
        Err(error) if error.is_data() => return Err(Fault::NotAnObject.into()),
        Err(error) => return Err(error.into()),
    };
    let fields = FIELDS.map(|name| entries.raw(name));
    // Also of a request that is invalid.
    let id = fields[1].and_then(Id::new);
    let message = match entries.twice {
        Some(field) => Err(Fault::Duplicate(field)),
        None => message(fields, id),
    };
    message.map_err(|fault| DecodeError { id, fault })
}

/// The message with these fields, each of which is there once at most.
fn message<'a>(
    [jsonrpc, written_id, method, params, result, error]: [Option<&'a RawValue>; 6],
    id: Option<Id<'a>>,
) -> Result<Message<'a>, Fault> {
    match jsonrpc.map(RawValue::get) {
        Some(r#""2.0""#) => {}
        Some(_) => return Err(Fault::Wrong("jsonrpc", "\"2.0\"")),
        None => return Err(Fault::Missing("jsonrpc")),
    }
    let Some(method) = method else {
        let outcome = match (result, error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(error),
            (Some(_), Some(_)) => {
                return Err(Fault::Wrong("result", "absent if error is present"));
            }
            (None, None) => return Err(Fault::Missing("method")),
        };
        return Ok(Message::Response(ResponseIn { id, outcome }));
    };
    if written_id.is_some() && id.is_none() {
        return Err(Fault::Wrong("id", "a string or an integer"));
    }
    let method = string(method.get()).ok_or(Fault::Wrong("method", "a string"))?;
    let params = params.filter(|params| params.get() != "null");
    if params.is_some_and(|params| !params.get().starts_with(['{', '['])) {
        return Err(Fault::Wrong("params", "an object"));
    }
    Ok(match id {
        Some(id) => Message::Request(Request { id, method, params }),
        None => Message::Notification(Notification { method, params }),
    })
}

/// The content of one line or one HTTP body.
#[derive(Debug)]
pub enum Frame<'a> {
    /// One message.
    Single(Message<'a>),
    /// A JSON array of messages, each of which may be invalid. Never empty.
    Batch(Vec<Result<Message<'a>, DecodeError<'a>>>),
}

impl<'a> Frame<'a> {
    /// Reads one message or one batch.
    ///
    /// # Errors
    /// The frame is not UTF-8, not JSON, an empty batch, a batch of more than [`MAX_BATCH`] messages,
    /// or an invalid message. An invalid item of a batch is an error of that item only.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError<'a>> {
        let text = utf8(bytes)?;
        if !text.trim_ascii_start().starts_with('[') {
            return decode_str(text).map(Self::Single);
        }
        let messages = items(text)?.into_iter().map(|item| decode_str(item.get()));
        Ok(Self::Batch(messages.collect()))
    }
}

/// Reads the items of a batch. Stops at the limit: 4 MiB of `{}` would become 370 MB.
fn items(text: &str) -> Result<Vec<&RawValue>, DecodeError<'_>> {
    let mut items = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer.deserialize_seq(Items(&mut items));
    match read.and_then(|()| deserializer.end()) {
        Ok(()) if items.is_empty() => Err(Fault::EmptyBatch.into()),
        Ok(()) => Ok(items),
        Err(error) if error.is_data() && items.len() == MAX_BATCH => Err(Fault::LargeBatch.into()),
        Err(error) => Err(error.into()),
    }
}

/// Fills the vector with at most [`MAX_BATCH`] items.
struct Items<'v, 'a>(&'v mut Vec<&'a RawValue>);

impl<'a> Visitor<'a> for Items<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut batch: A) -> Result<(), A::Error> {
        while self.0.len() < MAX_BATCH {
            match batch.next_element()? {
                Some(item) => self.0.push(item),
                None => return Ok(()),
            }
        }
        match batch.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom("too many")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_their_field_and_what_it_must_be() {
        let empty = "a batch must contain at least one message";
        let large = "a batch can contain at most 50 messages";
        let id = Some("id");
        for (fault, field, text) in [
            (Fault::NotJson("no JSON".into()), None, "no JSON"),
            (Fault::NotAnObject, None, "a message must be a JSON object"),
            (Fault::EmptyBatch, None, empty),
            (Fault::LargeBatch, None, large),
            (Fault::Duplicate("id"), id, "Duplicate field: id"),
            (Fault::Missing("id"), id, "Missing required field: id"),
            (Fault::Wrong("id", "a string"), id, "id must be a string"),
        ] {
            assert_eq!((fault.field(), &*fault.to_string()), (field, text));
        }
    }

    #[test]
    fn fields_tell_the_kind_of_a_message() {
        let request = r#"Ok(Request(Request { id: Id(RawValue(1)), method: "m", params: None }))"#;
        let with = |params: &str| request.replace("None", &format!("Some(RawValue({params}))"));
        let notification = r#"Ok(Notification(Notification { method: "m", params: None }))"#;
        let response = |id: &str, outcome: &str| {
            format!("Ok(Response(ResponseIn {{ id: {id}, outcome: {outcome} }}))")
        };
        let id = "Some(Id(RawValue(1)))";
        for (fields, expected) in [
            (r#""id":1,"method":"m""#, request.to_owned()),
            (r#""id":1,"method":"m","params":null"#, request.to_owned()),
            (
                r#""id":1,"method":"m","params":{"a":1}"#,
                with(r#"{"a":1}"#),
            ),
            (r#""id":1,"method":"m","params":[1]"#, with("[1]")),
            (r#""method":"m""#, notification.to_owned()),
            (r#""id":1,"result":{}"#, response(id, "Ok(RawValue({}))")),
            (
                r#""id":1,"result":null"#,
                response(id, "Ok(RawValue(null))"),
            ),
            (r#""id":1,"error":{}"#, response(id, "Err(RawValue({}))")),
            // The peer could not read the id of our request.
            (
                r#""id":null,"error":{}"#,
                response("None", "Err(RawValue({}))"),
            ),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0",{fields}}}"#);
            assert_eq!(format!("{:?}", decode(line.as_bytes())), expected);
        }
        let both = decode(br#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#);
        let fault = Fault::Wrong("result", "absent if error is present");
        assert_eq!(both.unwrap_err().fault, fault);
    }
}
