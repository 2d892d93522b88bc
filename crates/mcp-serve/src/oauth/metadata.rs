//! The documents for clients of this server: the metadata of the resource (RFC 9728) and the challenges.

use anyhow::Context as _;
use http::HeaderValue;
use serde_json::json;

use super::fetch::check_url;

/// The path of the metadata, before that of the resource.
pub(crate) const PATH: &str = "/.well-known/oauth-protected-resource";

pub(super) struct Metadata {
    pub(super) json: String,
    /// [`PATH`] with the path of the resource.
    pub(super) path: String,
    /// The host name of the resource.
    pub(super) host: String,
    /// `WWW-Authenticate` of an answer 401 without and with a token, and 403.
    pub(super) unauthorized: HeaderValue,
    pub(super) invalid: HeaderValue,
    pub(super) insufficient: HeaderValue,
}

impl Metadata {
    pub(super) fn new(
        resource: &str,
        issuers: &[String],
        scopes: &[String],
    ) -> anyhow::Result<Self> {
        let uri = check_url(resource)?;
        let origin = match (uri.scheme_str(), uri.authority()) {
            (Some(scheme), Some(authority)) => format!("{scheme}://{authority}"),
            _ => String::new(),
        };
        let path = format!("{PATH}{}", uri.path().trim_end_matches('/'));
        let mut document = json!({
            "resource": resource,
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        let mut challenge = format!("resource_metadata=\"{origin}{path}\"");
        if !scopes.is_empty() {
            document["scopes_supported"] = json!(scopes);
            challenge += &format!(", scope=\"{}\"", scopes.join(" "));
        }
        let header = |text: String| HeaderValue::from_str(&text).context("is not ASCII");
        Ok(Self {
            json: document.to_string(),
            path,
            host: uri.host().unwrap_or_default().to_owned(),
            invalid: header(format!("Bearer error=\"invalid_token\", {challenge}"))?,
            unauthorized: header(format!("Bearer {challenge}"))?,
            insufficient: header(format!("Bearer error=\"insufficient_scope\", {challenge}"))?,
        })
    }
}
