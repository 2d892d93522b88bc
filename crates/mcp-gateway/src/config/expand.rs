//! Expands `${NAME}` to an environment variable, and `file:PATH` to the content of a file.

use std::fmt;
use std::path::Path;

use super::Secret;

/// The environment variables, and the folder of relative paths.
pub(super) struct Environment<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) folder: &'a Path,
}

/// The reason why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpandError {
    /// This environment variable is not set; the backend is disabled.
    Missing(String),
    /// The syntax is wrong.
    Wrong(String),
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the environment variable {name} is not set"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl Environment<'_> {
    /// Replaces each `${NAME}` and `${NAME:-DEFAULT}` in `text`; `$${` becomes `${`. Values are not
    /// expanded again.
    pub(super) fn text(&self, text: &str) -> Result<String, ExpandError> {
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
                .ok_or_else(|| ExpandError::Wrong("`${` without `}`".to_owned()))?;
            result.push_str(&self.value(reference)?);
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }

    /// Expands a text or `file:PATH` to a secret.
    pub(super) fn secret(&self, text: &str) -> Result<Secret, ExpandError> {
        let text = self.text(text)?;
        Ok(match text.strip_prefix("file:") {
            Some(path) => Secret::File(self.folder.join(path)),
            None => Secret::Text(text),
        })
    }

    fn value(&self, reference: &str) -> Result<String, ExpandError> {
        if let Some(input) = reference.strip_prefix("input:") {
            return Err(ExpandError::Wrong(format!(
                "the gateway cannot ask for the input `{input}`: use an environment variable, ${{NAME}}, or file:PATH"
            )));
        }
        let reference = reference.strip_prefix("env:").unwrap_or(reference);
        let (name, default) = match reference.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (reference, None),
        };
        if !is_variable(name) {
            return Err(ExpandError::Wrong(format!(
                "`${{{reference}}}` is not known: write ${{NAME}} for an environment variable, and $${{ for a literal ${{"
            )));
        }
        let value = (self.variable)(name).filter(|value| !value.is_empty());
        value
            .or_else(|| default.map(str::to_owned))
            .ok_or_else(|| ExpandError::Missing(name.to_owned()))
    }
}

/// Returns true for a valid name of an environment variable.
pub(super) fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(legal) && !name.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<String, ExpandError> {
        let variable = |name: &str| match name {
            "HOST" => Some("example.org".to_owned()),
            "TRICK" => Some("${HOST}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let environment = Environment {
            variable: &variable,
            folder: Path::new("/etc"),
        };
        environment.text(text)
    }

    #[test]
    fn variables_are_expanded_once() {
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
        assert_eq!(text("${NONE}"), Err(ExpandError::Missing("NONE".into())));
        assert_eq!(text("${EMPTY}"), Err(ExpandError::Missing("EMPTY".into())));
        for wrong in [
            "${HOST",
            "${}",
            "${a b}",
            "${1}",
            "${input:token}",
            "${workspaceFolder:x}",
            "${$(id)}",
        ] {
            assert!(matches!(text(wrong), Err(ExpandError::Wrong(_))), "{wrong}");
        }
    }
}
