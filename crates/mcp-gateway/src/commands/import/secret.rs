//! Tells what may be a secret. Without knowing what a value means, it is one unless it is plainly none.

use upstream::redact::Redactor;

/// Parts of names of variables, headers and options that hold secrets.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASS",
    "PWD",
    "CRED",
    "AUTH",
    "COOKIE",
    "DSN",
    "SIGNATURE",
    "_PAT",
];

/// Variables and headers that hold no secret, whatever their value.
const PLAIN_NAMES: &[&str] = &[
    "ACCEPT",
    "ACCEPT-LANGUAGE",
    "CONTENT-TYPE",
    "DEBUG",
    "HOME",
    "LANG",
    "LC_ALL",
    "LOG_LEVEL",
    "MCP-PROTOCOL-VERSION",
    "NODE_ENV",
    "NO_COLOR",
    "PATH",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "RUST_LOG",
    "TERM",
    "TZ",
    "USER-AGENT",
];

/// Values that are no secret, whatever their name.
const PLAIN_VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "debug",
    "development",
    "error",
    "false",
    "info",
    "no",
    "off",
    "on",
    "production",
    "stdio",
    "trace",
    "true",
    "warn",
    "yes",
];

/// Schemes of a header's value, before the secret.
const SCHEMES: &[&str] = &["Bearer ", "Basic ", "Token ", "token ", "bearer "];

/// True if the name of a variable, header or option is that of a secret.
pub(super) fn is_named(name: &str) -> bool {
    let name = name.to_uppercase().replace('-', "_");
    let names_file = name.ends_with("_FILE");
    let is_word = name == "PAT" || SECRET_WORDS.iter().any(|word| name.contains(word));
    !names_file && is_word
}

/// True if the value of a variable or header is plainly no secret.
pub(super) fn is_plain(name: &str, value: &str, can_refer: bool) -> bool {
    let is_known = PLAIN_NAMES.contains(&name.to_uppercase().as_str()) && !has_password(value);
    let (_, rest) = scheme(value);
    is_known || PLAIN_VALUES.contains(&value) || can_refer && is_reference(rest)
}

/// The scheme of a header's value, and the rest.
pub(super) fn scheme(value: &str) -> (&str, &str) {
    let found = SCHEMES.iter().find(|scheme| value.starts_with(**scheme));
    value.split_at(found.map_or(0, |scheme| scheme.len()))
}

/// True if a text is a reference to a variable and nothing else: `$NAME`, `${NAME}` or `${env:NAME}`.
pub(super) fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix('$').unwrap_or_default();
    let name = match name.strip_prefix('{') {
        Some(braced) => braced.strip_suffix('}').unwrap_or_default(),
        None => name,
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.chars().all(is_letter)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// True if a text has a URL with a user, which may be one with a password.
pub(super) fn has_password(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ']).next();
        authority.is_some_and(|authority| authority.contains('@'))
            || rest.contains('@') && !rest.contains('/')
    })
}

