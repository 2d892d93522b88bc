//! Reading the arguments of a call, and saying what is wrong with them.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Arguments that do not fit the tool's schema.
#[derive(Debug)]
pub struct ArgumentError {
    /// Path of the field at fault, as `a.b[0]`; empty where it is the arguments as a whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads arguments as `T`, which must come as a JSON object.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    arguments: &RawValue,
) -> Result<T, ArgumentError> {
    // A serde struct would read an array as its fields in order.
    if !arguments.get().starts_with('{') {
        return Err(ArgumentError {
            field: String::new(),
            reason: "arguments must be a JSON object".into(),
        });
    }
    // The path of the field costs time, so only a failure pays for it.
    serde_json::from_str(arguments.get()).or_else(|error| {
        if let Some(arguments) = without_tool_call_id(arguments, &error) {
            return parse_arguments(&arguments);
        }
        let mut deserializer = serde_json::Deserializer::from_str(arguments.get());
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            ArgumentError {
                field: field(path, error.inner()),
                reason: reason(error.inner()),
            }
        })
    })
}

/// Returns the arguments without the `toolCallId` that n8n 1.x clients add to every call, if that is
/// what the schema does not know.
fn without_tool_call_id(arguments: &RawValue, error: &serde_json::Error) -> Option<Box<RawValue>> {
    const ADDED: &str = "toolCallId";
    if !error.to_string().starts_with("unknown field `toolCallId`") {
        return None;
    }
    let mut members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(arguments.get()).ok()?;
    members.remove(ADDED)?;
    serde_json::value::to_raw_value(&members).ok()
}

/// The field at fault: the path, or the field that the message names where the fault is the
/// enclosing object's.
fn field(path: String, error: &serde_json::Error) -> String {
    if path != "." {
        return path;
    }
    let text = error.to_string();
    text.split('`').nth(1).unwrap_or_default().to_owned()
}

/// The message without its position: the model wrote an object, not lines and columns.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rfind(" at line ")
        .map_or(text.clone(), |end| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Count {
        #[expect(dead_code, reason = "only parsed")]
        step: u8,
        #[expect(dead_code, reason = "only parsed")]
        #[serde(default)]
        tags: Vec<String>,
    }

    #[track_caller]
    fn check(arguments: &str, field: &str, reason: &str) {
        let raw = RawValue::from_string(arguments.to_owned()).unwrap();
        let error = parse_arguments::<Count>(&raw).unwrap_err();
        assert_eq!(
            (error.field.as_str(), error.reason.as_str()),
            (field, reason),
            "{arguments}"
        );
    }

    #[test]
    fn a_bad_argument_is_named() {
        check("[1]", "", "arguments must be a JSON object");
        check("{}", "step", "missing field `step`");
        check(
            r#"{"step":1,"x":2}"#,
            "x",
            "unknown field `x`, expected `step` or `tags`",
        );
        let added = RawValue::from_string(r#"{"toolCallId":"1","step":1}"#.to_owned()).unwrap();
        assert!(parse_arguments::<Count>(&added).is_ok());
        check(
            r#"{"step":1,"toolCallId":"1","x":2}"#,
            "x",
            "unknown field `x`, expected `step` or `tags`",
        );
        check(
            r#"{"step":"1"}"#,
            "step",
            "invalid type: string \"1\", expected u8",
        );
        check(
            r#"{"step":1,"tags":["a",2]}"#,
            "tags[1]",
            "invalid type: integer `2`, expected a string",
        );
        check(
            r#"{"step":300}"#,
            "step",
            "invalid value: integer `300`, expected u8",
        );
    }
}
