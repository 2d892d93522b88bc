//! What stands for something else: `${NAME}` for an environment variable, `file:PATH` for what a
//! file holds.

use std::fmt;
use std::path::Path;

use super::Secret;

/// The environment in which a configuration is read, and the folder that its paths start from.
pub(super) struct Place<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) folder: &'a Path,
}

/// Why a text has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unset {
    /// This environment variable is not set: the backend cannot be used for now.
    Missing(String),
    /// The text is wrong whatever the environment.
    Wrong(String),
}

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the environment variable {name} is not set"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl Place<'_> {
    /// `text` with the value of each `${NAME}`, or of `${NAME:-DEFAULT}` where it is not set; `$${`
    /// stands for `${`. Values are not looked into again.
    pub(super) fn text(&self, text: &str) -> Result<String, Unset> {
        let (mut result, mut rest) = (String::new(), text);
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                result.push_str(&rest[..at]);
                result.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            result.push_str(&rest[..at]);
            let (reference, after) = rest[at + 2..]
                .split_once('}')
                .ok_or_else(|| Unset::Wrong("`${` without `}`".to_owned()))?;
            result.push_str(&self.value(reference)?);
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }

    /// A text, or `file:PATH`.
    pub(super) fn secret(&self, text: &str) -> Result<Secret, Unset> {
        let text = self.text(text)?;
        Ok(match text.strip_prefix("file:") {
            Some(path) => Secret::file(self.folder.join(path)),
            None => Secret::text(text),
        })
    }

    fn value(&self, reference: &str) -> Result<String, Unset> {
        if let Some(input) = reference.strip_prefix("input:") {
            return Err(Unset::Wrong(format!(
                "nobody can be asked for the input `{input}` here: use an environment variable, ${{NAME}}, or file:PATH"
            )));
        }
        let reference = reference.strip_prefix("env:").unwrap_or(reference);
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_variable(name) {
            return Err(Unset::Wrong(format!(
                "`${{{reference}}}` is not known: write ${{NAME}} for an environment variable, $${{ for ${{ itself"
            )));
        }
        let value = (self.variable)(name).filter(|value| !value.is_empty());
        value
            .or_else(|| default.map(str::to_owned))
            .ok_or_else(|| Unset::Missing(name.to_owned()))
    }
}

/// A name that an environment variable can have.
pub(super) fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(legal) && !name.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, Unset> {
        let variable = |name: &str| match name {
            "HOST" => Some("example.org".to_owned()),
            "TRICK" => Some("${HOST}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let place = Place {
            variable: &variable,
            folder: Path::new("/etc"),
        };
        place.text(text)
    }

    #[test]
    fn variables_are_put_in_once() {
        for (from, to) in [
            ("", ""),
            ("http://${HOST}/${HOST}", "http://example.org/example.org"),
            ("${env:HOST}", "example.org"),
            ("${TRICK}", "${HOST}"),
            (
                "$HOST $(HOST) `HOST` ~ {HOST}",
                "$HOST $(HOST) `HOST` ~ {HOST}",
            ),
            ("$${HOST} ${HOST}", "${HOST} example.org"),
            ("${NONE:-a:-b}${EMPTY:-c}${HOST:-d}", "a:-bcexample.org"),
        ] {
            assert_eq!(text(from).as_deref(), Ok(to), "{from}");
        }
        assert_eq!(text("${NONE}"), Err(Unset::Missing("NONE".into())));
        assert_eq!(text("${EMPTY}"), Err(Unset::Missing("EMPTY".into())));
        for wrong in [
            "${HOST",
            "${}",
            "${a b}",
            "${1}",
            "${input:token}",
            "${workspaceFolder:x}",
            "${$(id)}",
        ] {
            assert!(matches!(text(wrong), Err(Unset::Wrong(_))), "{wrong}");
        }
    }
}
