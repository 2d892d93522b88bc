//! Bearer tokens, each with the name of its owner.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use mcp_core::server::Principal;
use parking_lot::RwLock;
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use crate::Secret;

/// The owner of a token without a name.
const DEFAULT_OWNER: &str = "client";

/// Interval at which the token file is read. A change is applied once two reads agree, because an editor
/// may be writing the file.
const RELOAD_INTERVAL: Duration = Duration::from_millis(500);

/// The valid tokens. Without any, no token is required. Has no `Debug`.
#[derive(Default)]
pub struct Tokens(RwLock<Vec<Token>>);

/// The credential of a request.
pub(crate) struct Credential {
    /// Its owner.
    pub(crate) principal: Arc<Principal>,
    /// Cancelled when it is not valid any more.
    pub(crate) revoked: CancellationToken,
}

struct Token {
    secret: String,
    credential: Arc<Credential>,
}

impl Tokens {
    /// Parses one token, or one per line: `NAME TOKEN`, or a token alone. Blank lines and lines that
    /// start with `#` are ignored.
    ///
    /// # Errors
    /// If a line has more than two words, or a name is repeated. Contains the number of the line, not its
    /// text.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        parse(text).map(|tokens| Self(RwLock::new(tokens)))
    }

    /// Returns true if no token is required.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// Returns the credential that a token is. Compares every token, each in constant time, so that the time
    /// reveals nothing about them.
    pub(crate) fn credential(&self, given: &[u8]) -> Option<Arc<Credential>> {
        let tokens = self.0.read();
        let mut found = None;
        for token in &*tokens {
            if bool::from(token.secret.as_bytes().ct_eq(given)) {
                found = Some(token);
            }
        }
        found.map(|token| Arc::clone(&token.credential))
    }

    /// Replaces the tokens by those of `text`. Tokens that are in both stay, with their streams.
    ///
    /// # Errors
    /// As [`Tokens::parse`], and if `text` contains no token. The tokens then stay unchanged.
    fn replace(&self, text: &str) -> anyhow::Result<()> {
        let mut new = parse(text)?;
        ensure!(!new.is_empty(), "it contains no token");
        let mut tokens = self.0.write();
        for token in tokens.drain(..) {
            match new.iter_mut().find(|new| new.is_same(&token)) {
                Some(new) => *new = token,
                None => token.credential.revoked.cancel(),
            }
        }
        *tokens = new;
        Ok(())
    }

    /// Follows the token file; `text` is its current content. Within 2 s a removed token is refused and its
    /// streams end, and a new one is accepted. While the file is unusable, the tokens stay unchanged.
    pub(crate) async fn follow(self: Arc<Self>, secret: Arc<Secret>, text: String) {
        let read = || async {
            let secret = Arc::clone(&secret);
            let text = tokio::task::spawn_blocking(move || secret.get()).await?;
            anyhow::Ok(text?.unwrap_or_default())
        };
        let read = || async { read().await.map_err(|error| error.to_string()) };
        let mut applied = Ok(text);
        let mut before = applied.clone();
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let text = read().await;
            if text != applied && text == before {
                let replaced = match &text {
                    Ok(text) => self.replace(text).map_err(|error| error.to_string()),
                    Err(error) => Err(error.clone()),
                };
                match replaced {
                    Ok(()) => tracing::info!("the token file has changed and was applied"),
                    Err(error) => {
                        tracing::warn!(
                            error,
                            "the token file is unusable; the last tokens stay valid"
                        );
                    }
                }
                applied.clone_from(&text);
            }
            before = text;
        }
    }
}

impl Token {
    fn is_same(&self, other: &Self) -> bool {
        self.credential.principal == other.credential.principal && self.secret == other.secret
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens: Vec<Token> = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, is_named, secret) = match words.as_slice() {
            [secret] => (DEFAULT_OWNER, false, *secret),
            [name, secret] => (*name, true, *secret),
            _ => anyhow::bail!("line {} of the tokens is not NAME TOKEN", at + 1),
        };
        ensure!(
            !Principal::is_claim(name),
            "line {} of the tokens has the name {name:?}, which is reserved: role:, sub:, group: and scope: \
             begin facts about a client",
            at + 1
        );
        let is_taken = tokens
            .iter()
            .any(|token| *token.credential.principal.name == *name);
        ensure!(
            !is_taken,
            "line {} of the tokens repeats the name {name:?}",
            at + 1
        );
        let principal = Arc::new(Principal {
            is_named,
            ..Principal::new(name)
        });
        tokens.push(Token {
            secret: secret.to_owned(),
            credential: Arc::new(Credential {
                principal,
                revoked: CancellationToken::new(),
            }),
        });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
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
        for text in ["a b c", "x 1\nx 2", "s3cret\ns3cret2"] {
            let error = Tokens::parse(text).err().unwrap().to_string();
            assert!(
                error.starts_with("line ") && !error.contains("s3cret"),
                "{error}"
            );
        }
        assert!(Tokens::parse(" \n#x").unwrap().is_empty());
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
        let (once, twice) = (RELOAD_INTERVAL * 6 / 5, RELOAD_INTERVAL * 2);
        assert_eq!(known(once).await, [true, false, false]);
        std::fs::write(&path, "b").unwrap();
        // Read once: an editor may still be writing.
        assert_eq!(known(RELOAD_INTERVAL).await, [true, false, false]);
        assert_eq!(known(RELOAD_INTERVAL).await, [false, true, false]);
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
}
