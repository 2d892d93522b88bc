//! Messages to a server, as they are sent.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use mcp_core::jsonrpc::{Members, quoted};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Error;

/// Limit of one message of a server, in bytes.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

/// The headers of one message, in addition to those of every message.
pub(crate) type HeaderList = Vec<(HeaderName, HeaderValue)>;

/// A field of a trace context, with its name.
pub(crate) type TraceField<'a> = (&'static str, Cow<'a, str>);

/// A request that is ready to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    /// The message, without a newline.
    pub(crate) body: String,
    pub(crate) headers: HeaderList,
    /// In the modern era a request has no session, and a broken response stream is not resumed.
    pub(crate) is_modern: bool,
}

/// Encodes a request; a notification has no id.
pub(crate) fn message(id: Option<u64>, method: &str, params: Option<&str>) -> String {
    let id = id.map_or_else(String::new, |id| format!(r#""id":{id},"#));
    let params = params.map_or_else(String::new, |params| format!(r#","params":{params}"#));
    let method = quoted(method);
    format!(r#"{{"jsonrpc":"2.0",{id}"method":{method}{params}}}"#)
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

pub(crate) const PROGRESS_TOKEN: &str = "progressToken";

/// The parameters of a progress report, with the caller's own token.
pub(crate) fn with_token(report: &RawValue, token: &str) -> Option<Box<RawValue>> {
    let members = Members::read(report.get())?;
    RawValue::from_string(members.encode_with(PROGRESS_TOKEN, Some(token))).ok()
}
