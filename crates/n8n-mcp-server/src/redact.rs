//! The one place through which data of workflows passes on its way to a caller.
//!
//! Executions keep what their nodes have seen: `Authorization` headers, cookies, tokens that an
//! API returned. An answer to a model is an answer to whoever reads the conversation, so what looks
//! like a secret is shown as `***`, because of the name that it is stored under or because of its
//! shape. `--show-secrets` turns it off.

mod name;
mod shape;

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// What is shown instead of a secret.
const HIDDEN: &str = "***";

/// Hides secrets, unless it was told not to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redactor {
    enabled: bool,
}

impl Redactor {
    /// With `enabled` false, everything is shown as it is.
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled }
    }

    /// Running text: messages of nodes, notes.
    pub(crate) fn text<'a>(self, text: &'a str) -> Cow<'a, str> {
        if self.enabled {
            shape::hide(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// JSON of any depth, in place. Returns how many values were hidden.
    pub(crate) fn value(self, value: &mut Value) -> u32 {
        if self.enabled { hide(value) } else { 0 }
    }

    /// JSON that stays byte for byte what it was if there is nothing to hide in it.
    pub(crate) fn raw(self, raw: Box<RawValue>) -> Box<RawValue> {
        if !self.enabled {
            return raw;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else {
            return raw;
        };
        match self.value(&mut value) {
            0 => raw,
            _ => to_raw_value(&value).unwrap_or_default(),
        }
    }
}

fn hide(value: &mut Value) -> u32 {
    match value {
        Value::String(text) => match shape::hide(text) {
            Cow::Borrowed(_) => 0,
            Cow::Owned(hidden) => {
                *text = hidden;
                1
            }
        },
        Value::Array(all) => all.iter_mut().map(hide).sum(),
        Value::Object(all) => {
            // `{"name": "Authorization", "value": "…"}`, as nodes keep headers and fields.
            let named = ["name", "key"]
                .iter()
                .filter_map(|key| all.get(*key).and_then(Value::as_str))
                .any(name::is_secret);
            let members = all.iter_mut();
            members
                .map(|(key, value)| {
                    if (name::is_secret(key) || (named && key == "value")) && is_literal(value) {
                        *value = HIDDEN.into();
                        return 1;
                    }
                    hide(value)
                })
                .sum()
        }
        _ => 0,
    }
}

/// A text that could be a secret: expressions only say where one comes from.
fn is_literal(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| !text.is_empty() && text != HIDDEN && !text.starts_with('='))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_by_name_and_by_shape() {
        let mut value = json!({
            "headers": {"authorization": "Bearer abcdef123456", "x-api-key": "k", "accept": "*/*"},
            "parameters": [{"name": "X-Api-Key", "value": "literal"}, {"name": "q", "value": "kept"}],
            "expression": {"name": "Authorization", "value": "={{ $json.token }}"},
            "url": "https://user:pw@host/x",
            "nodeCredentialType": "slackApi", "authentication": "headerAuth", "nextPageToken": "p2",
            "password": "", "tokens": 7,
        });
        assert_eq!(Redactor::new(true).value(&mut value), 4);
        assert_eq!(
            value,
            json!({
                "headers": {"authorization": "***", "x-api-key": "***", "accept": "*/*"},
                "parameters": [{"name": "X-Api-Key", "value": "***"}, {"name": "q", "value": "kept"}],
                "expression": {"name": "Authorization", "value": "={{ $json.token }}"},
                "url": "https://user:***@host/x",
                "nodeCredentialType": "slackApi", "authentication": "headerAuth", "nextPageToken": "p2",
                "password": "", "tokens": 7,
            })
        );
        let mut shown = json!({"password": "p"});
        assert_eq!(Redactor::new(false).value(&mut shown), 0);
        assert_eq!(shown, json!({"password": "p"}));
    }

    #[test]
    fn what_holds_no_secret_stays_byte_for_byte() {
        let raw = || RawValue::from_string("{\"a\": 1.50}".into()).unwrap();
        assert_eq!(Redactor::new(true).raw(raw()).get(), raw().get());
        let secret = RawValue::from_string(r#"{"apiKey":"x"}"#.into()).unwrap();
        assert_eq!(Redactor::new(true).raw(secret).get(), r#"{"apiKey":"***"}"#);
    }
}
