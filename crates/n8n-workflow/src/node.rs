//! A node of a workflow, as n8n writes it.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upstream::redact::Redactor;

use crate::node_type::last_part;

/// A node in n8n's form, by the names of its members. A member that does not have the form of n8n counts as absent: n8n
/// keeps some that other programs and its earlier versions wrote.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Node(pub Map<String, Value>);

impl Deref for Node {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Node {
    /// The name, unique in the workflow; empty if it has none.
    pub fn name(&self) -> &str {
        self.member("name")
    }

    /// The node as it is shown: without its secrets. The name stays, which operations and connections use.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let mut value = Value::Object(self.0.clone());
        redactor.json(&mut value);
        let mut shown = match value {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let name = self.get("name").cloned();
        shown.extend(name.map(|name| ("name".to_owned(), name)));
        Self(shown)
    }

    /// The type, such as `n8n-nodes-base.set`; empty if it has none.
    pub fn kind(&self) -> &str {
        self.member("type")
    }

    /// The last part of its type.
    pub fn short_kind(&self) -> &str {
        last_part(self.kind())
    }

    /// The version of its type; as in n8n, the first one if it names none.
    pub fn version(&self) -> f64 {
        self.get("typeVersion").and_then(number).unwrap_or(1.0)
    }

    /// True if it does not run, and passes its input on.
    pub fn is_disabled(&self) -> bool {
        self.get("disabled") == Some(&Value::Bool(true))
    }

    /// The parameters; null if it has none.
    pub fn parameters(&self) -> &Value {
        self.get("parameters").unwrap_or(&Value::Null)
    }

    /// The text of a parameter.
    pub fn text(&self, parameter: &str) -> Option<&str> {
        self.parameters().get(parameter)?.as_str()
    }

    /// The credentials that it uses.
    pub fn credentials(&self) -> impl Iterator<Item = CredentialRef> {
        let all = self.get("credentials").and_then(Value::as_object);
        let all = all.into_iter().flat_map(Map::values);
        all.map(CredentialRef::read)
    }

    /// True if the workflow goes on after its errors.
    pub fn handles_errors(&self) -> bool {
        self.get("continueOnFail") == Some(&Value::Bool(true))
            || self.member("onError").starts_with("continue")
    }

    /// True if its URL holds its webhook id.
    pub(crate) fn needs_webhook_id(&self) -> bool {
        let kinds = ["webhook", "formTrigger", "chatTrigger", "wait", "form"];
        kinds.contains(&self.short_kind())
    }

    /// A part of the URLs of some triggers.
    pub(crate) fn webhook_id(&self) -> Option<&str> {
        Some(self.member("webhookId")).filter(|id| !id.is_empty())
    }

    fn member(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The credential of a node.
pub struct CredentialRef {
    /// The id in n8n; earlier versions wrote only the name.
    pub id: Option<String>,
    /// The name in n8n.
    pub name: Option<String>,
}

impl CredentialRef {
    fn read(value: &Value) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self {
            id: value.get("id").and_then(text),
            name: text(value.get("name").unwrap_or(value)),
        }
    }
}

/// A number, also in a text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
