//! Who may call: bearer tokens, each with the name of whom it was given to.

use std::sync::Arc;

use anyhow::ensure;
use subtle::ConstantTimeEq as _;

/// The tokens that let a client in; none means that everybody may. Has no `Debug`.
#[derive(Default)]
pub struct Tokens(Vec<Token>);

struct Token {
    name: Arc<str>,
    secret: String,
}

/// The name of a token that was given none.
const UNNAMED: &str = "client";

impl Tokens {
    /// Reads one token, or a file with a token a line: `NAME TOKEN`, or a token alone. Blank lines
    /// and lines that start with `#` do not count.
    ///
    /// # Errors
    /// When a line has more than two words, or a name stands twice. Says which line, not what.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut tokens: Vec<Token> = Vec::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, secret) = match words.as_slice() {
                [secret] => (UNNAMED, *secret),
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

    /// True if everybody may call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose token this is. Every token is compared, each in constant time, so that the time tells
    /// nothing about any of them.
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
    fn a_token_has_an_owner() {
        let tokens = Tokens::parse("# agents\nclaude abc\n\n  cursor   def \nghi\n").unwrap();
        let owner = |given| tokens.owner(given).map(AsRef::as_ref);
        assert_eq!(owner(b"abc"), Some("claude"));
        assert_eq!(owner(b"def"), Some("cursor"));
        assert_eq!(owner(b"ghi"), Some("client"));
        assert_eq!(owner(b"ab"), None);
        assert_eq!(owner(b""), None);
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_being_shown() {
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
