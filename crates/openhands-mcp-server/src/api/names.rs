//! Ids of tasks and names of files in their directories. Pure.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of a task. It is a UUID, so it is safe in a path.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
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

/// The name of a file inside a task's directory, such as `src/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", inline, description = "")]
pub(crate) struct FileName(String);

/// The limit of file systems for one part of a name.
const MAX_PART_BYTES: usize = 255;
const MAX_NAME_BYTES: usize = 1024;

impl FileName {
    /// Checks the name.
    ///
    /// # Errors
    /// `name` could refer to another place than it seems to.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("must not be empty");
        }
        if name.len() > MAX_NAME_BYTES || name.split('/').any(|part| part.len() > MAX_PART_BYTES) {
            return Err("is too long");
        }
        if name.chars().any(is_deceptive) {
            return Err("must not contain control or invisible characters");
        }
        if name.contains('\\') {
            return Err("must use '/' between directories, not '\\'");
        }
        let has_drive = matches!(name.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic());
        if name.starts_with(['/', '~']) || has_drive {
            return Err("must be relative to the task's directory");
        }
        for part in name.split('/') {
            if matches!(part, "" | "." | "..") {
                return Err("must not have empty, '.' or '..' parts");
            }
            // The hooks and settings in it name programs that git runs.
            if part.eq_ignore_ascii_case(".git") {
                return Err("must not lead into a .git directory");
            }
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true for characters that end a name early or make it look like another one.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl TryFrom<String> for FileName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::new(&name).map_err(|reason| format!("the file name {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
