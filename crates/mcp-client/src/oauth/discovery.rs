//! Finds the authorization server of a server: RFC 9728, then RFC 8414 or OpenID Connect Discovery.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::OAuth;
use super::challenge::Challenge;
use crate::Error;
use crate::http::Content;

/// The metadata of a protected resource (RFC 9728).
#[derive(Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The metadata of an authorization server (RFC 8414).
#[derive(Clone, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The server that asks for a token, and its authorization server.
pub(super) struct Discovered {
    /// The identifier of the server, as it publishes it.
    pub(super) resource: String,
    pub(super) server: AuthorizationServer,
    /// The scopes that the server names.
    pub(super) scope: Option<String>,
}

impl OAuth {
    /// Finds the authorization server that `challenge` leads to.
    pub(super) async fn discover(&self, challenge: &Challenge) -> Result<Discovered, Error> {
        let own = self.server_url.as_str();
        let (resource, issuer, supported) = match self.resource(challenge).await? {
            Some(found) => {
                if !is_part_of(own, &found.resource) {
                    return Err(self.problem("its metadata is of another resource than its URL"));
                }
                let issuers = &found.authorization_servers;
                let issuer = match &self.config.issuer {
                    Some(issuer) if issuers.contains(issuer) => Some(issuer),
                    Some(_) => {
                        let text = "its metadata does not name the `issuer` that is configured";
                        return Err(self.problem(text));
                    }
                    None => issuers.first(),
                };
                let missing = || self.problem("its metadata names no authorization server");
                let issuer = issuer.ok_or_else(missing)?.clone();
                (found.resource, issuer, found.scopes_supported)
            }
            // Servers of 2025-03-26 are at the same origin as their authorization server.
            None => {
                let issuer = self.config.issuer.clone();
                let origin = || self.server_url.origin().ascii_serialization();
                (own.to_owned(), issuer.unwrap_or_else(origin), Vec::new())
            }
        };
        let server = self.authorization_server(&issuer).await?;
        let named = challenge.scope.clone();
        let supported = (!supported.is_empty()).then(|| supported.join(" "));
        Ok(Discovered {
            resource,
            server,
            scope: named.or(supported),
        })
    }

    async fn resource(&self, challenge: &Challenge) -> Result<Option<Resource>, Error> {
        if let Some(address) = &challenge.resource_metadata {
            let url = self.allowed(address)?;
            let found = self.document(url).await?;
            let missing = || self.problem("there is no metadata at the address that it names");
            return found.ok_or_else(missing).map(Some);
        }
        let name = "oauth-protected-resource";
        for url in [
            well_known(&self.server_url, name),
            root(&self.server_url, name),
        ] {
            if let Some(found) = self.document(url).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn authorization_server(&self, issuer: &str) -> Result<AuthorizationServer, Error> {
        let url = self.allowed(issuer)?;
        let mut addresses = vec![
            well_known(&url, "oauth-authorization-server"),
            well_known(&url, "openid-configuration"),
        ];
        if url.path() != "/" {
            let mut inside = url.clone();
            let path = url.path().trim_end_matches('/');
            inside.set_path(&format!("{path}/.well-known/openid-configuration"));
            addresses.push(inside);
        }
        for address in addresses {
            let Some(found) = self.document::<AuthorizationServer>(address).await? else {
                continue;
            };
            if found.issuer != issuer {
                let text = "the metadata of its authorization server is of another issuer";
                return Err(self.problem(text));
            }
            return Ok(found);
        }
        Err(self.problem("its authorization server has no metadata (RFC 8414)"))
    }

    /// Reads a document; `None` if there is none.
    async fn document<T: DeserializeOwned>(&self, url: Url) -> Result<Option<T>, Error> {
        let (status, body) = self.fetch(&url, Content::None, None).await?;
        if !status.is_success() {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&body).ok())
    }
}

/// Returns true if `url` is in the resource: the same origin, and a path below that of the resource.
fn is_part_of(url: &str, resource: &str) -> bool {
    let (Ok(url), Ok(resource)) = (url.parse::<Url>(), resource.parse::<Url>()) else {
        return false;
    };
    let path = resource.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(path);
    url.origin() == resource.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Puts `/.well-known/NAME` before the path of a URL.
fn well_known(url: &Url, name: &str) -> Url {
    let mut address = root(url, name);
    let path = url.path().trim_end_matches('/');
    address.set_path(&format!("/.well-known/{name}{path}"));
    address
}

fn root(url: &Url, name: &str) -> Url {
    let mut address = url.clone();
    address.set_path(&format!("/.well-known/{name}"));
    address.set_query(None);
    address.set_fragment(None);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_the_server_or_above_it() {
        for (resource, is_part) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://a.example/", true),
            ("https://a.example/x/mc", false),
            ("https://a.example/x/mcp/y", false),
            ("https://b.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("x", false),
        ] {
            let found = is_part_of("https://a.example/x/mcp", resource);
            assert_eq!(found, is_part, "{resource}");
        }
    }

    #[test]
    fn well_known_path_comes_before_the_path() {
        let url: Url = "https://a.example:8/t/m?q".parse().unwrap();
        let address = |url| String::from(well_known(url, "n"));
        assert_eq!(address(&url), "https://a.example:8/.well-known/n/t/m");
        let url: Url = "https://a.example".parse().unwrap();
        assert_eq!(address(&url), "https://a.example/.well-known/n");
    }
}
