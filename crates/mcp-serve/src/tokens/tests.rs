//! Tests of the valid tokens.

use std::time::Duration;

use super::*;

fn owner(tokens: &Tokens, given: &[u8]) -> Option<String> {
    tokens
        .credential(given)
        .map(|credential| credential.principal.name.to_string())
}

#[test]
fn token_belongs_to_a_principal() {
    let tokens = Tokens::parse("# agents\nclaude abc\n\n  cursor   def \nghi\n").unwrap();
    assert_eq!(owner(&tokens, b"abc").as_deref(), Some("claude"));
    assert_eq!(owner(&tokens, b"def").as_deref(), Some("cursor"));
    assert_eq!(owner(&tokens, b"ghi").as_deref(), Some("client"));
    assert_eq!(owner(&tokens, b"ab"), None);
    assert_eq!(owner(&tokens, b""), None);
}

#[test]
fn unreadable_tokens_are_refused_without_being_shown() {
    let hash = "0".repeat(64);
    for text in [
        "a b s3cret",
        "x 1\nx 2",
        "x s3cret\ny s3cret",
        "s3cret\ns3cret2",
        "x s3cret role=",
        "x s3cret role=a role=b",
        "x s3cret rolle=a",
        "x s3cret expires=s3cret",
        "x s3cret expires=2026-01-31",
        "x sha256:s3cret",
        "sub:x s3cret",
        &format!("sha256:{hash}"),
        &format!("x sha256:{hash}0"),
        &format!("x sha256:+{}", &hash[1..]),
    ] {
        let error = format!("{:#}", Tokens::parse(text).err().unwrap());
        assert!(
            error.starts_with("line ") && !error.contains("s3cret"),
            "{error}"
        );
    }
    assert!(Tokens::parse(" \n#x").unwrap().is_empty());
}

#[test]
fn hashed_token_has_a_role_and_ends() {
    let hash: String = digest(b"abc")
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let tokens = format!(
        "ada sha256:{hash} expires=2099-01-01T00:00:00+01:00 role=oncall\nbob b expires=2020-01-01T00:00:00Z"
    );
    let tokens = Tokens::parse(&tokens).unwrap();
    let credential = tokens.credential(b"abc").unwrap();
    assert_eq!(credential.principal.role(), Some("oncall"));
    assert_eq!(owner(&tokens, b"b"), None);
    assert!(!tokens.is_empty());
    // An end that is moved, and another role, are another credential: its streams end.
    tokens
        .replace(&format!("ada sha256:{hash} role=oncall"))
        .unwrap();
    assert!(credential.revoked.is_cancelled());
    assert_eq!(owner(&tokens, b"abc").as_deref(), Some("ada"));
}

#[test]
fn last_token_can_be_revoked_and_one_is_still_required() {
    let tokens = Tokens::parse("ada a").unwrap();
    tokens.replace("# ada was revoked").unwrap();
    assert_eq!(owner(&tokens, b"a"), None);
    assert!(!tokens.is_empty());
}

#[test]
fn replaced_tokens_are_revoked_and_kept_ones_are_not() {
    let tokens = Tokens::parse("alice a\nbob b\ncarol c").unwrap();
    let [alice, bob, carol] = [b"a", b"b", b"c"].map(|given| tokens.credential(given).unwrap());
    for unusable in ["", "x y z", "alice 1\nalice 2"] {
        assert!(tokens.replace(unusable).is_err(), "{unusable:?}");
        assert_eq!(owner(&tokens, b"a").as_deref(), Some("alice"));
    }
    tokens.replace("dave d\nalice a\nbob new").unwrap();
    assert!(Arc::ptr_eq(&tokens.credential(b"a").unwrap(), &alice));
    assert!(!alice.revoked.is_cancelled());
    assert!(bob.revoked.is_cancelled() && carol.revoked.is_cancelled());
    assert_eq!(owner(&tokens, b"b"), None);
    assert_eq!(owner(&tokens, b"new").as_deref(), Some("bob"));
    assert_eq!(owner(&tokens, b"d").as_deref(), Some("dave"));
}

#[tokio::test(start_paused = true)]
async fn token_file_is_followed() {
    let path = std::env::temp_dir().join(format!("mcp-serve-tokens-{}", std::process::id()));
    std::fs::write(&path, "a\n").unwrap();
    let tokens = Arc::new(Tokens::parse("a").unwrap());
    let secret = Arc::new(Secret::new(None, Some(path.clone())));
    let following = tokio::spawn(Arc::clone(&tokens).follow(secret, "a".into()));
    let known = async |wait: Duration| {
        tokio::time::sleep(wait).await;
        ["a", "b", "c"].map(|token| tokens.credential(token.as_bytes()).is_some())
    };
    let (once, twice) = (READ_INTERVAL * 6 / 5, READ_INTERVAL * 2);
    assert_eq!(known(once).await, [true, false, false]);
    std::fs::write(&path, "b").unwrap();
    // Read once: an editor may still be writing.
    assert_eq!(known(READ_INTERVAL).await, [true, false, false]);
    assert_eq!(known(READ_INTERVAL).await, [false, true, false]);
    for unusable in ["", "a b c", "b\nc"] {
        std::fs::write(&path, unusable).unwrap();
        assert_eq!(known(twice).await, [false, true, false], "{unusable:?}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(known(twice).await, [false, true, false]);
    std::fs::write(&path, "c").unwrap();
    assert_eq!(known(twice).await, [false, false, true]);
    following.abort();
    std::fs::remove_file(&path).unwrap();
}
