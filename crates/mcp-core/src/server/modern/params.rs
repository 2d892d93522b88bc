//! Arguments that clients repeat in `Mcp-Param-…` headers must be those of the body (2026-07-28,
//! "Server Behavior for Custom Headers").

use serde_json::Value;

use super::super::Server;
use super::super::tools::CallParams;
use super::headers::decoded;
use crate::era::Hints;
use crate::error::Error;
use crate::jsonrpc::Request;
use crate::tool::Mirrored;

impl Server {
    /// Compares the `Mcp-Param-…` headers that the tool declares with its arguments. What it does
    /// not declare is none of our business.
    pub(super) fn check_mirrored(
        &self,
        request: &Request<'_>,
        hints: &Hints<'_>,
    ) -> Result<(), Error> {
        let is_call = hints.has_headers && request.method == "tools/call";
        if !is_call {
            return Ok(());
        }
        let offered = self.offered();
        if !offered.catalogue.has_mirrored() {
            return Ok(());
        }
        let params = CallParams::read(request.params)?;
        let mirrored = offered.catalogue.mirrored(&params.name);
        if mirrored.is_empty() {
            return Ok(());
        }
        let arguments = serde_json::from_str(params.arguments()?.get()).unwrap_or_default();
        let mut mirrored = mirrored.iter();
        mirrored.try_for_each(|mirrored| check_param(mirrored, &arguments, hints.params))
    }
}

fn check_param(
    mirrored: &Mirrored,
    arguments: &Value,
    headers: &[(&str, &[u8])],
) -> Result<(), Error> {
    let name = format!("Mcp-Param-{}", mirrored.header);
    let wrong = |what: &str| Err(Error::HeaderMismatch(format!("the {name} header {what}")));
    let argument = mirrored.of(arguments);
    let mut values = headers
        .iter()
        .filter(|(header, _)| header.eq_ignore_ascii_case(&mirrored.header))
        .map(|(_, value)| *value)
        .peekable();
    match argument {
        Some(_) if values.peek().is_none() => return wrong("is missing, but the argument is not"),
        None if values.peek().is_some() => return wrong("is there, but the argument is not"),
        _ => {}
    }
    for value in values {
        let Some(value) = visible(value) else {
            return wrong("has characters that must be sent as base64");
        };
        let value = decoded(&name, value)?;
        if !argument.is_some_and(|argument| says(&value, argument)) {
            return wrong("does not match the argument");
        }
    }
    Ok(())
}

/// The text of a header, if it has only characters that a header may have.
fn visible(value: &[u8]) -> Option<&str> {
    let is_legal = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t');
    let text = std::str::from_utf8(value).ok()?;
    value.iter().all(is_legal).then_some(text)
}

/// True if `text` is the header's way to write `argument`. Numbers are compared as numbers.
fn says(text: &str, argument: &Value) -> bool {
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
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_argument(headers: &[(&str, &str)], arguments: Value, expected: bool) {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limit": {"type": "integer", "x-mcp-header": "Limit"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        }});
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let mut all = crate::tool::mirrored(&schema).unwrap().into_iter();
        let found = all.try_for_each(|mirrored| check_param(&mirrored, &arguments, &headers));
        assert_eq!(found.is_ok(), expected, "{headers:?} {arguments}");
    }

    #[test]
    fn arguments_are_what_their_headers_say() {
        check_argument(&[], json!({}), true);
        check_argument(&[], json!({"region": null}), true);
        check_argument(&[("region", "eu")], json!({"region": "eu"}), true);
        check_argument(
            &[("region", "=?base64?ZXU=?=")],
            json!({"region": "eu"}),
            true,
        );
        check_argument(&[("region", "ZXU=")], json!({"region": "ZXU="}), true);
        check_argument(&[("limit", "42.0")], json!({"limit": 42}), true);
        check_argument(&[("limit", "-7")], json!({"limit": -7}), true);
        check_argument(
            &[("dry", "true"), ("other", "x")],
            json!({"dry": true}),
            true,
        );

        check_argument(&[], json!({"region": "eu"}), false);
        check_argument(&[("region", "eu")], json!({}), false);
        check_argument(&[("region", "us")], json!({"region": "eu"}), false);
        check_argument(&[("region", "EU")], json!({"region": "eu"}), false);
        check_argument(
            &[("region", "eu"), ("region", "us")],
            json!({"region": "eu"}),
            false,
        );
        check_argument(
            &[("region", "=?base64?ZXU?=")],
            json!({"region": "eu"}),
            false,
        );
        check_argument(&[("region", "é")], json!({"region": "é"}), false);
        check_argument(&[("dry", "True")], json!({"dry": true}), false);
        check_argument(&[("limit", "nan")], json!({"limit": 1}), false);
    }
}
