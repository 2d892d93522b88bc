//! Tests of the valid tokens.

use std::time::Duration;

use super::*;

/// The credential of the token that begins with `start`, as all of these tests end in the same way.
fn credential(tokens: &Tokens, start: &str) -> Option<Arc<Credential>> {
    tokens.credential(format!("{start}-0123456789abcde").as_bytes())
}

/// The owner of that token; empty if it is not valid.
fn owner(tokens: &Tokens, start: &str) -> String {
    let credential = credential(tokens, start);
    credential.map_or_else(String::new, |found| found.principal.name.to_string())
}

#[test]
fn token_belongs_to_a_principal() {
    let tokens = Tokens::parse("# agents\nclaude abc-0123456789abcde\n\n  cursor   def-0123456789abcde \nghi-0123456789abcde\n").unwrap();
    let owners = ["abc", "def", "ghi", "ab"].map(|start| owner(&tokens, start));
    assert_eq!(owners, ["claude", "cursor", "client", ""]);
    assert!(tokens.credential(b"").is_none());
}

#[test]
fn unreadable_tokens_are_refused_without_being_shown() {
    let hash = "0".repeat(64);
    for text in [
        "a b s3cret-of-16-chars",
        "x 1\nx 2",
        "x s3cret-of-16-chars\ny s3cret-of-16-chars",
        "s3cret-of-16-chars\ns3cret2",
        "x s3cret-of-16-chars role=",
        "x s3cret-of-16-chars role=a role=b",
        "x s3cret-of-16-chars rolle=a",
        "x s3cret-of-16-chars expires=s3cret-of-16-chars",
        "x s3cret-of-16-chars expires=2026-01-31",
        "x sha256:s3cret-of-16-chars",
        "sub:x s3cret-of-16-chars",
        &format!("sha256:{hash}"),
        &format!("x sha256:{hash}0"),
        &format!("x sha256:+{}", &hash[1..]),
    ] {
        let error = format!("{:#}", Tokens::parse(text).err().unwrap());
        assert!(
            error.starts_with("line ") && !error.contains("s3cret-of-16-chars"),
            "{error}"
        );
    }
    assert!(Tokens::parse(" \n#x").unwrap().is_empty());
}

#[test]
fn hashed_token_has_a_role_and_ends() {
    let hash: String = digest(b"abc-0123456789abcde")
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let tokens = format!(
        "ada sha256:{hash} expires=2099-01-01T00:00:00+01:00 role=oncall\nbob b-0123456789abcde expires=2020-01-01T00:00:00Z"
    );
    let tokens = Tokens::parse(&tokens).unwrap();
    let credential = credential(&tokens, "abc").unwrap();
    assert_eq!(credential.principal.role(), Some("oncall"));
    assert_eq!(owner(&tokens, "b"), "");
    assert!(!tokens.is_empty());
    // An end that is moved, and another role, are another credential: its streams end.
    tokens
        .replace(&format!("ada sha256:{hash} role=oncall\n"))
        .unwrap();
    assert!(credential.revoked.is_cancelled());
    assert_eq!(owner(&tokens, "abc"), "ada");
}

#[test]
fn replaced_tokens_are_revoked_and_kept_ones_are_not() {
    let tokens =
        Tokens::parse("alice a-0123456789abcde\nbob b-0123456789abcde\ncarol c-0123456789abcde")
            .unwrap();
    let [alice, bob, carol] = ["a", "b", "c"].map(|start| credential(&tokens, start).unwrap());
    for unusable in [
        "",
        "x y-0123456789abcde z",
        "alice 1-0123456789abcde\nalice 2-0123456789abcde",
        "alice a-0123456789abcde\nbob b-0123456789",
        "a-0123456789abcd\u{e9}",
        "a-0123456789abcd\u{0}\u{1}",
        "a\u{1b} a-0123456789abcde",
        // Cut off: after a name of the length of a token, and before a role or an end.
        "alice a-0123456789abcde\nbob-of-the-night-shift",
        "alice a-0123456789abcde\ndave d-0123456789abcde",
        "alice a-0123456789abcde\ndave d-0123456789abcde ",
        "alice a-0123456789abcde\ndave d-0123456789abcde role=on",
        "bob-of-the-night-shift",
    ] {
        assert!(tokens.replace(unusable).is_err(), "{unusable:?}");
        assert_eq!(owner(&tokens, "a"), "alice");
    }
    tokens
        .replace("dave d-0123456789abcde\nbob new-0123456789abcde\nalice a-0123456789abcde")
        .unwrap();
    assert!(Arc::ptr_eq(&credential(&tokens, "a").unwrap(), &alice));
    assert!(!alice.revoked.is_cancelled());
    assert!(bob.revoked.is_cancelled() && carol.revoked.is_cancelled());
    let owners = ["b", "new", "d"].map(|start| owner(&tokens, start));
    assert_eq!(owners, ["", "bob", "dave"]);
    // The last one can be revoked, and one is still required.
    tokens.replace("# all were revoked").unwrap();
    assert_eq!(owner(&tokens, "d"), "");
    assert!(!tokens.is_empty());
}

#[tokio::test(start_paused = true)]
async fn token_file_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "a-0123456789abcde\n").unwrap();
    let tokens = Arc::new(Tokens::parse("a-0123456789abcde").unwrap());
    let secret = Arc::new(Secret::new(None, Some(path.clone())));
    let text = "a-0123456789abcde\n".to_owned();
    let following = tokio::spawn(Arc::clone(&tokens).follow(secret, text));
    let known = async |wait: Duration| {
        tokio::time::sleep(wait).await;
        ["a", "b", "c"].map(|start| credential(&tokens, start).is_some())
    };
    let (once, twice) = (READ_INTERVAL * 6 / 5, READ_INTERVAL * 2);
    assert_eq!(known(once).await, [true, false, false]);
    std::fs::write(&path, "b-0123456789abcde").unwrap();
    // Read once: an editor may still be writing.
    assert_eq!(known(READ_INTERVAL).await, [true, false, false]);
    assert_eq!(known(READ_INTERVAL).await, [false, true, false]);
    for unusable in [
        "",
        "a b-0123456789abcde c",
        "b-0123456789abcde\nc-0123456789abcde",
        "c",
        "c-012345678",
    ] {
        std::fs::write(&path, unusable).unwrap();
        assert_eq!(known(twice).await, [false, true, false], "{unusable:?}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(known(twice).await, [false, true, false]);
    for (text, is_taken) in [
        ("cleo c-0123456789abcde", false),
        ("cleo c-0123456789abcde\n", true),
    ] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(known(twice).await, [false, !is_taken, is_taken], "{text:?}");
    }
    following.abort();
}
