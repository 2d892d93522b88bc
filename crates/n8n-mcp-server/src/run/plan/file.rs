//! Parses files for a form, as a caller writes them in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;
use upstream::http::multipart::Part;

use crate::production_url::FormFile;

/// A file in the parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArgument {
    name: Option<String>,
    r#type: Option<String>,
    text: Option<String>,
    base64: Option<String>,
}

/// Parses the value of `field`: a text, an object, or a list of those.
///
/// # Errors
/// When it is not a file, or there are too many.
pub(super) fn files(field: &str, value: Value, several: bool) -> Result<Vec<FormFile>, ToolError> {
    match value {
        Value::Array(all) if several || all.len() == 1 => {
            all.into_iter().map(|one| file(field, one)).collect()
        }
        Value::Array(_) => Err(wrong(field, "takes one file")),
        one => file(field, one).map(|file| vec![file]),
    }
}

fn file(field: &str, value: Value) -> Result<FormFile, ToolError> {
    const SHAPE: &str = "is a file: pass its text, or {\"name\", \"type\", \"text\" or \"base64\"}";
    let given = match value {
        Value::String(text) => FileArgument {
            name: None,
            r#type: None,
            text: Some(text),
            base64: None,
        },
        other => serde_json::from_value(other).map_err(|_| wrong(field, SHAPE))?,
    };
    let (content, name, media_type) = match (given.text, given.base64) {
        (Some(text), None) => (text.into_bytes(), "file.txt", "text/plain"),
        (None, Some(text)) => {
            let content = STANDARD.decode(text.trim());
            let content = content.map_err(|_| wrong(field, "has a `base64` that is none"))?;
            (content, "file.bin", "application/octet-stream")
        }
        _ => return Err(wrong(field, SHAPE)),
    };
    let media_type = given.r#type.unwrap_or_else(|| media_type.to_owned());
    // It becomes a header, so its syntax is checked.
    if Part::text("").mime_str(&media_type).is_err() {
        return Err(wrong(field, "has a `type` that is none, like text/csv"));
    }
    Ok(FormFile {
        name: given.name.unwrap_or_else(|| name.to_owned()),
        media_type,
        content,
    })
}

fn wrong(field: &str, what: &str) -> ToolError {
    ToolError::invalid_argument(format!("`parameters.{field}` {what}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_a_text_or_bytes_with_a_name() {
        let file = |name: &str, media_type: &str, content: &str| FormFile {
            name: name.into(),
            media_type: media_type.into(),
            content: content.into(),
        };
        let plain = files("F", json!("hello"), false).unwrap();
        assert_eq!(plain, [file("file.txt", "text/plain", "hello")]);
        let table = json!({"name": "a.csv", "type": "text/csv", "base64": "YSxi"});
        let both = files("F", json!([table, "x"]), true).unwrap();
        let expected = [
            file("a.csv", "text/csv", "a,b"),
            file("file.txt", "text/plain", "x"),
        ];
        assert_eq!(both, expected);
    }

    #[test]
    fn invalid_files_are_rejected_with_the_reason() {
        for (value, several, part) in [
            (json!(["a", "b"]), false, "one file"),
            (json!({"name": "a"}), true, "is a file"),
            (json!({"text": "a", "base64": "YQ=="}), true, "is a file"),
            (
                json!({"text": "a", "path": "/etc/passwd"}),
                true,
                "is a file",
            ),
            (json!(7), true, "is a file"),
            (json!({"base64": "?"}), true, "`base64`"),
            (
                json!({"text": "a", "type": "text/x\r\nA: b"}),
                true,
                "`type`",
            ),
        ] {
            let error = files("CV", value, several).unwrap_err();
            let message = error.message();
            assert!(
                message.contains("`parameters.CV`") && message.contains(part),
                "{message}"
            );
        }
    }
}
