//! Expands `${NAME}` to an environment variable.

use std::fmt;

/// The reason why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub enum ExpandError {
    /// This environment variable is not set.
    Missing(String),
    /// A `${` without its `}`.
    Open,
    /// This text between `${` and `}` is no variable.
    Unknown(String),
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the environment variable {name} is not set"),
            Self::Open => f.write_str("`${` without `}`"),
            Self::Unknown(reference) => write!(
                f,
                "`${{{reference}}}` is not known: write ${{NAME}} for an environment variable, and $${{ for a literal ${{"
            ),
        }
    }
}

/// Replaces each `${NAME}` and `${NAME:-DEFAULT}` in `text`; `$${` becomes `${`. Values are not expanded again.
///
/// # Errors
/// If a variable is not set or empty, and has no default, or the syntax is wrong.
pub fn expand(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExpandError> {
    let (mut result, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            result.push_str(&rest[..at]);
            result.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        result.push_str(&rest[..at]);
        let (reference, after) = rest[at + 2..].split_once('}').ok_or(ExpandError::Open)?;
        result.push_str(&value(reference, variable)?);
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

fn value(
    reference: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExpandError> {
    let text = reference.strip_prefix("env:").unwrap_or(reference);
    let (name, default) = match text.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (text, None),
    };
    if !is_variable(name) {
        return Err(ExpandError::Unknown(reference.to_owned()));
    }
    let value = variable(name).filter(|value| !value.is_empty());
    value
        .or_else(|| default.map(str::to_owned))
        .ok_or_else(|| ExpandError::Missing(name.to_owned()))
}

/// Returns true for a valid name of an environment variable.
pub fn is_variable(name: &str) -> bool {
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
        expand(text, &variable)
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
        assert_eq!(text("${HOST"), Err(ExpandError::Open));
        for wrong in ["", "a b", "1", "input:token", "workspaceFolder:x", "$(id)"] {
            let unknown = ExpandError::Unknown(wrong.to_owned());
            assert_eq!(text(&format!("${{{wrong}}}")), Err(unknown), "{wrong}");
        }
    }
}
