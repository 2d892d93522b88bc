//! The documents for clients of this server: the metadata of the resource (RFC 9728) and the challenges.

use anyhow::Context as _;
use http::HeaderValue;
use serde_json::json;

use super::fetch::check_url;

/// The path of the metadata, before that of the resource.
pub(crate) const PATH: &str = "/.well-known/oauth-protected-resource";

pub(super) struct Metadata {
    resource: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
    pub(super) json: String,
    /// [`PATH`] with the path of the resource.
    pub(super) path: String,
    /// Scheme and authority of the resource.
    pub(super) origin: String,
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
            resource: resource.to_owned(),
            issuers: issuers.to_vec(),
            scopes: scopes.to_vec(),
            json: document.to_string(),
            path,
            origin,
            host: uri.host().unwrap_or_default().to_owned(),
            invalid: header(format!("Bearer error=\"invalid_token\", {challenge}"))?,
            unauthorized: header(format!("Bearer {challenge}"))?,
            insufficient: header(format!("Bearer error=\"insufficient_scope\", {challenge}"))?,
        })
    }

    /// The documents of a view, which is a resource of its own; `None` for a name that no view has.
    pub(super) fn of_view(&self, name: &str) -> Option<Self> {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_legal) {
            return None;
        }
        let resource = view_resource(&self.resource, name);
        Self::new(&resource, &self.issuers, &self.scopes).ok()
    }
}

/// The URL of a view of this resource. That of the server may be its origin only, without the path `/mcp`.
pub(super) fn view_resource(resource: &str, name: &str) -> String {
    let base = resource.trim_end_matches('/');
    let has_path = base
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains('/'));
    let path = if has_path { "" } else { "/mcp" };
    format!("{base}{path}/{name}")
}
