//! The messages that a client writes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::Error;

/// A request on its way: its text, and what its answer is recognised by.
pub(crate) struct Outgoing {
    pub(crate) id: u64,
    pub(crate) method: String,
    /// The message, without a newline.
    pub(crate) body: String,
}

/// A request. `progress` asks for reports under the id as token.
pub(crate) fn request(
    id: u64,
    method: &str,
    params: &(impl Serialize + ?Sized),
    progress: bool,
) -> Result<Outgoing, Error> {
    let mut params = members(params)?;
    if progress {
        params = Some(with_progress_token(params.as_deref(), id)?);
    }
    let mut body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":{}"#,
        quoted(method)?
    );
    finish(&mut body, params);
    Ok(Outgoing {
        id,
        method: method.to_owned(),
        body,
    })
}

/// A notification.
pub(crate) fn notification(
    method: &str,
    params: &(impl Serialize + ?Sized),
) -> Result<String, Error> {
    let params = members(params)?;
    let mut body = format!(r#"{{"jsonrpc":"2.0","method":{}"#, quoted(method)?);
    finish(&mut body, params);
    Ok(body)
}

/// Tells the server that nobody waits for the answer any more.
pub(crate) fn cancelled(id: u64, reason: &'static str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"{reason}"}}}}"#
    )
}

fn finish(body: &mut String, params: Option<String>) {
    if let Some(params) = params {
        body.push_str(r#","params":"#);
        body.push_str(&params);
    }
    body.push('}');
}

fn quoted(method: &str) -> Result<String, Error> {
    serde_json::to_string(method).map_err(|error| Error::Invalid(error.to_string()))
}

/// The params as one line of JSON; `None` for what serialises to `null`.
fn members(params: &(impl Serialize + ?Sized)) -> Result<Option<String>, Error> {
    let text = serde_json::to_string(params).map_err(|error| Error::Invalid(error.to_string()))?;
    if text == "null" {
        return Ok(None);
    }
    if !text.starts_with(['{', '[']) {
        return Err(Error::Invalid(
            "params must be an object or an array".to_owned(),
        ));
    }
    Ok(Some(one_line(text)))
}

/// Raw values keep the line breaks of whoever wrote them, and on stdio a line break ends a message.
/// Inside a JSON string they are always escaped, so those that are left are white space.
fn one_line(text: String) -> String {
    if text.contains(['\n', '\r']) {
        return text.replace(['\n', '\r'], " ");
    }
    text
}

/// The params with a `progressToken` in their `_meta`; everything else keeps its bytes.
fn with_progress_token(params: Option<&str>, token: u64) -> Result<String, Error> {
    fn shallow(json: &str) -> Result<BTreeMap<String, &RawValue>, Error> {
        serde_json::from_str(json)
            .map_err(|_| Error::Invalid("progress needs params that are an object".to_owned()))
    }
    fn text(value: &impl Serialize) -> Result<Box<RawValue>, Error> {
        serde_json::value::to_raw_value(value).map_err(|error| Error::Invalid(error.to_string()))
    }
    let mut params = shallow(params.unwrap_or("{}"))?;
    let mut meta = params
        .get("_meta")
        .map_or_else(|| Ok(BTreeMap::new()), |m| shallow(m.get()))?;
    let token = text(&token)?;
    meta.insert("progressToken".to_owned(), &token);
    let meta = text(&meta)?;
    params.insert("_meta".to_owned(), &meta);
    Ok(text(&params)?.get().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn params_that_are_null_are_left_out() {
        assert_eq!(
            request(7, "ping", &(), false).unwrap().body,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#
        );
        assert_eq!(
            notification("notifications/initialized", &()).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#
        );
        assert!(request(7, "ping", &3, false).is_err());
    }

    #[test]
    fn arguments_keep_their_bytes_and_stay_on_one_line() {
        let raw = RawValue::from_string("{\"n\":1e400,\n \"t\":\"a\\nb\"}".to_owned()).unwrap();
        assert_eq!(
            request(1, "m", &raw, false).unwrap().body,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"n":1e400,  "t":"a\nb"}}"#
        );
    }

    #[test]
    fn a_progress_token_joins_the_meta_that_is_there() {
        let raw = RawValue::from_string(
            r#"{"name":"t","arguments":{"n":12345678901234567890123},"_meta":{"a":1}}"#.to_owned(),
        );
        assert_eq!(
            request(9, "tools/call", &raw.unwrap(), true).unwrap().body,
            r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"_meta":{"a":1,"progressToken":9},"arguments":{"n":12345678901234567890123},"name":"t"}}"#
        );
        assert_eq!(
            request(9, "m", &(), true).unwrap().body,
            r#"{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"progressToken":9}}}"#
        );
        assert!(request(9, "m", &json!([1]), true).is_err());
    }
}
