//! Definitions and results from other servers, passed on as they were written.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Definition, Detail, Effect, TaskSupport};
use crate::era::{Era, Hints};
use crate::jsonrpc::{Members, Request, string};

/// A tool's definition as its server wrote it. What this server knows is selected from it, member
/// by member, and nothing is written anew: numbers keep their digits.
#[derive(Clone, Debug)]
pub(super) struct Imported {
    members: Members,
    /// The name that seed 001's list shows.
    legacy_name: String,
}

/// The members of a definition that a list shows, where it has them.
fn shown(detail: Detail) -> &'static [&'static str] {
    match detail {
        Detail::Legacy => &["description"],
        Detail::Basic => &["description", "inputSchema"],
        Detail::Annotated => &["description", "inputSchema", "annotations"],
        Detail::Full => &[
            "title",
            "icons",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
            "_meta",
        ],
        Detail::Tasks => &[
            "title",
            "icons",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
            "execution",
            "_meta",
        ],
    }
}

impl Definition {
    /// The definition `item` of another server, published as `name`, and as `legacy_name` where
    /// seed 001 lists it; both names call it.
    ///
    /// # Errors
    /// What is wrong with the definition: it must be an object with an object as `inputSchema`.
    pub fn imported(name: String, legacy_name: String, item: &RawValue) -> Result<Self, String> {
        let members = Members::read(item.get()).ok_or("is not an object")?;
        let parsed = |name: &str| -> Option<Value> {
            members
                .get(name)
                .and_then(|json| serde_json::from_str(json).ok())
        };
        let input_schema = parsed("inputSchema")
            .filter(Value::is_object)
            .ok_or("has no inputSchema that is an object")?;
        let description = members
            .get("description")
            .and_then(string)
            .map(|text| text.into_owned())
            .unwrap_or_default();
        let annotations = parsed("annotations").unwrap_or_default();
        let execution = parsed("execution").unwrap_or_default();
        let task = match execution["taskSupport"].as_str() {
            Some("required") => TaskSupport::Required,
            Some("optional") => TaskSupport::Optional,
            _ => TaskSupport::Never,
        };
        Ok(Self {
            description,
            effect: effect(&annotations),
            task,
            input_schema,
            output_schema: parsed("outputSchema"),
            aliases: vec![legacy_name.clone()],
            is_listed: true,
            imported: Some(Imported {
                members,
                legacy_name,
            }),
            name,
        })
    }
}

/// What the annotations promise; without any, the worst (specification, `ToolAnnotations`).
fn effect(annotations: &Value) -> Effect {
    let is = |name: &str, default: bool| annotations[name].as_bool().unwrap_or(default);
    if is("readOnlyHint", false) {
        Effect::ReadOnly
    } else if is("destructiveHint", true) {
        Effect::Destructive
    } else if is("idempotentHint", false) {
        Effect::Idempotent
    } else {
        Effect::Additive
    }
}

impl Imported {
    /// The definition as `name`, with the members that `detail` shows.
    pub(super) fn encode(&self, name: &str, detail: Detail) -> String {
        let is_legacy = detail == Detail::Legacy;
        let name = if is_legacy { &self.legacy_name } else { name };
        let mut text = format!(r#"{{"name":{}"#, Value::from(name));
        let mut push = |key: &str, json: &str| {
            text.push_str(&format!(r#","{key}":{json}"#));
        };
        for key in shown(detail) {
            if let Some(json) = self.members.get(key) {
                push(key, json);
            }
        }
        if let (true, Some(schema)) = (is_legacy, self.members.get("inputSchema")) {
            push("parameter_schema", schema);
        }
        text.push('}');
        text
    }
}

/// How a request came, for calls that are passed on to another server.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its parameters.
    pub params: Option<Box<RawValue>>,
    /// W3C `traceparent` of its headers.
    pub traceparent: Option<String>,
    /// The era that it belongs to.
    pub era: Era,
    /// How long it is worked on before it is given up.
    pub patience: Duration,
}

impl Origin {
    pub(crate) fn of(
        request: &Request<'_>,
        hints: &Hints<'_>,
        era: Era,
        patience: Duration,
    ) -> Self {
        Self {
            params: request.params.map(ToOwned::to_owned),
            traceparent: hints.traceparent.map(ToOwned::to_owned),
            era,
            patience,
        }
    }
}
