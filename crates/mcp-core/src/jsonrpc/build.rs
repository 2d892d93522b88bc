//! Message builders: what a server answers (seed 002).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, Json, METHOD_NOT_FOUND, PARSE_ERROR,
};

/// One response, ready to be [encoded](encode).
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// `None` becomes `null`: the id of the request could not be read.
    pub id: Option<Id<'a>>,
    /// The `result`, or the `error` object.
    pub outcome: Result<Json, ErrorObject>,
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorObject {
    /// What kind of error it is, in the numbers of the dialect that the peer speaks.
    pub code: i32,
    /// One sentence.
    pub message: String,
    /// What helps the client to diagnose it.
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
        // More than all punctuation together: nothing below moves what was written.
        out.reserve(40 + id.len() + body.len());
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(body.as_bytes());
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
pub fn error(
    id: Option<Id<'_>>,
    code: i32,
    message: impl Into<String>,
    data: Option<Value>,
) -> Response<'_> {
    Response {
        id,
        outcome: Err(ErrorObject {
            code,
            message: message.into(),
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
    error(
        Some(id),
        METHOD_NOT_FOUND,
        format!("Method not found: {method}"),
        None,
    )
}

/// `-32602`, with what is wrong with which parameter.
pub fn invalid_params<'a>(id: Id<'a>, detail: &str) -> Response<'a> {
    error(
        Some(id),
        INVALID_PARAMS,
        format!("Invalid params: {detail}"),
        None,
    )
}

/// `-32603`; `detail` is read by the peer, so it holds no internals.
pub fn internal_error<'a>(id: Id<'a>, detail: &str) -> Response<'a> {
    error(
        Some(id),
        INTERNAL_ERROR,
        format!("Internal error: {detail}"),
        None,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[track_caller]
    fn check(build: impl for<'a> Fn(Id<'a>) -> Response<'a>, expected: &str) {
        let raw = RawValue::from_string("7".to_owned()).unwrap();
        let line = encode(&build(Id::new(&raw).unwrap()));
        assert_eq!(String::from_utf8(line).unwrap(), format!("{expected}\n"));
    }

    #[test]
    fn a_result_is_spliced_in() {
        check(
            |id| response(id, Json::Owned(r#"{"n":1e400}"#.to_owned())),
            r#"{"jsonrpc":"2.0","id":7,"result":{"n":1e400}}"#,
        );
    }

    #[test]
    fn an_error_may_carry_data() {
        check(
            |id| error(Some(id), -32000, "no", Some(json!({"a": 1}))),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"no","data":{"a":1}}}"#,
        );
    }

    #[test]
    fn shorthands_have_the_standard_codes() {
        check(
            |_| parse_error(None),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        );
        check(
            |id| invalid_request(Some(id)),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Invalid Request"}}"#,
        );
        check(
            |id| method_not_found(id, "x"),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"Method not found: x"}}"#,
        );
        check(
            |id| invalid_params(id, "x"),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid params: x"}}"#,
        );
        check(
            |id| internal_error(id, "x"),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error: x"}}"#,
        );
    }
}
