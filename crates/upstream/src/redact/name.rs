//! Secrets by the name that they are stored under.

/// Give a name away wherever they stand in it.
const ANYWHERE: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "sessionid",
    "credential",
];

/// Give a name away as a word of their own: `AUTH`, but not `author`.
const WORDS: [&str; 15] = [
    "pass",
    "pwd",
    "pw",
    "auth",
    "xauth",
    "authorization",
    "cred",
    "creds",
    "jwt",
    "dsn",
    "cookie",
    "salt",
    "pat",
    "key",
    "keys",
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

/// Of the above, those that are most often something else in JSON: `sortKey`, `credentialId`.
const NOT_IN_JSON: [&str; 3] = ["key", "keys", "credential"];

/// Stand in names of members that only look like a secret's: where a list goes on, how much was
/// used.
const NO_SECRET_MEMBER: [&str; 8] = [
    "page", "next", "sync", "cursor", "count", "max", "type", "url",
];

/// Whether a value that is stored under `name` is probably a secret. Knows `DB_PASSWORD`, `apiKey`,
/// `--access-token`, `com.example.secret`.
pub(super) fn is_secret(name: &str) -> bool {
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    has_secret(name, &[])
}

/// The same for a member of JSON, or a parameter of a URL, of which there are many more kinds.
pub(super) fn is_secret_member(name: &str) -> bool {
    let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
    let joined: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let innocent = NO_SECRET_MEMBER.iter().any(|part| joined.contains(part));
    !innocent && has_secret(name, &NOT_IN_JSON)
}

fn has_secret(name: &str, except: &[&str]) -> bool {
    let words = words(name);
    let last = words.last().map_or("", String::as_str);
    if ABOUT.contains(&last) || words.iter().any(|word| word == "public") {
        return false;
    }
    let counts = |part: &&&str| !except.contains(*part);
    let joined = words.concat();
    ANYWHERE
        .iter()
        .filter(counts)
        .any(|part| joined.contains(part))
        || WORDS
            .iter()
            .filter(counts)
            .any(|part| words.iter().any(|word| word == part))
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

    /// Names of secrets wherever they are stored.
    const SECRET: &str = "DB_PASSWORD MYSQL_ROOT_PASSWORD apiKey APIKEY x-api-key client_secret \
        accessToken --access-token SECRET_KEY_BASE AWS_SECRET_ACCESS_KEY com.example.secret GH_PAT \
        SENTRY_DSN REDIS_PASS BASIC_AUTH Authorization Proxy-Authorization Set-Cookie dbPwd tokens \
        sessionId";

    #[test]
    fn names_of_values_are_told_apart() {
        for name in SECRET.split(' ').chain(["N8N_ENCRYPTION_KEY", "KEY"]) {
            assert!(is_secret(name), "{name}");
        }
        let open = "PATH PWD OLDPWD AUTHOR KEYBOARD COMPASS_URL SSH_AUTH_SOCK TOKEN_TTL PUBLIC_KEY \
            DB_PASSWORD_FILE monkey org.opencontainers.image.authors - HOSTNAME";
        for name in open.split(' ').chain([""]) {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn names_of_members_are_told_apart() {
        for name in SECRET.split(' ') {
            assert!(is_secret_member(name), "{name}");
        }
        let open = "author nextPageToken authentication key sortKey max_tokens name tokenType \
            tokenUrl credentialId";
        for name in open.split(' ') {
            assert!(!is_secret_member(name), "{name}");
        }
    }
}
