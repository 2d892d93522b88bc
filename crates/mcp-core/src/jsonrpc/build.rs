//! Builders of responses (seed 002).

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, METHOD_NOT_FOUND, PARSE_ERROR};

/// One response, ready to be [encoded](encode).
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// `None`, if the request has no readable id, becomes `null`.
    pub id: Option<Id<'a>>,
    /// The `result`, or the `error` object.
    pub outcome: Result<Json, ErrorObject>,
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorObject {
    /// The kind of error, as a code of the peer's dialect.
    pub code: i32,
    /// One sentence.
    pub message: String,
    /// Details that help the client to diagnose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Response<'_> {
    /// Appends the message to `out`, without a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        let id = self.id.as_ref().map_or("null", Id::as_json);
        let (member, body) = match &self.outcome {
            Ok(result) => (r#","result":"#, Cow::Borrowed(result.as_str())),
            Err(error) => (r#","error":"#, Cow::Owned(error.to_json())),
        };
        for part in [r#"{"jsonrpc":"2.0","id":"#, id, member, &*body] {
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b'}');
    }
}

impl ErrorObject {
    fn to_json(&self) -> String {
        // Strings, integers and values with string keys always serialise.
        serde_json::to_string(self)
            .unwrap_or_else(|_| json!({"code": self.code, "message": self.message}).to_string())
    }
}

/// Encodes a message as one newline-terminated line.
pub fn encode(response: &Response<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    response.write(&mut line);
    line.push(b'\n');
    line
}

/// A success response.
pub fn response(id: Id<'_>, result: Json) -> Response<'_> {
    Response {
        id: Some(id),
        outcome: Ok(result),
    }
}

/// An error response; `data` is attached as it is to help the client to diagnose the error.
pub fn error<'a>(
    id: impl Into<Option<Id<'a>>>,
    code: i32,
    message: impl Into<String>,
    data: Option<Value>,
) -> Response<'a> {
    let message = message.into();
    Response {
        id: id.into(),
        outcome: Err(ErrorObject {
            code,
            message,
            data,
        }),
    }
}

/// `-32700`, for input that is not JSON; its id is rarely known.
pub fn parse_error(id: Option<Id<'_>>) -> Response<'_> {
    error(id, PARSE_ERROR, "Parse error", None)
}

/// `-32600`, for JSON that is not a request.
pub fn invalid_request(id: Option<Id<'_>>) -> Response<'_> {
    error(id, INVALID_REQUEST, "Invalid Request", None)
}

/// `-32601`, naming the method.
pub fn method_not_found<'a>(id: Id<'a>, method: &str) -> Response<'a> {
    let message = format!("Method not found: {method}");
    error(id, METHOD_NOT_FOUND, message, None)
}

/// `-32602`; `detail` names the parameter and its fault.
pub fn invalid_params<'a>(id: Id<'a>, detail: &str) -> Response<'a> {
    let message = format!("Invalid params: {detail}");
    error(id, INVALID_PARAMS, message, None)
}

/// `-32603`; the peer reads `detail`, so it holds no internals.
pub fn internal_error<'a>(id: Id<'a>, detail: &str) -> Response<'a> {
    let message = format!("Internal error: {detail}");
    error(id, INTERNAL_ERROR, message, None)
}

/// One serialised JSON value.
///
/// Lists and definitions are shared between all responses; the result of a call belongs to its one
/// response.
#[derive(Clone, Debug)]
pub enum Json {
    /// Sent in one message.
    Owned(String),
    /// Sent in many messages.
    Shared(Arc<str>),
}

impl Json {
    /// Serialises `value`.
    ///
    /// # Errors
    /// A `Serialize` implementation fails, or a map has a key that is not a string.
    pub fn from_serializable(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(Self::Owned)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Owned(text) => text,
            Self::Shared(text) => text,
        }
    }

    /// Makes clones cheap.
    #[must_use]
    pub fn shared(self) -> Self {
        match self {
            Self::Owned(text) => Self::Shared(text.into()),
            shared @ Self::Shared(_) => shared,
        }
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self::Owned(raw.get().to_owned())
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self::Owned(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn responses_are_encoded_as_json_rpc() {
        let raw = RawValue::from_string("7".to_owned()).unwrap();
        let id = Id::new(&raw).unwrap();
        let check = |built: Response<'_>, id: &str, rest: &str| {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{rest}}}\n");
            assert_eq!(String::from_utf8(encode(&built)).unwrap(), line);
        };
        let result = Json::Owned(r#"{"n":1e400}"#.to_owned());
        check(response(id, result), "7", r#""result":{"n":1e400}"#);
        let with_data = error(id, -32000, "no", Some(json!({"a": 1})));
        let body = r#""error":{"code":-32000,"message":"no","data":{"a":1}}"#;
        check(with_data, "7", body);
        for (built, id, code, message) in [
            (parse_error(None), "null", -32700, "Parse error"),
            (invalid_request(Some(id)), "7", -32600, "Invalid Request"),
            (
                method_not_found(id, "x"),
                "7",
                -32601,
                "Method not found: x",
            ),
            (invalid_params(id, "x"), "7", -32602, "Invalid params: x"),
            (internal_error(id, "x"), "7", -32603, "Internal error: x"),
        ] {
            let body = format!(r#""error":{{"code":{code},"message":"{message}"}}"#);
            check(built, id, &body);
        }
    }
}
