//! Builds the request that submits a form, with its files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_core::tool::ToolError;
use n8n_workflow::trigger::{COMPUTED_FIELDS, FormField, FormFieldKind, Trigger};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use upstream::http::Method;
use upstream::http::multipart::Part;

use super::parameters::{as_text, url_request};
use crate::production_url::{Body, FormFile, FormValue, UrlRequest};
use crate::start_method::StartMethod;

/// The request that a browser sends for the form with these parameters in its fields.
pub(super) fn form_request(
    trigger: &Trigger<'_>,
    parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlRequest, ToolError> {
    let body = form_body(trigger.fields().as_deref(), parameters)?;
    let mut path = vec!["form".to_owned()];
    path.extend(trigger.form_path().map_err(ToolError::conflict)?);
    Ok(UrlRequest {
        // The trigger saves the query, not the headers.
        query: vec![("mcpRequestId".into(), request_id.into())],
        body: Some(body),
        ..url_request(trigger, StartMethod::Form, Method::POST, path)
    })
}

/// The fields of a form, as a browser sends them. If an expression computes them, their numbers are the
/// names of the parameters.
pub(in crate::run) fn form_body(
    fields: Option<&[FormField]>,
    mut parameters: Map<String, Value>,
) -> Result<Body, ToolError> {
    let mut body = Vec::new();
    let Some(fields) = fields else {
        for (key, value) in parameters {
            if !is_number_of_field(&key) {
                return Err(ToolError::invalid_argument(format!(
                    "`parameters.{key}` is not known. {COMPUTED_FIELDS}"
                )));
            }
            if !value.is_null() {
                body.push((key, FormValue::Text(as_text(&value))));
            }
        }
        return Ok(Body::Form(body));
    };
    for field in fields {
        let given = parameters.remove(&field.name);
        match given.filter(|value| !value.is_null()) {
            Some(value) => {
                let key = format!("field-{}", field.index);
                match field.kind {
                    FormFieldKind::File { several } => {
                        let files = files(&field.name, value, several)?;
                        let files = files.into_iter().map(FormValue::File);
                        body.extend(files.map(|file| (key.clone(), file)));
                    }
                    _ => body.push((key, FormValue::Text(as_input(field, value)))),
                }
            }
            None if field.required => {
                return Err(ToolError::invalid_argument(format!(
                    "The form asks for `parameters.{}`. {}",
                    field.name,
                    names(fields)
                )));
            }
            None => {}
        }
    }
    if let Some(unknown) = parameters.keys().next() {
        return Err(ToolError::invalid_argument(format!(
            "The form has no field {unknown:?}. {}",
            names(fields)
        )));
    }
    Ok(Body::Form(body))
}

/// True for `field-0`, `field-1` and so on.
fn is_number_of_field(key: &str) -> bool {
    let number = key.strip_prefix("field-");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
}

/// The text that a browser sends: options are a list, even if there is only one.
fn as_input(field: &FormField, value: Value) -> String {
    match value {
        Value::Array(_) => value.to_string(),
        one => match field.kind {
            FormFieldKind::Radio(_) | FormFieldKind::Choices(_) => json!([one]).to_string(),
            _ => as_text(&one),
        },
    }
}

fn names(fields: &[FormField]) -> String {
    if fields.is_empty() {
        return "It has no fields.".to_owned();
    }
    let names = fields.iter().map(|field| format!("`{}`", field.name));
    format!("Its fields are: {}.", names.collect::<Vec<_>>().join(", "))
}

/// A file in the parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArgument {
    name: Option<String>,
    r#type: Option<String>,
    text: Option<String>,
    base64: Option<String>,
}

/// The parts of a form for files by field.
pub(super) fn file_parts(given: Map<String, Value>) -> Result<Vec<(String, FormValue)>, ToolError> {
    let mut parts = Vec::new();
    for (field, value) in given {
        let all = files(&field, value, true)?.into_iter();
        parts.extend(all.map(|file| (field.clone(), FormValue::File(file))));
    }
    Ok(parts)
}

/// Parses the value of `field`: a text, an object, or a list of those.
///
/// # Errors
/// When it is not a file, or there are too many.
fn files(field: &str, value: Value, several: bool) -> Result<Vec<FormFile>, ToolError> {
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
            let content =
                content.map_err(|_| wrong(field, "has a `base64` that is not valid base64"))?;
            (content, "file.bin", "application/octet-stream")
        }
        _ => return Err(wrong(field, SHAPE)),
    };
    let media_type = given.r#type.unwrap_or_else(|| media_type.to_owned());
    // It becomes a header, so its syntax is checked.
    if Part::text("").mime_str(&media_type).is_err() {
        return Err(wrong(
            field,
            "has a `type` that is not a media type such as text/csv",
        ));
    }
    Ok(FormFile {
        name: given.name.unwrap_or_else(|| name.to_owned()),
        media_type,
        content,
    })
}

fn wrong(field: &str, what: &str) -> ToolError {
    ToolError::invalid_argument(format!("`{field}` {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_fields_are_filled_in_by_their_numbers() {
        let fill = |parameters: Value| form_body(None, parameters.as_object().unwrap().clone());
        let filled = fill(json!({"field-0": "Ada", "field-12": ["red"], "field-3": null}));
        let text = |key: &str, text: &str| (key.to_owned(), FormValue::Text(text.to_owned()));
        let expected = vec![text("field-0", "Ada"), text("field-12", r#"["red"]"#)];
        assert_eq!(filled.unwrap(), Body::Form(expected));
        for unknown in ["Name", "field-", "field-x"] {
            let error = fill(json!({unknown: "Ada"})).unwrap_err();
            assert!(error.message().contains("computes"), "{error}");
            assert!(error.message().contains(unknown), "{error}");
        }
    }

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
        let path = json!({"text": "a", "path": "/etc/passwd"});
        let header = json!({"text": "a", "type": "text/x\r\nA: b"});
        for (value, several, part) in [
            (json!(["a", "b"]), false, "one file"),
            (json!({"name": "a"}), true, "is a file"),
            (json!({"text": "a", "base64": "YQ=="}), true, "is a file"),
            (path, true, "is a file"),
            (json!(7), true, "is a file"),
            (json!({"base64": "?"}), true, "`base64`"),
            (header, true, "`type`"),
        ] {
            let error = files("CV", value, several).unwrap_err();
            assert!(error.message().contains("`CV`"), "{error}");
            assert!(error.message().contains(part), "{error}");
        }
    }
}
