//! Recognises secrets by their names.

/// Parts that mark a name as a secret's at any position.
const ANYWHERE: &str = "password passwd passphrase secret token apikey accesskey accountkey privatekey sessionid \
    sessid credential basicauth requirepass masterauth mnemonic";

/// Parts that mark a name as a secret's as a whole word: `AUTH`, but not `author`.
const WORDS: &str = "pass pwd pw auth xauth authorization cred creds jwt dsn cookie salt pat key keys pin otp \
     totp passcode";

/// Words of settings whose values are secrets if they look random: `LICENSE`, but not of `MIT`.
const RANDOM: &str = "signing license licence seed encryption hmac psk webhook sas";

/// Parameters of URLs that give access to the URL.
const PARAMETERS: &str = "sig signature";

/// Last words of names that describe a secret without holding it.
const ABOUT: &str = "file path dir sock socket type ttl timeout enabled host port length algorithm policy name error status domain \
     consent count limit";

/// Beginnings of words that contain a part of [`ANYWHERE`] or of [`WORDS`] and have nothing to do with it: `secretary`.
const INNOCENT: [&str; 4] = ["secretar", "secretive", "tokeniz", "passthrough"];

/// First words of names that count tokens: `MAX_TOKENS`.
const COUNTS: &str = "max min num total prompt completion input output cached reasoning used";

/// Exceptions in JSON, where these mostly mean something else: `sortKey`, `credentialId`, the `sessionId` of a chat.
const NOT_IN_JSON: [&str; 4] = ["key", "keys", "credential", "sessionid"];

/// Parts of member names that only look like a secret's, such as cursors and token counts.
const NO_SECRET_MEMBER: &str = "page next sync cursor count max type url";

/// Returns true if the value of `name` is probably a secret: `DB_PASSWORD`, `apiKey`,
/// `--access-token`, `com.example.secret`.
pub(super) fn is_secret(name: &str) -> bool {
    if matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    has_secret(name, &[])
}

/// The same for a setting, of an environment or a label, with its value.
pub(super) fn is_secret_setting(name: &str, value: &str) -> bool {
    let is_random = value.len() >= 8 && value.bytes().any(|byte| byte.is_ascii_digit());
    let describes = |word: &String| ABOUT.split(' ').any(|about| about == word);
    is_secret(name)
        || (is_random && {
            let words = words(name);
            !words.last().is_some_and(describes)
                && RANDOM
                    .split(' ')
                    .any(|it| words.iter().any(|word| word == it))
        })
}

/// The same for parameters of URLs.
pub(super) fn is_secret_parameter(name: &str) -> bool {
    let last = words(name).pop().unwrap_or_default();
    is_secret_member(name)
        || last == name && last == "key"
        || PARAMETERS.split(' ').any(|it| it == last)
}

/// The same for members of JSON, with more exceptions.
pub(super) fn is_secret_member(name: &str) -> bool {
    let letters = name.chars().filter(|c| c.is_ascii_alphanumeric());
    let joined: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    // It is no count.
    let joined = joined.replace("account", "");
    let innocent = NO_SECRET_MEMBER
        .split(' ')
        .any(|part| joined.contains(part));
    // The token of a URL that continues a run of another service.
    let is_header = name.to_ascii_lowercase().starts_with("x-") && joined.ends_with("key");
    joined == "signature" || is_header || !innocent && has_secret(name, &NOT_IN_JSON)
}

fn has_secret(name: &str, except: &[&str]) -> bool {
    let words = words(name);
    let last = words.last().map_or("", String::as_str);
    let describes = ABOUT.split(' ').any(|word| word == last);
    if describes || words.iter().any(|word| word == "public") {
        return false;
    }
    let counts = |word: &String| COUNTS.split(' ').any(|counts| counts == word);
    if last == "tokens" && words.first().is_some_and(counts) {
        return false;
    }
    let without = |name: String, part: &&str| name.replace(*part, "");
    let joined = INNOCENT.iter().fold(words.concat(), without);
    let mut anywhere = ANYWHERE.split(' ').filter(|part| !except.contains(part));
    let mut whole = WORDS.split(' ').filter(|word| !except.contains(word));
    anywhere.any(|part| joined.contains(part))
        || whole.any(|part| joined.contains(part) && words.iter().any(|word| word == part))
}

/// Returns true for names that programs also print before other values: `key: users.email`,
/// `pass: 12`.
pub(super) fn is_ambiguous(name: &str) -> bool {
    matches!(
        &*name.to_ascii_lowercase(),
        "key" | "keys" | "pass" | "auth" | "cookie"
    )
}

/// The words of a name in lower case, split at punctuation and at `aB`.
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

    /// Names of secrets, in JSON and elsewhere.
    const SECRET: &str = "DB_PASSWORD MYSQL_ROOT_PASSWORD apiKey APIKEY x-api-key client_secret \
        accessToken --access-token SECRET_KEY_BASE AWS_SECRET_ACCESS_KEY com.example.secret GH_PAT \
        SENTRY_DSN REDIS_PASS BASIC_AUTH Authorization Proxy-Authorization Set-Cookie dbPwd tokens \
        PHPSESSID pin otp cardPin x-key X-Key";

    #[test]
    fn secret_names_are_recognised() {
        for name in SECRET.split(' ').chain(["N8N_ENCRYPTION_KEY", "KEY"]) {
            assert!(is_secret(name), "{name}");
        }
        let open = "PATH PWD OLDPWD AUTHOR KEYBOARD COMPASS_URL SSH_AUTH_SOCK TOKEN_TTL PUBLIC_KEY \
            DB_PASSWORD_FILE monkey org.opencontainers.image.authors - HOSTNAME MAX_TOKENS KeyError \
            cookie_consent COOKIE_DOMAIN secretary secretive passThrough tokenizer \
            apiKeyName authorization_status spin options";
        for name in open.split(' ').chain([""]) {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn secret_members_are_recognised() {
        for name in SECRET.split(' ') {
            assert!(is_secret_member(name), "{name}");
        }
        let open = "author nextPageToken authentication key sortKey max_tokens name tokenType \
            tokenUrl credentialId sessionId cookie_consent secretary secretive passThrough tokenizer \
            apiKeyName authorization_status pinned";
        for name in open.split(' ') {
            assert!(!is_secret_member(name), "{name}");
        }
    }

    #[test]
    fn random_values_of_some_settings_are_secrets() {
        for (name, value, is_secret) in [
            ("LICENSE", "MIT", false),
            ("APP_LICENSE", "abcdefg7", true),
            ("APP_LICENSE", "abcdef7", false),
            ("APP_LICENSE", "abcdefgh", false),
            ("LICENSE_FILE", "/etc/license7", false),
            ("SEED_PHRASE", "abcdefg7", true),
            ("HOSTNAME", "abcdefg7", false),
            ("PASSWORD", "x", true),
        ] {
            assert_eq!(is_secret_setting(name, value), is_secret, "{name}={value}");
        }
    }

    #[test]
    fn signatures_in_urls_are_secrets() {
        for (name, is_secret) in [
            ("sig", true),
            ("X-Amz-Signature", true),
            ("access_token", true),
            ("signature_version", false),
            ("page", false),
        ] {
            assert_eq!(is_secret_parameter(name), is_secret, "{name}");
        }
        assert!(!is_secret_member("sig"));
    }
}
