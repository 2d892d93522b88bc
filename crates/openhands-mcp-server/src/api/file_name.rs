//! Names of files inside a task's directory. Pure.

use schemars::JsonSchema;
use serde::Deserialize;

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
        if name.starts_with(['/', '~']) || has_drive(name) {
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

fn has_drive(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic()) && chars.next() == Some(':')
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
    fn plain_names_are_accepted() {
        let names = "a src/main.rs Ünïcode/файл.txt .gitignore ..a/b.. ab:c".split(' ');
        for name in names.chain(["a b.txt"]) {
            let accepted = FileName::new(name);
            assert_eq!(accepted.map(|n| n.as_str() == name), Ok(true), "{name:?}");
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        let plain = "/ /etc/passwd //x .. ../x a/../../x a/.. . ./x a/./b a//b a/ ~/x ~root C:/x c:x \
                     ..\\x a\\b \\\\host\\share .git/config x/.GIT/hooks/pre-commit .git";
        let control = ["a\0b", "a\nRUN: x", "a\r", "\u{1b}[2J"];
        let invisible = ["a\u{202e}txt.exe", "a\u{200b}b", "\u{feff}a", "a\u{2066}b"];
        let (long, longer) = ("x".repeat(256), "x/".repeat(600));
        let names = plain.split(' ').chain(control).chain(invisible);
        for name in names.chain(["", &*long, &*longer]) {
            assert!(FileName::new(name).is_err(), "{name:?}");
        }
    }
}
