//! Secrets by the name that they are stored under.

/// Give a name away wherever they stand in it.
const ANYWHERE: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "accesskey",
];
/// Give a name away when they are all of it.
const ALONE: [&str; 8] = [
    "authorization",
    "proxyauthorization",
    "cookie",
    "setcookie",
    "auth",
    "xauth",
    "sessionid",
    "jwt",
];
/// Stand in names of what only looks like a secret: where a list goes on, how much was used.
const INNOCENT: [&str; 8] = [
    "page", "next", "sync", "cursor", "count", "max", "type", "url",
];

/// Whether what is stored under `name` is probably a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    if ALONE.contains(&plain.as_str()) {
        return true;
    }
    ANYWHERE.iter().any(|part| plain.contains(part))
        && !INNOCENT.iter().any(|part| plain.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for secret in [
            "Authorization",
            "x-api-key",
            "client_secret",
            "accessToken",
            "DB_PASSWORD",
            "Set-Cookie",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for innocent in [
            "author",
            "nextPageToken",
            "authentication",
            "key",
            "max_tokens",
            "name",
            "tokenType",
        ] {
            assert!(!is_secret(innocent), "{innocent}");
        }
    }
}
