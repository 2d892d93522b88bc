//! Task ids. A task id is a conversation id, which is a UUID.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of a task. It is a UUID, so it is safe in a path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, description = "")]
pub(crate) struct TaskId(Uuid);

/// The namespace in which the keys of callers are hashed. It keeps their ids apart from all other
/// version 5 UUIDs.
const NAMESPACE: Uuid = Uuid::from_u128(0x8f1d_52c1_6c0f_4b0e_9a57_0d41_e2c6_93b8);

impl TaskId {
    pub(crate) fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id for a caller's key. It is the same after every restart.
    pub(crate) fn from_key(key: &str) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, key.as_bytes()))
    }

    /// The id without hyphens.
    pub(crate) fn simple(self) -> String {
        self.0.simple().to_string()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl TryFrom<String> for TaskId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let id = Uuid::try_parse(&text).map(Self);
        id.map_err(|_| "not a task id: expected a UUID as returned by run_task")
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
        let plain = "82183f0e-7464-499a-a27d-37531b07889f";
        let upper_case = parse("82183F0E7464499AA27D37531B07889F").unwrap();
        assert_eq!(upper_case.to_string(), plain);
        let longer = ["/interrupt", "\n", "?x=1"].map(|end| format!("{plain}{end}"));
        let longer = longer.iter().map(String::as_str);
        let other_digit = "82183f0e-7464-499a-a27d-37531b07889g";
        let others = ["", "1", "../../api/settings", other_digit, "%2e%2e", "\0"];
        for hostile in others.into_iter().chain(longer) {
            let error = parse(hostile).unwrap_err().to_string();
            assert!(error.starts_with("not a task id"), "{hostile:?}: {error}");
        }
    }

    #[test]
    fn key_has_a_stable_id() {
        assert_eq!(TaskId::from_key("nightly"), TaskId::from_key("nightly"));
        assert_ne!(TaskId::from_key("nightly"), TaskId::from_key("weekly"));
        // Later releases must find the same id.
        assert_eq!(
            TaskId::from_key("nightly").to_string(),
            "108b50f8-3c59-547e-a625-6ea13a9eb507"
        );
    }
}
