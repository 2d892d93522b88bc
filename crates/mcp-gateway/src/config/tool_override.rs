//! Texts and the effect of a backend's tool that the operator sets in place of its own.

use gateway_access::EffectName;
use mcp_core::jsonrpc::Members;
use mcp_core::tool::Effect;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The table `[backends.KEY.tools.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolOverride {
    title: Option<String>,
    description: Option<String>,
    effect: Option<EffectName>,
}

impl ToolOverride {
    pub(super) fn new(
        title: Option<String>,
        description: Option<String>,
        effect: Option<EffectName>,
    ) -> Self {
        Self {
            title,
            description,
            effect,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The definition of the tool with these texts and this effect.
    pub(crate) fn applied_to(&self, definition: &RawValue) -> Option<Box<RawValue>> {
        let mut members = Members::read(definition.get())?;
        let mut annotations: Map<String, Value> = members
            .get("annotations")
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        if let Some(title) = &self.title {
            members.set("title", &json!(title).to_string());
            annotations.remove("title");
        }
        if let Some(description) = &self.description {
            members.set("description", &json!(description).to_string());
        }
        if let Some(effect) = self.effect {
            for hint in ["readOnlyHint", "destructiveHint", "idempotentHint"] {
                annotations.remove(hint);
            }
            if let Value::Object(hints) = effect_of(effect).annotations() {
                annotations.extend(hints);
            }
        }
        if !annotations.is_empty() || members.get("annotations").is_some() {
            members.set("annotations", &Value::Object(annotations).to_string());
        }
        RawValue::from_string(members.encode()).ok()
    }
}

fn effect_of(name: EffectName) -> Effect {
    match name {
        EffectName::Reads => Effect::ReadOnly,
        EffectName::Additive => Effect::Additive,
        EffectName::Idempotent => Effect::Idempotent,
        EffectName::Destructive => Effect::Destructive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_effect_take_the_place_of_the_tools_own() {
        let own = r#"{"name":"x","title":"X","description":"Own.","inputSchema":{"type":"object"},"annotations":{"title":"A","readOnlyHint":true,"openWorldHint":false}}"#;
        let own = RawValue::from_string(own.to_owned()).unwrap();
        let parse = |text: &str| toml::from_str::<ToolOverride>(text).unwrap();
        let applied = |text: &str| {
            let applied = parse(text).applied_to(&own).unwrap();
            serde_json::from_str::<Value>(applied.get()).unwrap()
        };
        let found = applied("title = \"T\"\ndescription = \"D.\"\neffect = \"idempotent\"");
        assert_eq!(
            found,
            json!({"name": "x", "title": "T", "description": "D.", "inputSchema": {"type": "object"},
                "annotations": {"openWorldHint": false, "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true}})
        );
        assert_eq!(
            applied("description = \"D.\"")["annotations"]["readOnlyHint"],
            true
        );
        assert!(toml::from_str::<ToolOverride>("effect = \"writes\"").is_err());
    }
}
