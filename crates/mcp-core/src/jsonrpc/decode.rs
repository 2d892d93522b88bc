//! Decodes bytes to a message, in one pass that borrows, and keeps the id even of an invalid request.

use std::fmt;

use serde_json::value::RawValue;

use super::id::Id;
use super::members::Entries;
use super::message::{Message, Notification, Request, ResponseIn};
use super::string::string;

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

impl From<serde_json::Error> for DecodeError<'_> {
    fn from(error: serde_json::Error) -> Self {
        Self::invalid(None, Fault::NotJson(error.to_string()))
    }
}

impl<'a> DecodeError<'a> {
    pub(super) fn invalid(id: Option<Id<'a>>, fault: Fault) -> Self {
        Self { id, fault }
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, DecodeError<'_>> {
    std::str::from_utf8(bytes)
        .map_err(|error| DecodeError::invalid(None, Fault::NotJson(format!("not UTF-8: {error}"))))
}

pub(super) fn decode_str(text: &str) -> Result<Message<'_>, DecodeError<'_>> {
    match serde_json::from_str(text) {
        Ok(entries) => Envelope::new(entries).decode(),
        // Every object has entries.
        Err(error) if error.is_data() => Err(DecodeError::invalid(None, Fault::NotAnObject)),
        Err(error) => Err(error.into()),
    }
}

/// The fields of a message, not parsed yet. A repeated field is no error yet, so that the id is still found.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    duplicate: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    fn new(Entries(entries): Entries<'a>) -> Self {
        let mut envelope = Self::default();
        for (name, value) in entries {
            let (slot, name) = match &*name {
                "jsonrpc" => (&mut envelope.jsonrpc, "jsonrpc"),
                "id" => (&mut envelope.id, "id"),
                "method" => (&mut envelope.method, "method"),
                "params" => (&mut envelope.params, "params"),
                "result" => (&mut envelope.result, "result"),
                "error" => (&mut envelope.error, "error"),
                _ => continue,
            };
            if slot.replace(value).is_some() {
                envelope.duplicate = Some(name);
            }
        }
        envelope
    }

    fn decode(self) -> Result<Message<'a>, DecodeError<'a>> {
        let id = self.id.and_then(Id::new);
        self.into_message(id)
            .map_err(|fault| DecodeError::invalid(id, fault))
    }

    fn into_message(self, id: Option<Id<'a>>) -> Result<Message<'a>, Fault> {
        if let Some(field) = self.duplicate {
            return Err(Fault::Duplicate(field));
        }
        match self.jsonrpc.map(RawValue::get) {
            Some(r#""2.0""#) => {}
            Some(_) => return Err(Fault::Wrong("jsonrpc", "\"2.0\"")),
            None => return Err(Fault::Missing("jsonrpc")),
        }
        let Some(method) = self.method else {
            return self.into_response(id);
        };
        if self.id.is_some() && id.is_none() {
            return Err(Fault::Wrong("id", "a string or an integer"));
        }
        let method = string(method.get()).ok_or(Fault::Wrong("method", "a string"))?;
        let params = self.params.filter(|params| params.get() != "null");
        if params.is_some_and(|params| !params.get().starts_with(['{', '['])) {
            return Err(Fault::Wrong("params", "an object"));
        }
        Ok(match id {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    fn into_response(self, id: Option<Id<'a>>) -> Result<Message<'a>, Fault> {
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(error),
            (Some(_), Some(_)) => return Err(Fault::Wrong("result", "absent if error is present")),
            (None, None) => return Err(Fault::Missing("method")),
        };
        Ok(Message::Response(ResponseIn { id, outcome }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, id: Option<&str>, fault: Fault) {
        let error = decode(line.as_bytes()).unwrap_err();
        assert_eq!(error.id.map(|id| id.as_json()), id, "id of {line}");
        assert_eq!(error.fault, fault, "fault of {line}");
    }

    #[test]
    fn request_keeps_its_bytes() {
        let line = br#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m","params":{"n":1e400}}"#;
        let Message::Request(request) = decode(line).unwrap() else {
            panic!("not a request")
        };
        assert_eq!(request.id.as_json(), "123456789012345678901234567890");
        assert_eq!(request.params.unwrap().get(), r#"{"n":1e400}"#);
    }

    #[test]
    fn message_without_id_is_a_notification() {
        let message = decode(b"{\"jsonrpc\":\"2.0\",\"method\":\"initialized\"}\n").unwrap();
        assert!(matches!(message, Message::Notification(n) if n.method == "initialized"));
    }

    #[test]
    fn errors_name_the_field_and_keep_the_id() {
        let version = Fault::Wrong("jsonrpc", "\"2.0\"");
        let no_version = r#"{"id":"a","method":"m"}"#;
        check(no_version, Some(r#""a""#), Fault::Missing("jsonrpc"));
        check(
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            Some("1"),
            version,
        );
        for (rest, fault) in [
            ("", Fault::Missing("method")),
            (r#","method":7"#, Fault::Wrong("method", "a string")),
            (
                r#","method":"m","params":3"#,
                Fault::Wrong("params", "an object"),
            ),
            (r#","method":"m","method":"n""#, Fault::Duplicate("method")),
        ] {
            check(
                &format!(r#"{{"jsonrpc":"2.0","id":1{rest}}}"#),
                Some("1"),
                fault,
            );
        }
        for id in ["null", "1.5", "true", "{}", "[1]"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            check(&line, None, Fault::Wrong("id", "a string or an integer"));
        }
        check("7", None, Fault::NotAnObject);
    }

    #[test]
    fn params_are_structured_or_absent() {
        for (params, expected) in [
            ("", None),
            (r#","params":null"#, None),
            (r#","params":{"a":1}"#, Some(r#"{"a":1}"#)),
            (r#","params":[1]"#, Some("[1]")),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#);
            let Message::Request(request) = decode(line.as_bytes()).unwrap() else {
                panic!("not a request")
            };
            assert_eq!(request.params.map(RawValue::get), expected, "{line}");
        }
    }

    #[test]
    fn response_has_a_result_or_an_error() {
        let response = |rest: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0"{rest}}}"#);
            match decode(line.as_bytes()) {
                Ok(Message::Response(response)) => {
                    let id = response.id.map(|id| id.as_json().to_owned());
                    let text = |json: &RawValue| json.get().to_owned();
                    Ok((id, response.outcome.map(text).map_err(text)))
                }
                Ok(_) => panic!("not a response: {line}"),
                Err(error) => Err(error.fault),
            }
        };
        let id = Some("1".to_owned());
        let result = response(r#","id":1,"result":null"#).unwrap();
        assert_eq!(result, (id.clone(), Ok("null".to_owned())));
        let error = response(r#","id":1,"error":{}"#).unwrap();
        assert_eq!(error, (id, Err("{}".to_owned())));
        // The peer could not read the id of our request.
        let unknown = response(r#","id":null,"error":{}"#).unwrap();
        assert_eq!(unknown.0, None);
        let both = Fault::Wrong("result", "absent if error is present");
        assert_eq!(response(r#","id":1,"result":1,"error":{}"#), Err(both));
    }

    #[test]
    fn faults_name_their_field_and_what_it_must_be() {
        for (fault, field, text) in [
            (Fault::NotJson("no JSON".into()), None, "no JSON"),
            (Fault::NotAnObject, None, "a message must be a JSON object"),
            (
                Fault::EmptyBatch,
                None,
                "a batch must contain at least one message",
            ),
            (
                Fault::LargeBatch,
                None,
                "a batch can contain at most 50 messages",
            ),
            (Fault::Duplicate("id"), Some("id"), "Duplicate field: id"),
            (
                Fault::Missing("method"),
                Some("method"),
                "Missing required field: method",
            ),
            (
                Fault::Wrong("id", "a string"),
                Some("id"),
                "id must be a string",
            ),
        ] {
            assert_eq!((fault.field(), &*fault.to_string()), (field, text));
        }
    }

    #[test]
    fn invalid_json_is_a_parse_error() {
        let lines: [&[u8]; 5] = [
            b"{",
            b"{\"a\":1}x",
            b"\xef\xbb\xbf{}",
            b"\xff",
            br#"{"jsonrpc":"2.0","id":1,"method":"\ud8"}"#,
        ];
        for line in lines {
            let error = decode(line).unwrap_err();
            assert!(matches!(error.fault, Fault::NotJson(_)), "{error:?}");
        }
    }
}
