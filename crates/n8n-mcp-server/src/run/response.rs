//! The webhook's own answer, as its callers get it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use upstream::http::StatusCode;
use upstream::redact::Redactor;
use upstream::text::head;

use crate::production_url::UrlReply;

/// Bytes of the body; about 1,000 tokens.
const MAX_BODY: usize = 4 * 1024;

/// The HTTP answer of a webhook.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WebhookResponse {
    /// HTTP status.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// JSON or text; absent if it is the same as `output`, or binary.
    #[schemars(extend("not" = {"type": "null"}))]
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    /// Size of a binary body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

impl WebhookResponse {
    pub(super) fn new(reply: &UrlReply, redactor: &Redactor) -> Self {
        let text = std::str::from_utf8(&reply.body).ok();
        let body = text.filter(|text| !text.is_empty()).and_then(|text| {
            let json: Option<&RawValue> = serde_json::from_str(text).ok();
            match json {
                Some(json) if text.len() <= MAX_BODY => {
                    Some(redactor.raw_json(without_stack(json.to_owned(), reply.status)))
                }
                _ => to_raw_value(&head(&redactor.text(text), MAX_BODY)).ok(),
            }
        });
        Self {
            status: reply.status.as_u16(),
            content_type: reply.content_type.clone(),
            body: body.filter(|body| body.get() != "null"),
            bytes: text.is_none().then_some(reply.body.len()),
        }
    }

    pub(super) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Leaves the body out if it is the same as `output`.
    pub(super) fn without(mut self, output: Option<&RawValue>) -> Self {
        let is_same = |body: &RawValue| output.is_some_and(|output| output.get() == body.get());
        self.body = self.body.filter(|body| !is_same(body));
        self
    }
}

/// n8n's own error without the places in its source, which are lines `    at NAME (FILE:LINE:COLUMN)`
/// after the message; any other body as it is.
fn without_stack(body: Box<RawValue>, status: StatusCode) -> Box<RawValue> {
    if !status.is_client_error() && !status.is_server_error() {
        return body;
    }
    let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(body.get());
    let shown = members.ok().and_then(|mut members| {
        let text = |name: &str| serde_json::from_str::<String>(members.get(name)?.get()).ok();
        let (message, stack) = (text("message")?, text("stacktrace")?);
        let is_own =
            members.contains_key("code") && stack.contains(&message) && stack.contains("\n    at ");
        members.remove("stacktrace").filter(|_| is_own)?;
        to_raw_value(&members).ok()
    });
    shown.unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_errors_of_n8n_lose_their_stack() {
        let shown = |status: u16, body: &Value| {
            let status = StatusCode::from_u16(status).unwrap();
            let shown = without_stack(to_raw_value(body).unwrap(), status);
            serde_json::from_str::<Value>(shown.get()).unwrap()
        };
        let stack = "Error: boom\n    at Workflow.run (/srv/n8n/a.js:1:2)";
        let own = json!({"code": 0, "message": "boom", "stacktrace": stack});
        let without = json!({"code": 0, "message": "boom"});
        assert_eq!(shown(500, &own), without);
        assert_eq!(shown(200, &own), own);
        let answer = json!({"code": 7, "message": "boom", "stacktrace": "see page 7"});
        assert_eq!(shown(500, &answer), answer);
    }
}
