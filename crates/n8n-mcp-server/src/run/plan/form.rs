//! Builds the request that submits a form.

use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};
use upstream::http::Method;

use super::file::files;
use super::parameters::{as_text, url_request};
use crate::production_url::{Body, FormValue, UrlRequest};
use crate::trigger::{FormField, FormFieldKind, StartMethod, Trigger};

/// The request that a browser sends for the form with these parameters in its fields.
pub(super) fn form_request(
    trigger: &Trigger<'_>,
    mut parameters: Map<String, Value>,
    request_id: &str,
) -> Result<UrlRequest, ToolError> {
    let (fields, mut body) = (trigger.fields(), Vec::new());
    for field in &fields {
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
                    names(&fields)
                )));
            }
            None => {}
        }
    }
    if let Some(unknown) = parameters.keys().next() {
        return Err(ToolError::invalid_argument(format!(
            "The form has no field {unknown:?}. {}",
            names(&fields)
        )));
    }
    let mut path = vec!["form".to_owned()];
    path.extend(trigger.form_path().map_err(ToolError::conflict)?);
    Ok(UrlRequest {
        // The trigger saves the query, not the headers.
        query: vec![("mcpRequestId".into(), request_id.into())],
        body: Some(Body::Form(body)),
        ..url_request(trigger, StartMethod::Form, Method::POST, path)
    })
}

/// The text that a browser sends: options are a list, even if there is only one.
fn as_input(field: &FormField, value: Value) -> String {
    match value {
        Value::Array(_) => value.to_string(),
        one if field.kind.is_sent_as_list() => json!([one]).to_string(),
        one => as_text(&one),
    }
}

fn names(fields: &[FormField]) -> String {
    let names = fields.iter().map(|field| format!("`{}`", field.name));
    format!("Its fields are: {}.", names.collect::<Vec<_>>().join(", "))
}
