//! Checks that headers match the body: a proxy may have routed the request by them (2026-07-28,
//! "Server Validation" and "Server Behavior for Custom Headers").

use std::borrow::Cow;

use http::HeaderMap;
use serde_json::Value;

use crate::error::Error;
use crate::http_headers::{HeaderParam, METHOD, NAME, decode, named_member, text};
use crate::jsonrpc::string;
use crate::server::params::Params;

/// Compares `Mcp-Method` and `Mcp-Name` with the body; over stdio there are no headers.
pub(super) fn check(
    method: &str,
    params: &Params<'_>,
    headers: Option<&HeaderMap>,
) -> Result<(), Error> {
    let Some(headers) = headers else {
        return Ok(());
    };
    equal("Mcp-Method", text(headers, METHOD), method)?;
    let named = match named_member(method) {
        Some("name") => params.name,
        Some("uri") => params.uri,
        Some("taskId") => params.task_id,
        _ => None,
    };
    // The method itself refuses a body without it.
    let Some(value) = named.and_then(|raw| string(raw.get())) else {
        return Ok(());
    };
    let decoded = |value| decoded("Mcp-Name", value);
    let header = text(headers, NAME).map(decoded).transpose()?;
    equal("Mcp-Name", header.as_deref(), &value)
}

/// Compares the `Mcp-Param-…` headers that a tool declares with its arguments; others are ignored.
pub(super) fn check_arguments(
    declared: &[HeaderParam],
    params: &Params<'_>,
    headers: &HeaderMap,
) -> Result<(), Error> {
    if declared.is_empty() {
        return Ok(());
    }
    let arguments = serde_json::from_str(params.arguments()?.get()).unwrap_or_default();
    let mut declared = declared.iter();
    declared.try_for_each(|param| check_argument(param, &arguments, headers))
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

fn decoded<'a>(header: &str, value: &'a str) -> Result<Cow<'a, str>, Error> {
    decode(value).ok_or_else(|| Error::HeaderMismatch(format!("{header} is not valid base64")))
}

fn check_argument(
    declared: &HeaderParam,
    arguments: &Value,
    headers: &HeaderMap,
) -> Result<(), Error> {
    let name = format!("Mcp-Param-{}", declared.header);
    let wrong = |what: &str| Err(Error::HeaderMismatch(format!("the {name} header {what}")));
    let argument = declared.find(arguments);
    let mut values = headers.get_all(&name).iter().peekable();
    match argument {
        Some(_) if values.peek().is_none() => {
            return wrong("is missing, but the argument is present");
        }
        None if values.peek().is_some() => return wrong("is present, but the argument is missing"),
        _ => {}
    }
    for value in values {
        let Some(value) = visible(value.as_bytes()) else {
            return wrong("has characters that must be sent as base64");
        };
        let value = decoded(&name, value)?;
        if !argument.is_some_and(|argument| equals(&value, argument)) {
            return wrong("does not match the argument");
        }
    }
    Ok(())
}

/// The text of a header, if all characters are allowed in a header.
fn visible(value: &[u8]) -> Option<&str> {
    let is_legal = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    let text = std::str::from_utf8(value).ok()?;
    value.iter().all(is_legal).then_some(text)
}

/// True if the header `text` is the value of `argument`. Numbers are compared as numbers.
fn equals(text: &str, argument: &Value) -> bool {
    match argument {
        Value::String(argument) => argument == text,
        Value::Bool(argument) => argument.to_string() == text,
        Value::Number(argument) => {
            argument.to_string() == text || argument.as_f64() == text.parse().ok()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::http_headers::header_params;

    fn matches(headers: &[(&str, &str)], arguments: &Value) -> bool {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limit": {"type": "integer", "x-mcp-header": "Limit"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        }});
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = format!("mcp-param-{name}").parse().unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        let headers = HeaderMap::from_iter(headers);
        let mut all = header_params(&schema).unwrap().into_iter();
        all.all(|declared| check_argument(&declared, arguments, &headers).is_ok())
    }

    #[test]
    fn headers_must_match_arguments() {
        let eu = json!({"region": "eu"});
        assert!(matches(&[], &json!({})) && !matches(&[], &eu));
        assert!(matches(&[], &json!({"region": null})));
        assert!(!matches(&[("region", "eu")], &json!({})));
        assert!(!matches(&[("region", "eu"), ("region", "us")], &eu));
        assert!(matches(
            &[("dry", "true"), ("other", "x")],
            &json!({"dry": true})
        ));
        for (name, header, argument, expected) in [
            ("region", "eu", json!("eu"), true),
            ("region", "=?base64?ZXU=?=", json!("eu"), true),
            ("region", "ZXU=", json!("ZXU="), true),
            ("limit", "42.0", json!(42), true),
            ("limit", "-7", json!(-7), true),
            ("region", "us", json!("eu"), false),
            ("region", "EU", json!("eu"), false),
            ("region", "=?base64?ZXU?=", json!("eu"), false),
            ("region", "é", json!("é"), false),
            ("dry", "True", json!(true), false),
            ("limit", "nan", json!(1), false),
        ] {
            let arguments = json!({name: argument});
            let found = matches(&[(name, header)], &arguments);
            assert_eq!(found, expected, "{header} {arguments}");
        }
    }
}
