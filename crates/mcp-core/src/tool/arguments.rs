//! Parses the arguments of a call and explains invalid ones.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::jsonrpc::Members;

/// Arguments of a tool, or parameters of a method, that are invalid.
#[derive(Debug)]
pub struct ArgumentError {
    /// Path of the invalid field, as `a.b[0]`; empty if the arguments as a whole are invalid.
    pub field: String,
    /// The fault, in words.
    pub reason: String,
    /// The JSON Schema of the field, if it is known.
    pub schema: Option<Box<Value>>,
}

impl ArgumentError {
    /// `field` is invalid because of `reason`.
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
            schema: None,
        }
    }
}

/// Parses arguments, which must be a JSON object, as `T`.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    arguments: &RawValue,
) -> Result<T, ArgumentError> {
    // A serde struct would read an array as its fields in order.
    if !arguments.get().starts_with('{') {
        return Err(ArgumentError::new("", "arguments must be a JSON object"));
    }
    // The path of the field costs time, so it is only computed after a failure.
    serde_json::from_str(arguments.get()).or_else(|error| {
        if error.to_string().starts_with("unknown field `toolCallId`")
            && let Some(arguments) = without_tool_call_id(arguments)
        {
            return parse_arguments(&arguments);
        }
        let mut deserializer = serde_json::Deserializer::from_str(arguments.get());
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let field = field(error.path().to_string(), error.inner());
            ArgumentError::new(field, reason(error.inner()))
        })
    })
}

/// Returns the arguments without the `toolCallId` that n8n 1.x clients add to every call; `None` if
/// they have none. For tools whose schema does not know it.
pub fn without_tool_call_id(arguments: &RawValue) -> Option<Box<RawValue>> {
    const ADDED: &str = "toolCallId";
    if !arguments.get().contains(ADDED) {
        return None;
    }
    let mut members = Members::read(arguments.get())?;
    members.get(ADDED)?;
    members.remove(ADDED);
    RawValue::from_string(members.encode()).ok()
}

/// The invalid field: the path, or the field that the message names if the enclosing object is
/// invalid.
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

    #[test]
    fn error_names_the_invalid_argument() {
        let unknown = "unknown field `x`, expected `step` or `tags`";
        let text = "invalid type: string \"1\", expected u8";
        let item = "invalid type: integer `2`, expected a string";
        let large = "invalid value: integer `300`, expected u8";
        for (arguments, field, reason) in [
            ("[1]", "", "arguments must be a JSON object"),
            ("{}", "step", "missing field `step`"),
            (r#"{"step":1,"x":2}"#, "x", unknown),
            (r#"{"step":1,"toolCallId":"1","x":2}"#, "x", unknown),
            (r#"{"step":"1"}"#, "step", text),
            (r#"{"step":1,"tags":["a",2]}"#, "tags[1]", item),
            (r#"{"step":300}"#, "step", large),
        ] {
            let raw = RawValue::from_string(arguments.to_owned()).unwrap();
            let error = parse_arguments::<Count>(&raw).unwrap_err();
            assert_eq!((&*error.field, &*error.reason), (field, reason));
        }
        let added = RawValue::from_string(r#"{"toolCallId":"1","step":1}"#.to_owned()).unwrap();
        assert!(parse_arguments::<Count>(&added).is_ok());
    }
}
