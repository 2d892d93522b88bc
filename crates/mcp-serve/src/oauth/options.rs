//! The options of the resource server.

use std::str::FromStr as _;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use jsonwebtoken::Algorithm;

use super::keys::{IssuerKeys, Source, install_ring};
use super::token::Rules;
use super::{Metadata, ResourceServer, check_url};

/// The options of the resource server. Without an issuer there is none. Those that `--help` hides have no variable, and
/// stand in the configuration file only.
#[derive(Args, Clone, Default)]
#[group(skip)]
pub(crate) struct OauthOptions {
    /// OAuth issuers whose access tokens are valid here, separated by commas. Their metadata names their
    /// keys. Tokens of --token-file stay valid.
    #[arg(
        long = "auth-issuer",
        env = "MCP_AUTH_ISSUER",
        value_name = "URL",
        value_delimiter = ','
    )]
    #[arg(help_heading = "Access", hide_short_help = true)]
    issuers: Vec<String>,

    /// URL by which clients call this server, such as https://mcp.example/mcp. Access tokens must be made
    /// for it.
    #[arg(long = "auth-resource", env = "MCP_AUTH_RESOURCE", value_name = "URL")]
    #[arg(help_heading = "Access", hide_short_help = true)]
    resource: Option<String>,

    /// Audiences of access tokens, instead of --auth-resource, for issuers that do not know resources;
    /// separated by commas.
    #[arg(
        long = "auth-audience",
        env = "MCP_AUTH_AUDIENCE",
        value_name = "NAME",
        value_delimiter = ','
    )]
    #[arg(help_heading = "Access", hide_short_help = true)]
    audiences: Vec<String>,

    /// URL or file of the keys of the only issuer, instead of what its metadata says.
    #[arg(long = "auth-jwks", value_name = "URL|FILE",
          value_hint = clap::ValueHint::AnyPath)]
    #[arg(help_heading = "Issuer", hide_short_help = true, hide_long_help = true)]
    jwks: Option<String>,

    /// Algorithms by which access tokens may be signed, separated by commas: RS256 to RS512, PS256 to
    /// PS512, ES256, ES384 and EdDSA.
    #[arg(
        long = "auth-algorithms",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "ES256,RS256"
    )]
    #[arg(help_heading = "Issuer", hide_short_help = true, hide_long_help = true)]
    algorithms: Vec<String>,

    /// Types of access tokens; add JWT for an issuer that has no type of its own for them.
    #[arg(
        long = "auth-token-types",
        value_name = "TYPE",
        value_delimiter = ',',
        default_value = "at+jwt"
    )]
    #[arg(help_heading = "Issuer", hide_short_help = true, hide_long_help = true)]
    types: Vec<String>,

    /// Scopes that every access token needs, separated by commas.
    #[arg(
        long = "auth-scopes",
        env = "MCP_AUTH_SCOPES",
        value_name = "SCOPE",
        value_delimiter = ','
    )]
    #[arg(help_heading = "Access", hide_short_help = true)]
    scopes: Vec<String>,

    /// Claim with the name of the client.
    #[arg(
        long = "auth-subject-claim",
        value_name = "CLAIM",
        default_value = "sub"
    )]
    #[arg(help_heading = "Issuer", hide_short_help = true, hide_long_help = true)]
    subject_claim: String,

    /// Claim with the groups of the client.
    #[arg(
        long = "auth-groups-claim",
        value_name = "CLAIM",
        default_value = "groups"
    )]
    #[arg(help_heading = "Issuer", hide_short_help = true, hide_long_help = true)]
    groups_claim: String,
}

impl OauthOptions {
    /// Creates the resource server; `None` without an issuer.
    pub(crate) fn build(&self) -> anyhow::Result<Option<ResourceServer>> {
        let filled = |list: &[String]| -> Vec<String> {
            let list = list.iter().map(|text| text.trim().to_owned());
            list.filter(|text| !text.is_empty()).collect()
        };
        let filled_text = |text: &Option<String>| {
            let text = text.as_deref().map(str::trim).unwrap_or_default();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let (issuers, scopes) = (filled(&self.issuers), filled(&self.scopes));
        let mut audiences = filled(&self.audiences);
        let (jwks, resource) = (filled_text(&self.jwks), filled_text(&self.resource));
        if issuers.is_empty() {
            let is_alone =
                resource.is_none() && jwks.is_none() && audiences.is_empty() && scopes.is_empty();
            ensure!(
                is_alone,
                "--auth-issuer is missing: the other --auth options need it"
            );
            return Ok(None);
        }
        let resource =
            resource.context("--auth-issuer needs --auth-resource, the URL of this server")?;
        for issuer in &issuers {
            let checked = check_url(issuer);
            checked.with_context(|| format!("--auth-issuer {issuer:?}"))?;
        }
        let is_scope = |scope: &String| {
            scope
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
        };
        ensure!(
            scopes.iter().all(is_scope),
            "--auth-scopes: a scope is one word without quotes"
        );
        let metadata = Metadata::new(&resource, &issuers, &scopes);
        let metadata = metadata.with_context(|| format!("--auth-resource {resource:?}"))?;
        let is_audience = audiences.is_empty();
        if is_audience {
            audiences.push(resource.clone());
        }
        ensure!(
            jwks.is_none() || issuers.len() == 1,
            "auth_jwks needs one --auth-issuer, whose keys they are"
        );
        let source = || -> anyhow::Result<Source> {
            Ok(match &jwks {
                None => Source::Discovery,
                Some(url) if url.contains("://") => {
                    check_url(url).with_context(|| format!("auth_jwks {url:?}"))?;
                    Source::Url(url.clone())
                }
                Some(file) => Source::File(file.into()),
            })
        };
        let mut keys = Vec::new();
        for issuer in issuers {
            keys.push(Arc::new(IssuerKeys::new(issuer, source()?)));
        }
        let types = filled(&self.types).into_iter();
        let types = types.map(|kind| kind.to_ascii_lowercase());
        install_ring();
        Ok(Some(ResourceServer {
            rules: Rules {
                has_one_issuer: keys.len() == 1,
                scopes,
                algorithms: self.algorithms()?,
                audiences,
                resource: is_audience.then_some(resource),
                types: types.collect(),
                subject_claim: self.subject_claim.clone(),
                groups_claim: self.groups_claim.clone(),
            },
            issuers: keys,
            metadata,
            verified: parking_lot::Mutex::default(),
        }))
    }

    fn algorithms(&self) -> anyhow::Result<Vec<Algorithm>> {
        let algorithms = self.algorithms.iter().map(|name| {
            let name = name.trim();
            let algorithm = Algorithm::from_str(name).ok();
            // A server that can check an HMAC can make one: it is no signature of an issuer.
            let algorithm = algorithm.filter(|_| !name.starts_with("HS"));
            algorithm.with_context(|| {
                format!("auth_algorithms: {name:?} is not known or is no signature")
            })
        });
        algorithms.collect()
    }
}
