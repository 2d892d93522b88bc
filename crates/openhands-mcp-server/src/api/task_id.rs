//! Task ids are conversation ids: UUIDs.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use uuid::Uuid;

/// The id of a task. Only a UUID gets this far, so it is safe in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub(crate) struct TaskId(Uuid);

/// Keys of callers are hashed within this namespace, away from everybody else's version 5 UUIDs.
const NAMESPACE: Uuid = Uuid::from_u128(0x8f1d_52c1_6c0f_4b0e_9a57_0d41_e2c6_93b8);

impl TaskId {
    /// One that nobody has.
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The one that belongs to a caller's key, today and after every restart.
    pub(crate) fn from_key(key: &str) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, key.as_bytes()))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        Uuid::try_parse(&text).map(Self).map_err(|_| {
            de::Error::custom("not a task id: expected a UUID as returned by run_task")
        })
    }
}

impl JsonSchema for TaskId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TaskId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> serde_json::Result<TaskId> {
        serde_json::from_value(serde_json::Value::from(text))
    }

    #[test]
    fn only_uuids_are_ids() {
        let id = TaskId::random();
        assert_eq!(parse(&id.to_string()).unwrap(), id);
        assert_eq!(
            parse("82183F0E7464499AA27D37531B07889F")
                .unwrap()
                .to_string(),
            "82183f0e-7464-499a-a27d-37531b07889f"
        );
        for hostile in [
            "",
            "1",
            "../../api/settings",
            "82183f0e-7464-499a-a27d-37531b07889f/interrupt",
            "82183f0e-7464-499a-a27d-37531b07889f\n",
            "82183f0e-7464-499a-a27d-37531b07889f?x=1",
            "82183f0e-7464-499a-a27d-37531b07889g",
            "%2e%2e",
            "\0",
        ] {
            let error = parse(hostile).unwrap_err().to_string();
            assert!(error.starts_with("not a task id"), "{hostile:?}: {error}");
        }
    }

    #[test]
    fn a_key_has_one_id() {
        assert_eq!(TaskId::from_key("nightly"), TaskId::from_key("nightly"));
        assert_ne!(TaskId::from_key("nightly"), TaskId::from_key("weekly"));
        // Another release must not find another id.
        assert_eq!(
            TaskId::from_key("nightly").to_string(),
            "108b50f8-3c59-547e-a625-6ea13a9eb507"
        );
    }
}
