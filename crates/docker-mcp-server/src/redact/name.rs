//! Secrets by the name that they are stored under.

/// Give a name away wherever they stand in it.
const ANYWHERE: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
];

/// Give a name away as a word of their own: `AUTH`, but not `author`.
const WORDS: [&str; 14] = [
    "pass",
    "pwd",
    "pw",
    "auth",
    "authorization",
    "key",
    "keys",
    "cred",
    "creds",
    "jwt",
    "dsn",
    "cookie",
    "salt",
    "pat",
];

/// Last words of names that describe a secret and do not hold it.
const ABOUT: [&str; 14] = [
    "file",
    "path",
    "dir",
    "sock",
    "socket",
    "type",
    "ttl",
    "timeout",
    "enabled",
    "host",
    "port",
    "length",
    "algorithm",
    "policy",
];

/// Whether what is stored under `name` is probably a secret. Knows `DB_PASSWORD`, `apiKey`,
/// `--access-token`, `com.example.secret`.
pub(super) fn is_secret(name: &str) -> bool {
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let words = words(name);
    let last = words.last().map_or("", String::as_str);
    if ABOUT.contains(&last) || words.iter().any(|word| word == "public") {
        return false;
    }
    let joined = words.concat();
    ANYWHERE.iter().any(|part| joined.contains(part))
        || words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether `name` is a word that programs also print before what is no secret: `key: users.email`,
/// `pass: 12`.
pub(super) fn is_ambiguous(name: &str) -> bool {
    matches!(
        &*name.to_ascii_lowercase(),
        "key" | "keys" | "pass" | "auth" | "cookie"
    )
}

/// The words of a name in lower case, cut at punctuation and at `aB`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let secret = [
            "DB_PASSWORD",
            "MYSQL_ROOT_PASSWORD",
            "apiKey",
            "APIKEY",
            "x-api-key",
            "--access-token",
            "SECRET_KEY_BASE",
            "AWS_SECRET_ACCESS_KEY",
            "com.example.secret",
            "GH_PAT",
            "SENTRY_DSN",
            "REDIS_PASS",
            "BASIC_AUTH",
            "Authorization",
            "dbPwd",
            "tokens",
            "N8N_ENCRYPTION_KEY",
        ];
        for name in secret {
            assert!(is_secret(name), "{name}");
        }
        let open = [
            "PATH",
            "PWD",
            "OLDPWD",
            "AUTHOR",
            "KEYBOARD",
            "COMPASS_URL",
            "SSH_AUTH_SOCK",
            "TOKEN_TTL",
            "PUBLIC_KEY",
            "DB_PASSWORD_FILE",
            "monkey",
            "org.opencontainers.image.authors",
            "",
            "-",
            "HOSTNAME",
        ];
        for name in open {
            assert!(!is_secret(name), "{name}");
        }
    }
}
