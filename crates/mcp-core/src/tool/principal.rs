//! The owner of a bearer token.

use std::sync::Arc;

/// The prefixes of claims. No token has a name that begins with one of them.
const PREFIXES: [&str; 4] = ["role:", "sub:", "group:", "scope:"];

/// The owner of a bearer token. Sessions, tasks and states belong to its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// Its unique name: that of a token in the token file, which is one word, or the issuer and the subject of
    /// an OAuth token, with a space between them. So neither can be taken for the other.
    pub name: Arc<str>,
    /// False for the owner of a token without a name of its own, who may be anybody.
    pub is_named: bool,
    /// Facts about it: `role:NAME` in the token file; `ISSUER sub:…`, `ISSUER group:…` and `ISSUER scope:…` in an
    /// OAuth token, and the same without the issuer if only one is configured.
    pub claims: Vec<Arc<str>>,
}

impl Principal {
    /// The principal with this name, without claims.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            is_named: true,
            claims: Vec::new(),
        }
    }

    /// The name of the role that the token file gives it.
    pub fn role(&self) -> Option<&str> {
        let mut claims = self.claims.iter();
        claims.find_map(|claim| claim.strip_prefix(PREFIXES[0]))
    }

    /// True if the text has the form of a claim, with or without an issuer.
    pub fn is_claim(text: &str) -> bool {
        let after_issuer = text.split_once(' ').map_or(text, |(_, rest)| rest);
        let begins = |prefix| text.starts_with(prefix) || after_issuer.starts_with(prefix);
        PREFIXES.into_iter().any(begins)
    }
}
