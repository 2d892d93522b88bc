//! Finds the authorization server of a server: its `WWW-Authenticate` (RFC 9110, 11.6.1), RFC 9728, then
//! RFC 8414 or OpenID Connect Discovery.

use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::OAuth;
use crate::Error;
use crate::proxy::{address_of, is_link_local, is_loopback};

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
        let (resource, issuer, supported) = match self.resource(challenge).await? {
            Some((place, found)) => {
                if !is_of(&self.server_url, &found.resource, &place) {
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
                let mut own = self.server_url.clone();
                own.set_query(None);
                own.set_fragment(None);
                (own.into(), issuer.unwrap_or_else(origin), Vec::new())
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

    /// The metadata of the server, and their address.
    async fn resource(&self, challenge: &Challenge) -> Result<Option<(Url, Resource)>, Error> {
        if let Some(address) = &challenge.resource_metadata {
            let url = self.allowed(address)?;
            let (_, found) = self.document(&url).await?;
            let missing = || self.problem("there is no metadata at the address that it names");
            return found.map(|found| Some((url, found))).ok_or_else(missing);
        }
        let name = "oauth-protected-resource";
        for url in [
            well_known(&self.server_url, name),
            root(&self.server_url, name),
        ] {
            if let (_, Some(found)) = self.document(&url).await? {
                return Ok(Some((url, found)));
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
        let mut failed = None;
        for address in addresses {
            let (status, found) = self.document::<AuthorizationServer>(&address).await?;
            let Some(found) = found else {
                failed = failed.or(Some(status).filter(StatusCode::is_server_error));
                continue;
            };
            if found.issuer != issuer {
                let text = "the metadata of its authorization server is of another issuer";
                return Err(self.problem(text));
            }
            return Ok(found);
        }
        Err(match failed {
            Some(status) => Error::unavailable(&url, &format!("HTTP {}", status.as_u16())),
            None => self.problem("its authorization server has no metadata (RFC 8414)"),
        })
    }

    /// Reads a document; `None` if there is none.
    async fn document<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<(StatusCode, Option<T>), Error> {
        let (status, body) = self.fetch(url, None, None).await?;
        let found = status.is_success().then(|| serde_json::from_slice(&body));
        Ok((status, found.and_then(Result::ok)))
    }
}

/// Returns true if metadata at `place` that name this resource are of the server at `url`: they name its URL, or
/// one above it and are at the well-known place of that. Else one of several servers on a host could name the
/// whole host, and get tokens for its neighbours.
fn is_of(url: &Url, resource: &str, place: &Url) -> bool {
    let Ok(resource) = resource.parse::<Url>() else {
        return false;
    };
    let path = resource.path().trim_end_matches('/');
    let own = url.path().trim_end_matches('/');
    let is_above = own
        .strip_prefix(path)
        .is_some_and(|rest| rest.starts_with('/'));
    let is_at_home = *place == well_known(&resource, "oauth-protected-resource");
    url.origin() == resource.origin() && (own == path || is_above && is_at_home)
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

/// Limit of the scopes of one challenge, in bytes; longer ones are ignored.
const MAX_SCOPE: usize = 1024;

/// A server's words about the token that it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
}

impl Challenge {
    /// Reads the first challenge with the scheme `Bearer`.
    pub(super) fn read(values: &[String]) -> Self {
        let mut challenge = Self::default();
        let is_bearer = |value: &&String| {
            let scheme = value.split_whitespace().next().unwrap_or_default();
            scheme.eq_ignore_ascii_case("bearer")
        };
        let Some(value) = values.iter().find(is_bearer) else {
            return challenge;
        };
        let mut rest = value.trim_start()["bearer".len()..].trim_start();
        while let Some((name, after)) = rest.split_once('=') {
            let (text, after) = parameter(after.trim_start());
            let field = match name.trim().to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                _ => &mut None,
            };
            field.get_or_insert(text);
            rest = after.trim_start().trim_start_matches(',').trim_start();
        }
        challenge.scope.take_if(|scope| scope.len() > MAX_SCOPE);
        challenge
    }
}

/// Splits the value of a parameter, a token or a quoted string, from the rest.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, character) in quoted.char_indices() {
        match character {
            _ if escaped => {
                value.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(character),
        }
    }
    (value, "")
}

/// Returns an address that `server` or its authorization server names if it may be asked: `https` on another machine; on
/// this machine, or with `http`, only what the operator has named.
pub(super) fn allowed(server: &Url, issuer: Option<&str>, address: &str) -> Option<Url> {
    let url: Url = address.parse().ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    let issuer: Option<Url> = issuer.and_then(|issuer| issuer.parse().ok());
    let mut named = [Some(server), issuer.as_ref()].into_iter().flatten();
    let is_named = named.any(|named| named.origin() == url.origin());
    let may_be_local = is_loopback(server);
    let is_nowhere = is_link_local(&url) || address_of(&url).is_some_and(|ip| ip.is_unspecified());
    let is_allowed = match url.scheme() {
        "https" => !is_nowhere && (!is_loopback(&url) || may_be_local),
        "http" => is_loopback(&url) && may_be_local,
        _ => false,
    };
    (is_plain && (is_allowed || is_named)).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_the_server_or_one_above_it_that_says_so_itself() {
        let url: Url = "https://a.example/x/mcp?key=1".parse().unwrap();
        let anywhere = "https://b.example/metadata";
        let root = "https://a.example/.well-known/oauth-protected-resource";
        let above = "https://a.example/.well-known/oauth-protected-resource/x";
        let own = "https://a.example/.well-known/oauth-protected-resource/x/mcp";
        for (resource, place, expected) in [
            ("https://a.example/x/mcp", anywhere, true),
            ("https://a.example/x/mcp/", own, true),
            ("https://a.example/x", anywhere, false),
            ("https://a.example/x", own, false),
            ("https://a.example/x", root, false),
            ("https://a.example/x", above, true),
            ("https://a.example", above, false),
            ("https://a.example", own, false),
            ("https://a.example", root, true),
            ("https://a.example/", root, true),
            ("https://a.example/x/mc", anywhere, false),
            ("https://a.example/x/mcp/y", anywhere, false),
            ("https://b.example/x/mcp", own, false),
            ("http://a.example/x/mcp", own, false),
            ("x", own, false),
        ] {
            let found = is_of(&url, resource, &place.parse().unwrap());
            assert_eq!(found, expected, "{resource} {place}");
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

    #[test]
    fn bearer_challenge_is_found_and_read() {
        let read = |values: &[&str]| {
            let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
            let found = Challenge::read(&values);
            [found.resource_metadata, found.scope].map(Option::unwrap_or_default)
        };
        for (values, expected) in [
            (&[][..], ["", ""]),
            (&["Basic realm=\"x\""], ["", ""]),
            (&["Bearer"], ["", ""]),
            (
                &[
                    "Basic",
                    "bearer scope=\"a b\", resource_metadata=\"https://x/y\",error=e",
                ],
                ["https://x/y", "a b"],
            ),
            (
                &["Bearer realm=\"a,\\\"scope=no\", scope=one error=two"],
                ["", "one"],
            ),
            (
                &["Bearer error=e resource_metadata=two, scope=\"a\""],
                ["two", "a"],
            ),
            (&["Bearer scope=\"open"], ["", "open"]),
            (&["Bearer =,=,==\"\","], ["", ""]),
        ] {
            assert_eq!(read(values), expected, "{values:?}");
        }
        let long = format!("Bearer scope=\"{}\"", "s".repeat(MAX_SCOPE + 1));
        assert_eq!(read(&[&long]), ["", ""]);
    }

    #[test]
    fn server_cannot_point_into_this_machine_or_its_link() {
        let remote = "https://mcp.example/mcp";
        let local = "http://127.0.0.1:1/mcp";
        let plain = "http://mcp.lan/mcp";
        let keycloak = Some("http://keycloak:8080/realms/a");
        for (server, issuer, url, expected) in [
            (remote, None, "https://login.example/x", true),
            (remote, None, "http://login.example/x", false),
            (remote, None, "https://127.0.0.1/x", false),
            (remote, None, "https://[::1]/x", false),
            (remote, None, "https://localhost/x", false),
            (remote, None, "https://2130706433/x", false),
            (remote, None, "https://169.254.169.254/x", false),
            (remote, None, "https://[::ffff:169.254.169.254]/x", false),
            (remote, None, "https://user@login.example/x", false),
            (remote, None, "file:///etc/passwd", false),
            (remote, keycloak, "http://keycloak:8080/b", true),
            (remote, keycloak, "http://keycloak:81/b", false),
            (plain, None, "http://mcp.lan/x", true),
            (plain, None, "http://127.0.0.1/x", false),
            (local, None, "http://localhost:2/x", true),
            (local, None, "http://10.0.0.1/x", false),
        ] {
            let found = allowed(&server.parse().unwrap(), issuer, url).is_some();
            assert_eq!(found, expected, "{server} {issuer:?} {url}");
        }
    }
}
