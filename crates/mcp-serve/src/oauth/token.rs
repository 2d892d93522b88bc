//! One access token: its header, its signature and its claims.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use mcp_core::server::Principal;
use serde_json::{Map, Value};

use super::view_resource;
use crate::tokens::Credential;

/// Seconds by which the clocks of an issuer and this machine may differ.
const LEEWAY: u64 = 30;

/// Longest subject (OpenID Connect, 2).
const MAX_SUBJECT: usize = 255;

/// More than anybody has; a token with more is a mistake or an attack.
const MAX_CLAIMS: usize = 1000;

/// The conditions for a token.
pub(super) struct Rules {
    /// False if the claims of a principal need the name of its issuer.
    pub(super) has_one_issuer: bool,
    /// Scopes that each token needs.
    pub(super) scopes: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) audiences: Vec<String>,
    /// The URL of the server, below which its views have theirs; `None` if it is not an audience.
    pub(super) resource: Option<String>,
    /// In lower case, without `application/`.
    pub(super) types: Vec<String>,
    /// The claims with the name of the principal and with its groups.
    pub(super) subject_claim: String,
    pub(super) groups_claim: String,
}

/// The resources that a token is for.
#[derive(Clone)]
pub(super) enum Audience {
    /// The server with its views.
    Server,
    /// Views with these names.
    Views(Vec<String>),
}

impl Audience {
    /// The audience of these claims; `None` if it is another server.
    fn read(claims: &Map<String, Value>, rules: &Rules) -> Option<Self> {
        let named: Vec<&str> = texts(claims.get("aud"), false).collect();
        if named
            .iter()
            .any(|name| rules.audiences.iter().any(|known| known == name))
        {
            return Some(Self::Server);
        }
        let start = view_resource(rules.resource.as_ref()?, "");
        let views = named.into_iter();
        let views = views.filter_map(|name| Some(name.strip_prefix(&*start)?.to_owned()));
        let views: Vec<String> = views.collect();
        (!views.is_empty()).then_some(Self::Views(views))
    }

    /// True if the server, or the view with this name, is part of it.
    pub(super) fn includes(&self, view: Option<&str>) -> bool {
        match self {
            Self::Server => true,
            Self::Views(names) => view.is_some_and(|view| names.iter().any(|name| name == view)),
        }
    }
}

/// A token whose header fits, and whose signature is not checked yet.
pub(super) struct Unverified<'a> {
    token: &'a [u8],
    pub(super) issuer: String,
    pub(super) key: Option<String>,
    pub(super) algorithm: Algorithm,
}

impl<'a> Unverified<'a> {
    pub(super) fn read(token: &'a [u8], rules: &Rules) -> anyhow::Result<Self> {
        // `none` is no algorithm there.
        let header = decode_header(token).context("it is not a signed JWT")?;
        ensure!(
            rules.algorithms.contains(&header.alg),
            "the algorithm is not allowed"
        );
        let kind = header.typ.unwrap_or_default().to_ascii_lowercase();
        let kind = kind.strip_prefix("application/").unwrap_or(&kind);
        ensure!(
            rules.types.iter().any(|known| known == kind),
            "the type {kind:?} is not allowed"
        );
        ensure!(header.crit.is_none(), "the header has `crit`");
        let claims: Map<String, Value> = insecure_decode_claims(token)?;
        let issuer = claims.get("iss").and_then(Value::as_str);
        Ok(Self {
            token,
            issuer: issuer.context("`iss` is not a text")?.to_owned(),
            key: header.kid,
            algorithm: header.alg,
        })
    }

    /// Checks signature and claims. Returns the credential, true if it has the scopes that each token needs, and
    /// what it is for.
    pub(super) fn verify(
        &self,
        key: &DecodingKey,
        rules: &Rules,
    ) -> anyhow::Result<(Credential, bool, Audience)> {
        let mut validation = Validation::new(self.algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.issuer]);
        // Views are audiences, too.
        validation.validate_aud = false;
        let claims = decode::<Map<String, Value>>(self.token, key, &validation)?.claims;
        // RFC 7800: whoever has such a token must also prove that it has the key.
        ensure!(!claims.contains_key("cnf"), "it is bound to a key");
        let audience = Audience::read(&claims, rules).context("it is for another audience")?;
        let subject = claims.get(&rules.subject_claim).and_then(Value::as_str);
        let subject =
            subject.with_context(|| format!("`{}` is not a text", rules.subject_claim))?;
        ensure!(
            (1..=MAX_SUBJECT).contains(&subject.len()) && !subject.contains(char::is_control),
            "`{}` is empty, too long or has control characters",
            rules.subject_claim
        );
        // An issuer has no spaces: neither another issuer nor a token file can make this name.
        let name = format!("{} {subject}", self.issuer);
        ensure!(
            !Principal::is_claim(&name),
            "`{}` begins as a claim",
            rules.subject_claim
        );
        let scopes = claims.get("scope").or(claims.get("scp"));
        let scopes: Vec<&str> = texts(scopes, true).collect();
        let has_scopes = rules.scopes.iter().all(|scope| scopes.contains(&&**scope));
        let mut found = vec![format!("sub:{subject}")];
        let groups = texts(claims.get(&rules.groups_claim), false);
        found.extend(groups.map(|group| format!("group:{group}")));
        found.extend(scopes.iter().map(|scope| format!("scope:{scope}")));
        ensure!(
            found.len() <= MAX_CLAIMS,
            "there are more than {MAX_CLAIMS} groups and scopes"
        );
        let qualified = found.iter().map(|claim| format!("{} {claim}", self.issuer));
        let qualified = qualified.collect();
        // A group of one issuer is not that of another one.
        let found = match rules.has_one_issuer {
            true => [found, qualified].concat(),
            false => qualified,
        };
        let principal = Principal {
            claims: found.into_iter().map(Arc::from).collect(),
            ..Principal::new(name)
        };
        let expires = claims.get("exp").and_then(Value::as_f64);
        // A time that is not a number was refused above.
        let expires = expires.map(|end| (end as u64).saturating_add(LEEWAY));
        let credential = Credential::new(Arc::new(principal), expires);
        Ok((credential, has_scopes, audience))
    }
}

/// True if the signature is not that of the key.
pub(super) fn has_wrong_signature(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<jsonwebtoken::errors::Error>();
    error.is_some_and(|error| *error.kind() == ErrorKind::InvalidSignature)
}

/// The texts of a claim: a list, or one text, whose words are the texts if `has_words`.
fn texts(claim: Option<&Value>, has_words: bool) -> impl Iterator<Item = &str> {
    let (list, text) = match claim {
        Some(Value::Array(list)) => (&list[..], ""),
        Some(Value::String(text)) => (&[][..], text.as_str()),
        _ => (&[][..], ""),
    };
    let words = text.split(move |letter: char| has_words && letter == ' ');
    let texts = list.iter().filter_map(Value::as_str).chain(words);
    texts.filter(|text| !text.is_empty())
}
