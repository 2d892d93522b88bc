//! Header and body must say the same: what routed by the one must not be executed by the other
//! (2026-07-28, "Server Validation").

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::era::Hints;
use crate::error::Error;
use crate::jsonrpc::Request;

/// Compares `Mcp-Method` and `Mcp-Name` with the body. Over stdio there is nothing to compare.
pub(super) fn check(request: &Request<'_>, hints: &Hints<'_>) -> Result<(), Error> {
    if !hints.has_headers {
        return Ok(());
    }
    equal("Mcp-Method", hints.method, &request.method)?;
    let named = match &*request.method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    };
    let Some(member) = named else { return Ok(()) };
    // A body without it is refused by the method itself.
    let Some(value) = string_member(request.params, member) else {
        return Ok(());
    };
    let decoded = |value| decoded("Mcp-Name", value);
    let header = hints.name.map(decoded).transpose()?;
    equal("Mcp-Name", header.as_deref(), &value)
}

fn equal(header: &str, found: Option<&str>, body: &str) -> Result<(), Error> {
    match found {
        Some(found) if found == body => Ok(()),
        Some(found) => Err(Error::HeaderMismatch(format!(
            "{header} header value {found:?} does not match body value {body:?}"
        ))),
        None => Err(Error::HeaderMismatch(format!(
            "the {header} header is missing"
        ))),
    }
}

/// A header value may be `=?base64?…?=` where it could not be sent as it is.
pub(super) fn decoded<'a>(header: &str, value: &'a str) -> Result<Cow<'a, str>, Error> {
    let value = value.trim_matches([' ', '\t']);
    let Some(coded) = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="))
    else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(coded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Cow::Owned)
        .ok_or_else(|| Error::HeaderMismatch(format!("{header} is not valid base64")))
}

fn string_member(params: Option<&RawValue>, member: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        uri: Option<&'a RawValue>,
        #[serde(borrow, rename = "taskId")]
        task_id: Option<&'a RawValue>,
    }
    let named: Named<'_> = serde_json::from_str(params?.get()).ok()?;
    let raw = match member {
        "name" => named.name,
        "uri" => named.uri,
        _ => named.task_id,
    };
    serde_json::from_str(raw?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_name(header: Option<&str>, name: &str, expected: bool) {
        let params = RawValue::from_string(serde_json::json!({"name": name}).to_string()).unwrap();
        let id = RawValue::from_string("1".to_owned()).unwrap();
        let request = Request {
            id: crate::jsonrpc::Id::new(&id).unwrap(),
            method: "tools/call".into(),
            params: Some(&params),
        };
        let hints = Hints {
            method: Some("tools/call"),
            name: header,
            has_headers: true,
            ..Hints::default()
        };
        assert_eq!(
            check(&request, &hints).is_ok(),
            expected,
            "{header:?} {name:?}"
        );
    }

    #[test]
    fn the_name_may_be_coded() {
        check_name(Some("echo"), "echo", true);
        check_name(Some(" echo\t"), "echo", true);
        check_name(Some("Echo"), "echo", false);
        check_name(None, "echo", false);
        check_name(Some("=?base64?SGVsbG8sIOS4lueVjA==?="), "Hello, 世界", true);
        check_name(
            Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            "=?base64?literal?=",
            true,
        );
        check_name(Some("=?BASE64?ZWNobw==?="), "echo", false);
        check_name(Some("=?base64?ZWNobw?="), "echo", false);
        check_name(Some("=?base64?/w==?="), "echo", false);
    }
}
