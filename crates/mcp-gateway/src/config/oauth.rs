//! The settings of tokens for a backend: `[backends.NAME.oauth]`.

use mcp_client::oauth::GrantType;
use mcp_client::tls::TlsFiles;
use serde::Deserialize;

use super::Secret;
use super::error::Problem;
use super::reader::FieldReader;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuthEntry {
    grant: Grant,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_metadata: Option<String>,
    scope: Option<String>,
    issuer: Option<String>,
    ca: Option<String>,
    redirect_port: Option<u16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Grant {
    ClientCredentials,
    Login,
}

/// The way in which the gateway gets tokens for a backend. Has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OAuthSettings {
    /// The name of the backend.
    pub(crate) backend: String,
    pub(crate) grant: GrantType,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) client_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) issuer: Option<String>,
    /// The CA of the authorization server.
    pub(crate) tls: TlsFiles,
    pub(crate) redirect_port: u16,
}

impl OAuthEntry {
    pub(super) fn check(
        self,
        backend: &str,
        reader: &mut FieldReader<'_>,
    ) -> Result<OAuthSettings, Problem> {
        let wrong = |field: &str, text: &str| {
            Err(Problem::new(&["backends", backend, "oauth", field], text))
        };
        let grant = match self.grant {
            Grant::ClientCredentials => GrantType::ClientCredentials,
            Grant::Login => GrantType::Login,
        };
        if grant == GrantType::ClientCredentials {
            if self.client_id.is_none() {
                return wrong(
                    "grant",
                    "`client_credentials` needs `client_id` and `client_secret`",
                );
            }
            if self.client_secret.is_none() {
                return wrong(
                    "client_id",
                    "needs `client_secret` with `client_credentials`",
                );
            }
        }
        if self.client_secret.is_some() && self.client_id.is_none() {
            return wrong("client_secret", "needs `client_id`");
        }
        if self.client_id.is_some() && self.issuer.is_none() {
            let text = "needs `issuer`, the authorization server that knows it: the backend could name another one";
            return wrong("client_id", text);
        }
        let mut text = |text: Option<String>| {
            let expanded = text.map(|text| reader.text("oauth", &text));
            expanded.transpose()
        };
        let (client_id, scope) = (text(self.client_id)?, text(self.scope)?);
        let (issuer, document) = (text(self.issuer)?, text(self.client_metadata)?);
        let is_url = |text: &String| text.starts_with("https://") || text.starts_with("http://");
        if issuer.as_ref().is_some_and(|issuer| !is_url(issuer)) && reader.missing.is_none() {
            return wrong("issuer", "must be the URL of an authorization server");
        }
        if document
            .as_ref()
            .is_some_and(|url| !url.starts_with("https://"))
            && reader.missing.is_none()
        {
            return wrong("client_metadata", "must be a URL with https://");
        }
        let client_secret = match self.client_secret {
            Some(secret) => reader.secret("oauth", &secret)?,
            None => None,
        };
        Ok(OAuthSettings {
            backend: backend.to_owned(),
            grant,
            client_id,
            client_secret,
            client_metadata: document,
            scope,
            issuer,
            tls: reader.tls("https://", [self.ca, None, None])?,
            redirect_port: self.redirect_port.unwrap_or(0),
        })
    }
}
