//! Bearer tokens, each with the name of its owner.

use std::sync::Arc;

use anyhow::ensure;
use subtle::ConstantTimeEq as _;

/// The valid tokens. Without any, no token is required. Has no `Debug`.
#[derive(Default)]
pub struct Tokens(Vec<Token>);

struct Token {
    name: Arc<str>,
    secret: String,
}

/// The owner of a token without a name.
const DEFAULT_OWNER: &str = "client";

impl Tokens {
    /// Parses one token, or one per line: `NAME TOKEN`, or a token alone. Blank lines and lines that
    /// start with `#` are ignored.
    ///
    /// # Errors
    /// If a line has more than two words, or a name is repeated. Contains the number of the line, not its
    /// text.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut tokens: Vec<Token> = Vec::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, secret) = match words.as_slice() {
                [secret] => (DEFAULT_OWNER, *secret),
                [name, secret] => (*name, *secret),
                _ => anyhow::bail!("line {} of the tokens is not NAME TOKEN", at + 1),
            };
            let taken = tokens.iter().any(|token| *token.name == *name);
            ensure!(!taken, "line {} of the tokens names {name:?} again", at + 1);
            tokens.push(Token {
                name: name.into(),
                secret: secret.to_owned(),
            });
        }
        Ok(Self(tokens))
    }

    /// Returns true if no token is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the owner of a token. Compares every token, each in constant time, so that the time
    /// reveals nothing about them.
    pub(crate) fn owner(&self, given: &[u8]) -> Option<&Arc<str>> {
        let mut owner = None;
        for token in &self.0 {
            if bool::from(token.secret.as_bytes().ct_eq(given)) {
                owner = Some(&token.name);
            }
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_has_an_owner() {
        let tokens = Tokens::parse("# agents\nclaude abc\n\n  cursor   def \nghi\n").unwrap();
        let owner = |given| tokens.owner(given).map(AsRef::as_ref);
        assert_eq!(owner(b"abc"), Some("claude"));
        assert_eq!(owner(b"def"), Some("cursor"));
        assert_eq!(owner(b"ghi"), Some("client"));
        assert_eq!(owner(b"ab"), None);
        assert_eq!(owner(b""), None);
    }

    #[test]
    fn error_of_an_invalid_token_file_does_not_contain_its_text() {
        for text in ["a b c", "x 1\nx 2", "s3cret\ns3cret2"] {
            let error = Tokens::parse(text).err().unwrap().to_string();
            assert!(
                error.starts_with("line ") && !error.contains("s3cret"),
                "{error}"
            );
        }
        assert!(Tokens::parse(" \n#x").unwrap().is_empty());
    }
}
