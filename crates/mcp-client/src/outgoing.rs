//! Encodes the messages of a client.

use std::fmt::Write as _;

use mcp_core::jsonrpc::{push_quoted, quoted};
use serde::Serialize;

use crate::Error;
use crate::http::HeaderList;
use crate::meta::ComposedParams;

/// A request that is ready to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    /// The message, without a newline.
    pub(crate) body: String,
    /// Its HTTP headers.
    pub(crate) headers: HeaderList,
    /// A broken response stream may be resumed: not in the modern era.
    pub(crate) is_resumable: bool,
}

const PARAMS: &str = r#","params":"#;
/// The bytes that most requests fit into.
const USUAL_SIZE: usize = 1024;

/// Encodes a request.
pub(crate) fn request<'a>(id: u64, method: &'a str, params: &ComposedParams<'_>) -> Outgoing<'a> {
    let mut body = String::with_capacity(USUAL_SIZE);
    // Writing to a string cannot fail.
    let _ = write!(body, r#"{{"jsonrpc":"2.0","id":{id},"method":"#);
    push_quoted(&mut body, method);
    if !params.is_empty() {
        body.push_str(PARAMS);
        params.push_to(&mut body);
    }
    body.push('}');
    Outgoing {
        id,
        method,
        body,
        headers: HeaderList::new(),
        is_resumable: true,
    }
}

/// Encodes a notification.
pub(crate) fn notification(method: &str, params: Option<&str>) -> String {
    let mut body = format!(r#"{{"jsonrpc":"2.0","method":{}"#, quoted(method));
    if let Some(params) = params {
        body.extend([PARAMS, params]);
    }
    body.push('}');
    body
}

/// Encodes the cancellation of a request.
pub(crate) fn cancelled(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"no longer needed"}}}}"#
    )
}

/// Serialises parameters; `None` if they are `null`.
pub(crate) fn params(params: &(impl Serialize + ?Sized)) -> Result<Option<String>, Error> {
    let text = serde_json::to_string(params).map_err(|error| Error::Invalid(error.to_string()))?;
    if text == "null" {
        return Ok(None);
    }
    if !text.starts_with(['{', '[']) {
        return Err(Error::Invalid(
            "params must be an object or an array".to_owned(),
        ));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::meta::Params;

    #[test]
    fn params_that_are_null_are_left_out() {
        assert_eq!(params(&()).unwrap(), None);
        assert!(params(&3).is_err());
        assert_eq!(
            request(7, "ping", &ComposedParams::default()).body,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#
        );
        assert_eq!(
            notification("notifications/initialized", None),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
    }

    #[test]
    fn arguments_keep_their_bytes() {
        let raw = RawValue::from_string("{\"n\":1e400,\n \"t\":\"a\\nb\"}".to_owned()).unwrap();
        let params = params(&raw).unwrap();
        let params = Params::Text(params.as_deref()).into();
        assert_eq!(
            request(1, "m", &params).body,
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{raw}}}"#)
        );
    }
}
