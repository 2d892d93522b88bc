//! Expands `${NAME}` to an environment variable.

use std::fmt;

/// The reason why a text cannot be expanded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExpandError {
    /// This environment variable is not set.
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

/// Replaces each `${NAME}` and `${NAME:-DEFAULT}` in `text`; `$${` becomes `${`. Values are not expanded again.
///
/// # Errors
/// If a variable is not set or empty, and has no default, or the syntax is wrong.
pub(super) fn expand(
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
        let (reference, after) = rest[at + 2..]
            .split_once('}')
            .ok_or_else(|| ExpandError::Wrong("`${` without `}`".to_owned()))?;
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
    let value = variable(name).filter(|value| !value.is_empty());
    value
        .or_else(|| default.map(str::to_owned))
        .ok_or_else(|| ExpandError::Missing(name.to_owned()))
}

/// Returns true for a valid name of an environment variable.
fn is_variable(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(legal) && !name.as_bytes()[0].is_ascii_digit()
}