/// The word of a command line that may be a secret, by its option or variable.
pub(super) fn in_command(command: &[String], can_refer: bool) -> Option<String> {
    let is_reference = |text: &str| can_refer && is_reference(text);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    for (at, word) in words.iter().copied().enumerate().skip(1) {
        let before = words[at - 1];
        if has_password(word) {
            return Some("a URL with a user".to_owned());
        }
        let before_name = before.trim_start_matches('-');
        let is_option = before.starts_with('-') && !before.contains('=');
        let names_place = before_name.ends_with("file") || before_name.ends_with("env");
        let is_value = !word.starts_with('-') && !is_reference(word);
        if is_option && is_value && !names_place && (before == "-k" || is_named(before_name)) {
            return Some(before.to_owned());
        }
        let option = word.trim_start_matches('-');
        let is_header = matches!(before, "-H" | "--header" | "--headers")
            || ["header=", "headers="]
                .iter()
                .any(|start| option.starts_with(start))
            || word.starts_with("-H");
        let header = option
            .strip_prefix("headers=")
            .or(option.strip_prefix("header="));
        let header = header.or(word.strip_prefix("-H")).unwrap_or(word);
        if let Some((name, value)) = header
            .split_once(':')
            .filter(|(name, _)| is_header || is_named(name))
            && !is_plain(name.trim(), value.trim(), can_refer)
        {
            return Some(format!("the header {}", name.trim()));
        }
        // The variables of a container or of `env`.
        let variable = option.strip_prefix("env=").unwrap_or(option);
        let variable = variable
            .strip_prefix('e')
            .filter(|_| word.starts_with("-e"))
            .unwrap_or(variable);
        let Some((name, value)) = variable.split_once('=') else {
            continue;
        };
        let is_upper = !name.is_empty() && name.chars().all(|c| !c.is_lowercase());
        let is_variable = matches!(before, "-e" | "--env") || is_upper || variable != option;
        let names_place = name.ends_with("file") || name.ends_with("env");
        let is_secret = match is_variable {
            true => !is_plain(name, value, can_refer),
            false => is_named(name) && !names_place && !value.is_empty() && !is_reference(value),
        };
        if is_secret {
            return Some(match word.starts_with("--") && variable == option {
                true => format!("--{name}"),
                false => name.to_owned(),
            });
        }
    }
    // Words that look like a secret by themselves.
    let redactor = Redactor::new(true);
    let found = words
        .iter()
        .skip(1)
        .find(|word| !word.contains('$') && redactor.text(word) != **word);
    found.map(|_| "a word that looks like a key".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_command_lines_are_found() {
        let found = |words: &str| {
            let words: Vec<_> = words.split('|').map(str::to_owned).collect();
            in_command(&words, true)
        };
        for words in [
            "npx|mcp-remote|--header|Authorization: Bearer X",
            "npx|mcp-remote|--header=X-Thing: v",
            "npx|mcp-remote|-H|Cookie: a",
            "docker|run|-e|GITHUB_PERSONAL_ACCESS_TOKEN=X",
            "docker|run|--env=DB=X",
            "docker|run|-eDB=X",
            "env|DB_PASS=X|server",
            "x|postgresql://u:pw@h/db",
            "x|--url=https://u:pw@h/db",
            "x|-k|X",
            "x|--api-key|X",
            "x|--api-key=X",
            "x|-token|X",
            "x|--api-key|$X and more",
        ] {
            assert!(found(words).is_some(), "{words}");
        }
        for words in [
            "npx|-y|@scope/server@1.2.3|/home/me",
            "docker|run|-i|--rm|-e|GITHUB_TOKEN|ghcr.io/x/y:1",
            "npx|mcp-remote|https://example.org/mcp|--header|Authorization: Bearer ${X}",
            "x|--api-key|${KEY}|--token-file|/run/token|--port|8080",
            "x|--token-env|MCP_TOKEN|--stdio",
        ] {
            assert_eq!(found(words), None, "{words}");
        }
    }

    #[test]
    fn values_are_secrets_unless_they_are_plainly_none() {
        for (name, value) in [
            ("DATABASE_URL", "postgres://u:pw@h/db"),
            ("DB_PASS", "x"),
            ("GITHUB_PAT", "x"),
            ("Cookie", "x"),
            ("API_KEY", "$x and more"),
            ("API_KEY", "${X:-secret}"),
            ("API_KEY", "${X}y"),
        ] {
            assert!(!is_plain(name, value, true), "{name}={value}");
        }
        for (name, value) in [
            ("LOG_LEVEL", "x"),
            ("PLAIN", "yes"),
            ("API_KEY", "${X}"),
            ("API_KEY", "$X"),
            ("Authorization", "Bearer ${env:X}"),
        ] {
            assert!(is_plain(name, value, true), "{name}={value}");
        }
        assert!(!is_plain("API_KEY", "${X}", false));
    }
}
