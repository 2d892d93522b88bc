//! Names of files inside a task's directory. Pure.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// The name of a file inside a task's directory, such as `src/main.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileName(String);

/// File systems end a name at 255 bytes.
const MAX_PART: usize = 255;
const MAX_NAME: usize = 1024;

impl FileName {
    /// # Errors
    /// Why `name` could lead somewhere else than it seems to.
    pub(crate) fn new(name: &str) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("must not be empty");
        }
        if name.len() > MAX_NAME || name.split('/').any(|part| part.len() > MAX_PART) {
            return Err("is too long");
        }
        if name.chars().any(is_deceptive) {
            return Err("must not hold control or invisible characters");
        }
        if name.contains('\\') {
            return Err("must use '/' between directories, not '\\'");
        }
        if name.starts_with(['/', '~']) || has_drive(name) {
            return Err("must be relative to the task's directory");
        }
        for part in name.split('/') {
            if matches!(part, "" | "." | "..") {
                return Err("must not have empty, '.' or '..' parts");
            }
            // Its hooks and settings name programs that git runs.
            if part.eq_ignore_ascii_case(".git") {
                return Err("must not lead into a .git directory");
            }
        }
        Ok(Self(name.to_owned()))
    }

    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Characters that end a name early or show it as another one.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn has_drive(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.next() == Some(':')
}

impl<'de> Deserialize<'de> for FileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'_, str>::deserialize(deserializer)?;
        Self::new(&name).map_err(|reason| de::Error::custom(format!("the file name {reason}")))
    }
}

impl JsonSchema for FileName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FileName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_names_pass() {
        for name in [
            "a",
            "src/main.rs",
            "Ünïcode/файл.txt",
            "a b.txt",
            ".gitignore",
            "..a/b..",
            "ab:c",
        ] {
            assert_eq!(
                FileName::new(name).map(|n| n.as_str() == name),
                Ok(true),
                "{name:?}"
            );
        }
    }

    #[test]
    fn hostile_names_do_not() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(600);
        for name in [
            "",
            "/",
            "/etc/passwd",
            "//x",
            "..",
            "../x",
            "a/../../x",
            "a/..",
            ".",
            "./x",
            "a/./b",
            "a//b",
            "a/",
            "~/x",
            "~root",
            "C:/x",
            "c:x",
            "..\\x",
            "a\\b",
            "\\\\host\\share",
            "a\0b",
            "a\nRUN: x",
            "a\r",
            "\u{1b}[2J",
            "a\u{202e}txt.exe",
            "a\u{200b}b",
            "\u{feff}a",
            "a\u{2066}b",
            ".git/config",
            "x/.GIT/hooks/pre-commit",
            ".git",
            &long,
            &longer,
        ] {
            assert!(FileName::new(name).is_err(), "{name:?}");
        }
    }
}
