//! A form, filled in.

use mcp_core::tool::ToolError;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::file::files;
use super::fill::{Body, Part, UrlStart, as_text};
use crate::trigger::{Field, FieldKind, Form, Kind};

/// The request that a browser sends for the form with these parameters in its fields.
pub(super) fn fill_in(
    form: Form,
    mut parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlStart, ToolError> {
    let mut body = Vec::new();
    for field in &form.fields {
        let given = parameters.remove(&field.name);
        match given.filter(|value| !value.is_null()) {
            Some(value) => {
                let key = format!("field-{}", field.index);
                match field.kind {
                    FieldKind::File { several } => {
                        let files = files(&field.name, value, several)?;
                        body.extend(
                            files
                                .into_iter()
                                .map(|file| (key.clone(), Part::File(file))),
                        );
                    }
                    _ => body.push((key, Part::Text(as_input(field, value)))),
                }
            }
            None if field.required => {
                return Err(ToolError::invalid_argument(format!(
                    "The form asks for `parameters.{}`. {}",
                    field.name,
                    names(&form.fields)
                )));
            }
            None => {}
        }
    }
    if let Some(unknown) = parameters.keys().next() {
        return Err(ToolError::invalid_argument(format!(
            "The form has no field {unknown:?}. {}",
            names(&form.fields)
        )));
    }
    let mut path = vec!["form".to_owned()];
    path.extend(form.path);
    Ok(UrlStart {
        kind: Kind::Form,
        method: Method::POST,
        path,
        // The trigger keeps the query, not the headers.
        query: vec![("mcpRequestId".into(), request_id.into())],
        body: Some(Body::Fields(body)),
        replies_late: form.replies_late,
        login: form.login,
    })
}

/// Several options are sent as a list, even if they are one.
fn as_input(field: &Field, value: Value) -> String {
    match value {
        Value::Array(_) => value.to_string(),
        one if field.kind.is_sent_as_list() => json!([one]).to_string(),
        one => as_text(&one),
    }
}

fn names(fields: &[Field]) -> String {
    let names = fields.iter().map(|field| format!("`{}`", field.name));
    format!("Its fields are: {}.", names.collect::<Vec<_>>().join(", "))
}
