//! Reads `WWW-Authenticate` (RFC 9110, 11.6.1).

/// Limit of the scopes of one challenge, in bytes; longer ones are ignored.
const MAX_SCOPE: usize = 1024;

/// A server's words about the token that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Reads the first challenge with the scheme `Bearer`.
    pub(super) fn read(values: &[String]) -> Self {
        let mut challenge = Self::default();
        let is_bearer = |value: &&String| {
            let scheme = value.split_whitespace().next().unwrap_or_default();
            scheme.eq_ignore_ascii_case("bearer")
        };
        let Some(value) = values.iter().find(is_bearer) else {
            return challenge;
        };
        let mut rest = value.trim_start()["bearer".len()..].trim_start();
        while let Some((name, after)) = rest.split_once('=') {
            let (text, after) = parameter(after.trim_start());
            let field = match name.trim().to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                _ => &mut None,
            };
            field.get_or_insert(text);
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        challenge.scope.take_if(|scope| scope.len() > MAX_SCOPE);
        challenge
    }
}

/// Splits the value of a parameter, a token or a quoted string, from the rest.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in quoted.char_indices() {
        match character {
            _ if escaped => {
                value.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_challenge_is_found_and_read() {
        let read = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            let found = Challenge::read(&values);
            [found.resource_metadata, found.scope, found.error].map(Option::unwrap_or_default)
        };
        for (values, expected) in [
            (&[][..], ["", "", ""]),
            (&["Basic realm=\"x\""], ["", "", ""]),
            (&["Bearer"], ["", "", ""]),
            (
                &[
                    "Basic",
                    "bearer scope=\"a b\", resource_metadata=\"https://x/y\",error=e",
                ],
                ["https://x/y", "a b", "e"],
            ),
            (
                &["Bearer realm=\"a,\\\"scope=no\", scope=one error=two"],
                ["", "one", "two"],
            ),
            (&["Bearer scope=\"open"], ["", "open", ""]),
            (&["Bearer =,=,==\"\","], ["", "", ""]),
        ] {
            assert_eq!(read(values), expected, "{values:?}");
        }
        let long = format!("Bearer scope=\"{}\"", "s".repeat(MAX_SCOPE + 1));
        assert_eq!(read(&[&long]), ["", "", ""]);
    }
}
